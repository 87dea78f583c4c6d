"""Datasets from and to others: pull, push, import, export."""
