"""The two ways in which a command ends early, each with one line for the user."""

from __future__ import annotations


class Impossible(ValueError):
    """The user asked for something that cannot be done: what, the value given, what is allowed. Exit code 2."""


class Failed(RuntimeError):
    """Something went wrong on the way; what was done so far is kept. Exit code 1."""
