"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from ident.render import plugins, worlds
from ident.render.errors import Impossible
from ident.render.worlds import World

SIZE = "Pixels along the longer side of an image.  [default: the world's; of 3dident, 224]"
QUALITY = (
    "How much work Blender gives an image; reference is the paper's, and takes 60 times as long as balanced.  "
    "[default: balanced]"
)


def one_place(argument: str | None, option: str | None) -> str | None:
    """The dataset that was named as DATA or by --data, which both commands that read one for training take."""
    if argument is not None and option is not None and argument != option:
        raise Impossible(f"DATA {argument} and --data {option}: give one of them")
    return argument if option is None else option


def own(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """What may be module:name of the user's, who has it in the working directory."""
    if value is not None and plugins.is_one(value):
        plugins.look_here()
    return value


def world_of(_: click.Context, __: click.Parameter, value: str | None) -> World | None:
    """The world that is named, or the user's own, which may be in the working directory."""
    if value is None:
        return None
    if plugins.is_one(value):
        plugins.look_here()
    return worlds.load(value)


world = click.option(
    "--world",
    metavar="WORLD",
    default="3dident",
    show_default=True,
    callback=world_of,
    help="A world by its name, or one of your own: file.py:name or module:name.",
)


def parse_passes(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name.strip() for name in value.split(",") if name.strip())


@contextmanager
def as_options(*names: str) -> Iterator[None]:
    """Let errors that begin with the name of an option begin with the option."""
    try:
        yield
    except Impossible as error:
        if str(error).partition(" ")[0] in names:
            raise Impossible(f"--{error}") from error
        raise
