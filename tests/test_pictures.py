"""Pictures from outside are read in formats that the code names: Pillow knows one that starts another program."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("benchmark", "blend_assets", "cli", "render")


def opens(call: ast.AST) -> bool:
    """Whether a call is Pillow's, of Image.open."""
    return isinstance(call, ast.Call) and ast.unparse(call.func) in ("Image.open", "PIL.Image.open")


def test_every_picture_is_read_in_formats_that_are_named() -> None:
    calls = [
        (f"{path.relative_to(ROOT)}:{call.lineno}", call)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and opens(call)
    ]
    assert len(calls) >= 6
    assert [where for where, call in calls if "formats" not in {one.arg for one in call.keywords}] == []
