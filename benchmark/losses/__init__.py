"""Contrastive losses, and the similarities that they compare by."""
