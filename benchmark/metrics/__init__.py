"""How well latents were recovered: scores, with intervals and chance."""
