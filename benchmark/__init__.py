"""From a source and its pairs to trained encoders, their scores, and tables of these."""

from ident.render import elsewhere

elsewhere.keep()  # before any of this imports PyTorch
