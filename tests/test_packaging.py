"""The name outside: the distribution is ident3d, and nobody is told to install `ident`, which is another project's."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest

from ident.cli.commands import COMMANDS

ROOT = Path(__file__).parent.parent

WORDS = "|".join(chain.from_iterable(COMMANDS.values()))
OTHERS = rf"(?<![\w./@:#-])ident(?![\w/-]|[.:]\w|\s+(?:{WORDS})\b)"
"""The name as a package's: no part of a path or a module, and none of our commands behind it."""

VERBS = (
    r"\b(?:re)?install(?:s|ed|ing)?\b(?! --(?:directory|owner))"
    r"|\b(?:uv|poetry|pdm|pixi) add\b|\buvx\b|\bpipx run\b|--with\b"
)
INSTALLS = re.compile(rf"(?:{VERBS})(?:(?!\. |[;|`)]).)*?{OTHERS}", re.IGNORECASE)
REQUIRES = re.compile(r"(?<![\w./-])ident(?:\[[\w, -]+\]| *(?:[=~<>!]=|@ ?\w+[+:]))|pypi\.org/project/ident(?![\w-])")
ASKS = re.compile(r"\b(?:version|distribution|requires|metadata)\([\"']ident[\"']\)")


def telling(text: str) -> list[int]:
    """The lines of a text that tell anyone to install `ident`, by number; a command may go on in the next line."""
    lines = text.splitlines()
    found = set[int]()
    for number, line in enumerate(lines, 1):
        continued = f"{line.rstrip()} {lines[number].lstrip(' #*/')}" if number < len(lines) else line
        match = INSTALLS.search(continued.replace("\\ ", " "))
        if (match and match.start() < len(line)) or REQUIRES.search(line) or ASKS.search(line):
            found.add(number)
    return sorted(found)


NAME = "ident"  # so that no line here tells it


@pytest.mark.parametrize(
    "line",
    [
        "pip install {}",
        "pip install '{}[s3]'",
        'python3.11 -m pip install --upgrade "{}"',
        "pip install -U {}==0.1.0",
        "`uv pip install {}`",
        "uv add {}",
        "uvx {}",
        "uv run --with {} python",
        "pipx run {}",
        "conda install -c conda-forge {}",
        "RUN pip install --no-cache-dir torch {} boto3",
        "python3.11 -m venv .venv, and install {} there",
        "the scene file is damaged: reinstall {}",
        "pip install \\\n    '{}[s3]'",
        "# such machines need\n# pip install\n# {}",
        '    "{}[huggingface,s3]",',
        "{} >= 0.1",
        "{} @ git+https://host/{}",
        "[wheel](https://pypi.org/project/{}/)",
        'version("{}")',
    ],
)
def test_a_line_that_tells_it_is_seen(line: str) -> None:
    assert telling(line.format(NAME, NAME))
    assert not telling(line.format("ident3d", "ident3d"))


@pytest.mark.parametrize(
    "line",
    [
        "uv pip install . ; ident doctor",
        "what is installed: `ident doctor` says it",
        "pip install torch, then type ident render --n 4",
        "docker/install.sh /opt/ident cpu",
        "The folders are installed as `ident.render` and so on.",
        'known-first-party = ["ident"]',
        "RUN install --directory --owner ident /data",
        "pip install azure-identity",
    ],
)
def test_the_command_and_the_import_are_not_meant(line: str) -> None:
    assert not telling(line)


def test_nobody_is_told_to_install_ident() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("which files belong to the project, git says")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    told = list[str]()
    for name in filter(None, names):
        path = ROOT / name
        if not path.is_file() or b"\0" in path.read_bytes():
            continue
        text = path.read_text(errors="replace")
        lines = text.splitlines()
        told += [f"{name}:{number}: {lines[number - 1].strip()}" for number in telling(text)]
    assert told == []


def test_the_distribution_has_its_own_name_and_the_command_the_old_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "ident3d"
    assert project["scripts"] == {"ident": "ident.cli.main:main"}
    assert metadata.version("ident3d") == project["version"]
