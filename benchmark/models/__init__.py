"""Encoders and decoders, and the space that an encoder's output is brought to."""
