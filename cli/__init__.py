"""The command `ident`. One module a command; each calls render or benchmark and holds no logic of its own."""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and "ident.cli" in " ".join(sys.orig_argv) and not sys.flags.safe_path:
    del sys.path[0]  # the working directory, which `python -m ident.cli` would import from before all else
