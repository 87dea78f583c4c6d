"""The exit codes, and the one line that an error becomes."""

from __future__ import annotations

import click

from ident.cli.terminal import printable
from ident.render.errors import Failed, Impossible


class Terminated(KeyboardInterrupt):
    """SIGTERM: what stops for Ctrl-C stops for it, too."""


def explain(error: BaseException, *, goes_on: bool) -> tuple[int, str]:
    """The exit code of an error, and one line for the user (the help, if no command was given)."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            return 2, error.format_message()
        case click.ClickException():
            code, text = 2, error.format_message()
        case Impossible():
            code, text = 2, str(error)
        case Failed():
            code, text = 1, str(error)
        case KeyboardInterrupt() | click.Abort():
            code = 143 if isinstance(error, Terminated) or isinstance(error.__cause__, Terminated) else 130
            text = "stopped" + "; typed again, the same command goes on with what it has kept" * goes_on
        case OSError(filename=name, strerror=reason) if reason:
            code, text = 1, f"{name}: {reason}" if name else reason
        case _:
            code, text = 1, f"{type(error).__name__}: {error} (--debug shows where)"
    return code, f"ident: {printable(' '.join(text.split()))}"
