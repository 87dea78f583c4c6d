"""The command `ident`. One module a command; each calls render or benchmark and holds no logic of its own."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version

import click

from ident.cli.bench import bench
from ident.cli.doctor import doctor
from ident.cli.export import export
from ident.cli.import_ import import_
from ident.cli.info import info
from ident.cli.pairs import pairs
from ident.cli.pull import pull
from ident.cli.push import push
from ident.cli.render import render
from ident.cli.report import report
from ident.cli.show import show
from ident.cli.verify import verify
from ident.render.errors import Failed, Impossible


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version("ident"), prog_name="ident")
@click.option("--debug", is_flag=True, help="Show the traceback of an error. May stand anywhere.")
def ident(debug: bool) -> None:
    """The 3DIdent benchmark: render the scenes, draw pairs, train and score, bring data from and to others."""


for command in (render, pairs, bench, report, pull, push, import_, export, verify, info, show, doctor):
    ident.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Exit code 0: done, 2: asked for something impossible, 1: failed on the way."""
    fill_standard_streams()
    signal.signal(signal.SIGTERM, lambda *_: signal.default_int_handler(signal.SIGINT, None))
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        code = ident.main([word for word in given if word != "--debug"], prog_name="ident", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        code, line = explain(error)
        click.echo(line, err=True)
    sys.exit(code if isinstance(code, int) else 0)


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


def explain(error: BaseException) -> tuple[int, str]:
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
            code, text = 1, "stopped; what is done is kept, type the same command to go on"
        case OSError(filename=name, strerror=reason) if reason:
            code, text = 1, f"{name}: {reason}" if name else reason
        case _:
            code, text = 1, f"{type(error).__name__}: {error} (--debug shows where)"
    return code, f"ident: {' '.join(text.split())}"
