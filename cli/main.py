"""The command line from its first word to its exit code: signals, standard streams, and the errors of commands."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence

from ident.cli.commands import GOES_ON, ident
from ident.cli.errors import Terminated, explain
from ident.cli.terminal import say
from ident.render.children import SAFE_PATH


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Exit code 0: done, 2: asked for something impossible, 1: failed on the way, 130 and 143: stopped by Ctrl-C, SIGTERM.
    """
    fill_standard_streams()
    sys.unraisablehook = interrupt_again
    os.environ.update(SAFE_PATH)
    # Read as OpenMP is loaded: threads that wait by spinning take the cores from those that they wait for.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGTERM, terminate)
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    try:
        code = ident.main([word for word in words if word != "--debug"], prog_name="ident", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            say(traceback.format_exc(), err=True)
        name = next((word for word in words if not word.startswith("-")), "")
        code, line = explain(error, goes_on=name in GOES_ON and "--dry-run" not in words)
        say(line, err=True)
    sys.exit(code if isinstance(code, int) else 0)


def interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Let Ctrl-C come again where it was lost: Python ignores what is raised while h5py, say, gives an object back."""
    if isinstance(lost.exc_value, KeyboardInterrupt):
        number = signal.SIGTERM if isinstance(lost.exc_value, Terminated) else signal.SIGINT
        again = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, number))
        again.start()  # at once it would be lost here
    else:
        sys.__unraisablehook__(lost)


def terminate(*_: object) -> None:
    """The handler of SIGTERM."""
    raise Terminated


def fill_standard_streams() -> None:
    """Open what of stdin, stdout and stderr was closed: else a pipe may get its number and Blender's output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, this one
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: PTH123, SIM115
