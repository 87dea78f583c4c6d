"""What encoders see: latents, mixed by a network."""
