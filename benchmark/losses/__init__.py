"""Losses as pure functions, contrastive and variational, and the similarities that pairs are compared by."""
