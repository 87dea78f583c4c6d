"""What a terminal is shown: no text from outside controls it, and no table is cut."""

from __future__ import annotations

import ast
import fcntl
import itertools
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import click
import pytest

from ident import cli
from ident.cli import errors
from ident.cli.terminal import printable, say_json
from ident.render.errors import Failed, Impossible
from tests.conftest import Run
from tests.render.engines import RECIPE
from tests.render.store.test_dataset import paint

OSC = "\x1b]0;owned\x07"
"""Changes the title of a terminal's window."""


def controls(text: str) -> set[str]:
    """What of a text moves, colours or hides."""
    return {one for one in text if not one.isprintable() and one not in "\n"}


def on_terminal(*command: str, columns: int = 80, cwd: Path | None = None) -> str:
    """All that a command writes to a terminal of so many columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    child = subprocess.Popen(
        [sys.executable, *command],
        stdin=its, stdout=its, stderr=its, cwd=cwd, env={**environment, "TERM": "xterm"},
    )  # fmt: skip
    os.close(its)
    written = b""
    try:
        while piece := os.read(ours, 2**16):
            written += piece
    except OSError:  # as a terminal says that nobody writes any more
        pass
    os.close(ours)
    assert child.wait() == 0, written
    return written.decode().replace("\r\n", "\n")


def test_all_that_is_printed_goes_through_one_place() -> None:
    for path in Path(cli.__file__).parent.glob("*.py"):
        called = [
            ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]
        printing = {"print", "click.echo", "click.secho", "Console", "sys.stdout.write", "sys.stderr.write"} & set(
            called
        )
        allowed = {"terminal.py": {"click.echo", "Console"}, "progress.py": {"Console"}}.get(path.name, set())
        assert printing == allowed, path


def test_every_character_is_visible() -> None:
    everything = "".join(map(chr, range(0x110000)))
    assert controls(printable(everything)) == set()
    assert printable(f"a {OSC}\r\u202e\udcff\nzwölf") == r"a \x1b]0;owned\x07\r\u202e\udcff" + "\nzwölf"


def test_json_is_ascii_that_can_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {"".join(map(chr, range(0x300))): "\udcff\u202e"}
    say_json(texts)
    written = capsys.readouterr().out
    assert controls(written) == set()
    assert written.isascii()
    assert json.loads(written) == texts


@pytest.mark.parametrize(
    "error",
    [
        OSError(2, OSC, OSC),
        OSError(2, OSC),
        Failed(OSC),
        Impossible(f"{OSC}\n\x9b2J"),
        ValueError(OSC),
        click.UsageError(OSC),
        click.BadParameter(OSC, param_hint=OSC),
    ],
)
def test_an_error_is_one_line_that_controls_nothing(error: Exception) -> None:
    _, line = errors.explain(error, goes_on=False)
    assert controls(line) == set()
    assert "\n" not in line
    assert r"\x1b]0;owned\x07" in line


def test_names_of_files_control_nothing(ident_here: Run, tmp_path: Path) -> None:
    paint(tmp_path / OSC / "d", RECIPE, 20)
    for arguments in (
        ("show", "--raw-latents", f"{OSC}.npy", "--out", "d", "--debug"),
        ("verify", f"{OSC}/d"),
        ("pairs", f"{OSC}/d", "--conditional", "normal(0.2)", "--n", "20", "--out", f"{OSC}/pairs.h5"),
    ):
        done = ident_here(*arguments)
        assert done.returncode == (2 if "--debug" in arguments else 0), done.stderr
        assert controls(done.stdout + done.stderr) == set()
        assert r"\x1b]0;owned\x07" in (done.stderr if "--debug" in arguments else done.stdout)


@pytest.fixture
def rude() -> Iterator[str]:
    """A server whose answers have control characters in them."""

    class Rude(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(403, OSC)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Rude) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_a_server_says_controls_nothing(ident_here: Run, rude: str) -> None:
    done = ident_here("info", f"{rude}/d")
    assert done.returncode == 1
    assert done.stderr == f"ident: {rude}/d/dataset.json: answers 403 Forbidden\n"


def test_info_of_a_dataset_that_says_more(ident_here: Run, tmp_path: Path) -> None:
    paint(tmp_path / "d", RECIPE, 4)
    file = tmp_path / "d" / "dataset.json"
    positives = {"conditional": "normal(0.1)", "seed": 0, OSC: OSC}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"positives": positives}))
    done = ident_here("info", "d")
    assert (done.returncode, done.stdout) == (1, "")
    assert controls(done.stderr) == set()
    assert r"\x1b]0;owned\x07" in done.stderr
    assert len(done.stderr.splitlines()) == 1


PROGRESS = """
from ident.cli.progress import progress
from ident.cli.terminal import say
with progress(f"[/red] {OSC!r} {{task.id}} {{nobody}}".replace("'", "") + OSC) as done:
    done(0, 2, f"[/bold] {OSC}")
    say(f"[/blue] {OSC}", err=True)
    done(2, 2, f"[/bold] {OSC}")
"""


def test_progress_is_text_as_it_stands() -> None:
    code = f"OSC = {OSC!r}\n{PROGRESS}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert controls(done.stderr) == set()
    shown = on_terminal("-c", code, columns=200)
    for text in ("[/red]", "{task.id} {nobody}", "[/bold]", "[/blue]", r"\x1b]0;owned\x07"):
        assert text in shown
        assert text in done.stderr
    assert OSC not in shown
    assert "\x07" not in shown


TABLE = """
import sys
from ident.cli.terminal import say_table
say_table(HEADS, ROWS)
"""
HEADS = ("row", "data", "model", f"[bold]{OSC}")
ROWS = [(str(i), f"box, uniform, gennorm({i}, 0.05)", f"mine:{'x' * 60}{i}", f"[/red]{OSC}") for i in range(1, 9)]


def test_a_table_is_whole_on_a_pipe_and_folded_on_a_terminal() -> None:
    code = f"HEADS, ROWS = {HEADS!r}, {ROWS!r}\n{TABLE}"
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    expected = [tuple(map(printable, cells)) for cells in (HEADS, *ROWS)]
    assert [tuple(re.split(r" {2,}", line)) for line in piped.stdout.splitlines()] == expected
    shown = re.sub(r"\x1b\[\d+m", "", on_terminal("-c", code)).splitlines()  # heads are bold
    assert max(map(len, shown)) <= 80
    starts = [*(shown[0].index(head[:4]) for head in map(printable, HEADS)), 80]
    rows = list[list[str]]()
    for line in shown:
        cells = [line[start:end] for start, end in itertools.pairwise(starts)]
        if cells[0].strip():
            rows.append(cells)
        else:
            rows[-1] = [above + below for above, below in zip(rows[-1], cells, strict=True)]
    assert [["".join(cell.split()) for cell in row] for row in rows] == [
        ["".join(cell.split()) for cell in row] for row in expected
    ]
