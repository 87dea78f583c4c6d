"""From latents to pictures: the scene, the engine that renders it, and ways to look at it."""
