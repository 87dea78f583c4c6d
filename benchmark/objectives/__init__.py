"""What is trained: modules, and a loss of a batch."""
