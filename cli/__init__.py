"""The command `ident`. One module a command; each calls render or benchmark and holds no logic of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version

import click

from ident.cli.doctor import doctor
from ident.cli.show import show
from ident.render.errors import Failed, Impossible


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version("ident"), prog_name="ident")
@click.option("--debug", is_flag=True, help="Show the traceback of an error. May stand anywhere.")
def ident(debug: bool) -> None:
    """The 3DIdent benchmark: render the scenes, and look at them."""


ident.add_command(show)
ident.add_command(doctor)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Exit code 0: done, 2: asked for something impossible, 1: failed on the way."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        code = ident.main([word for word in given if word != "--debug"], prog_name="ident", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            raise
        code, line = explain(error)
        click.echo(line, err=True)
    sys.exit(code if isinstance(code, int) else 0)


def explain(error: BaseException) -> tuple[int, str]:
    """The exit code of an error and its line for the user."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            return 2, error.format_message()
        case click.ClickException():
            return 2, f"ident: {' '.join(error.format_message().split())}"
        case Impossible():
            return 2, f"ident: {error}"
        case Failed():
            return 1, f"ident: {error}"
        case KeyboardInterrupt() | click.Abort():
            return 1, "ident: stopped; what is done is kept, type the same command to go on"
        case _:
            return 1, f"ident: {type(error).__name__}: {error} (--debug shows where)"
