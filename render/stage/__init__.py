"""The stage: many images at once, by workers that may die, on this machine or on Ray's cluster."""
