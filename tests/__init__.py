"""The tests, which start Python hundreds of times: it keeps what it compiles, whatever the shell's environment says."""

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
