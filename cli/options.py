"""Options that several commands have."""

from __future__ import annotations

import click

from ident.benchmark import plugins
from ident.render.blender.settings import check_passes
from ident.render.errors import Impossible

QUALITY = "How much work an image gets; reference is the paper's, and takes 60 times as long as balanced."


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


def parse_passes(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    """Names between commas."""
    return check_passes(name.strip() for name in value.split(",") if name.strip())
