"""Where latents live, and how they are drawn."""
