"""Options that several commands have."""

from __future__ import annotations

import click

from ident.render.settings import check_passes

QUALITY = "How much work an image gets; reference is the paper's, and takes 60 times as long as balanced."


def parse_passes(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    """Names between commas."""
    return check_passes(name.strip() for name in value.split(",") if name.strip())
