"""`python -m tests.golden`: write all of it anew."""

from tests.golden import write

write()
