"""All commands, in the order in which they are used: what `ident --help` shows."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version

import click

from ident.render.errors import Impossible

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
