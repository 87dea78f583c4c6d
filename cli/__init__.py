"""The command `ident`: `main`, and a module for each command, which calls render or benchmark and holds no logic."""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and "ident.cli" in " ".join(sys.orig_argv) and not sys.flags.safe_path:
    # The working directory, which `python -m ident.cli` would import from before all else. What is itself called ident
    # there comes before this line: `python -P -m ident.cli` finds none of it, and the command `ident` never does.
    del sys.path[0]
