"""The command `ident`. One module a command; each calls render or benchmark and holds no logic of its own."""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and "ident.cli" in " ".join(sys.orig_argv) and not sys.flags.safe_path:
    del sys.path[0]  # the working directory, which `python -m ident.cli` would import from before all else

import os
import signal
import threading
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version

import click

from ident.cli.terminal import printable, say
from ident.render.children import SAFE_PATH
from ident.render.errors import Failed, Impossible

COMMANDS = {
    "From latents to a table": {
        "render": "Render a dataset.",
        "pairs": "Draw positive pairs.",
        "bench": "Benchmark losses on a table of the papers.",
        "report": "Make a page of results.",
        "score": "Score anybody's representation.",
    },
    "From and to others": {
        "pull": "Fetch a dataset.",
        "push": "Bring a dataset elsewhere.",
        "import": "Make shards of what others have made.",
        "export": "Write a dataset as others' readers expect it.",
    },
    "Look and check": {
        "show": "Look at a world.",
        "info": "Say what is in a dataset.",
        "verify": "Check a dataset.",
        "doctor": "Say what works on this machine.",
    },
}


GOES_ON = ("render", "bench", "pull", "push", "import", "export", "show")
"""Commands that keep what is done when they are stopped."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: what stops for Ctrl-C stops for it, too."""


class Commands(click.Group):
    """The commands in the order in which they are used. Each module is imported when its command is."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names."""
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        name = "import_" if cmd_name == "import" else cmd_name  # which is a word of Python
        command: click.Command = getattr(import_module(f"ident.cli.{name}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is asked for; of one that is not there, the nearest is said."""
        names = self.list_commands(ctx)
        if args[0] not in names and not ctx.resilient_parsing:  # as where a shell completes
            near = "".join(f"; did you mean {name}?" for name in get_close_matches(args[0], names, 1))
            raise Impossible(f"no command {args[0]!r}{near or ': ident --help has them'}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """A section for each."""
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(list(section.items()))


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`ident COMMAND --help` has examples. Tab completes commands and options after"
    ' eval "$(_IDENT_COMPLETE=bash_source ident)", or zsh_source, or fish_source.',
)
@click.version_option(version("ident3d"), prog_name="ident")
@click.option("--debug", is_flag=True, help="Show the traceback of an error. May stand anywhere.")
def ident(debug: bool) -> None:
    """The 3DIdent benchmark: render the scenes, draw positive pairs, train, and score identifiability."""


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
