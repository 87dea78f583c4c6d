"""What encoders see, with its factors: latents that a network mixes, stored images, drawn ones."""
