"""Hostile data, hostile servers, and kills at random moments: what `make attack` tries, in some ten minutes."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import click

from tests.hostile import DATA, OSC, TABLE2, Attack, Field, sha256, sums
from tests.processes import HANG, below, end, gone, running
from tests.servers import serving

OK, ZEROS = b"HTTP/1.0 200 OK\r\n", bytes(2**16)
ANSWERS: dict[str, Callable[[str], Iterable[bytes] | None]] = {
    "endless": lambda _: chain([OK, b"\r\n"], repeat(ZEROS)),
    "endless shards": lambda path: chain([OK, b"\r\n"], repeat(ZEROS)) if path.endswith(".h5") else None,
    "gzip bomb": lambda _: [OK, b"Content-Encoding: gzip\r\n\r\n", gzip.compress(bytes(2**24)) * 256],
    "reason": lambda _: [f"HTTP/1.0 403 {OSC} No\r\n\r\n".encode()],
    "to file:": lambda _: [b"HTTP/1.0 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"],
    "to ftp:": lambda _: [b"HTTP/1.0 302 Found\r\nLocation: ftp://127.0.0.1/d\r\n\r\n"],
}


def hostile_server(kind: str, field: Field) -> str:
    """An answer without end, one that unpacks to gigabytes, a reason that sets the terminal's title, other schemes."""
    field.paint("data")
    with serving(field.folder) as moods:
        moods.raw = ANSWERS[kind]
        url, shards = f"{moods.url}/data", kind == "endless shards"
        field.ident("info", url, codes=(0,) if shards else (1, 2))
        assert not kind.startswith("to ") or len(moods.asked) == 1, f"asked {len(moods.asked)} times for the same"
        for typed in (("verify", url), ("pull", url, "--out", "d"), ("pairs", url, "--conditional", "laplace")):
            field.ident(*typed, codes=(1, 2))
        if not shards:
            field.ident("pull", "3dident", "--zenodo", moods.url, codes=(1, 2))
            field.ident("pull", f"{url}/a.tar", "--out", "archive", codes=(1, 2))
        return f"{moods.sent / 1e6:.1f} MB were taken"


MOODS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "slow": ({"pause": 0.02}, (0,)),
    "429": ({"statuses": [(429, {"Retry-After": "1"})] * 3}, (0,)),
    "503": ({"statuses": [(503, {})] * 3}, (0,)),
    "breaks off": ({"cut": 0.4}, (0,)),
    "says too much": ({"longer": 1000}, (0,)),
    "says too little": ({"longer": -100}, (1,)),
    "no ranges": ({"cut": 0.3, "ranges": False}, (0,)),
    "wrong ranges": ({"breaks": [None, 1000], "shifted": 100}, (0, 1)),
    "redirects": ({"redirect": True}, (0,)),
    "wrong bytes": ({"changed": lambda path, data: data[::-1] if path.endswith("2.h5") else data}, (1,)),
}


def mood(name: str, field: Field) -> None:
    """A server in a bad mood: the same bytes, or an error and no dataset."""
    data, (changes, codes) = field.paint("data"), MOODS[name]
    with serving(field.folder) as moods:
        for each, value in changes.items():
            setattr(moods, each, value)
        field.ident("pull", f"{moods.url}/data", "--out", "d", codes=codes)
    whole = (field.folder / "d/dataset.json").exists()
    assert int(not whole) in codes, "a dataset that is not whole"
    assert not whole or sums(field.folder / "d") == sums(data), "other bytes"


def killed(field: Field, kills: int, typed: tuple[object, ...], result: Callable[[Path], Any], *below_it: str) -> str:
    """Kill a command, or a process below it, at random moments; each time the same command goes on to the same end.

    The moments lie within the shortest run so far. A run that ends before its moment is not counted.
    """
    since = time.monotonic()
    field.ident(*typed, "--out", "alone.h5", codes=(0,))
    shortest, alone = time.monotonic() - since, result(field.folder / "alone.h5")
    runs, hits, victims = 0, 0, ("", *below_it)
    while hits < kills:
        if time.monotonic() > field.until:
            return f"{hits} of {kills} kills of a running command; the time was over"
        assert runs < 3 * kills, f"{runs} runs, and only {hits} of them lasted until they were to be killed"
        victim, out = victims[hits % len(victims)], field.folder / f"{runs}.h5"
        process, name = field.start(*typed, "--out", out.name), f"run {runs}, a kill of {victim or 'the command'}"
        since, runs = time.monotonic(), runs + 1
        with suppress(subprocess.TimeoutExpired):
            process.wait(field.chance.uniform(0, shortest))
        family = below({process.pid}) - {process.pid} if victim else set()
        pids = [pid for pid, _, words in running() if pid in family and victim in words]
        if gone(process.pid):
            shortest = min(shortest, time.monotonic() - since)
        else:
            hits += 1
            with suppress(OSError):
                os.kill(field.chance.choice(pids or [process.pid]), 9)
        said = "".join(process.communicate(timeout=HANG))
        field.check(name, said)
        assert process.returncode in (0, 1, -9), f"{name}: exit code {process.returncode}, said {said[-300:]!r}"
        end(field.mark)
        before = {path: path.stat().st_mtime_ns for path in out.glob("shards/*.h5")}
        field.ident(*typed, "--out", out.name, codes=(0,))
        assert result(out) == alone, f"{name}: another result"
        assert all(path.stat().st_mtime_ns == when for path, when in before.items()), f"{name}: what was done is redone"
    return f"{hits} kills of a running command, in {runs} runs"


def kills_of_render(field: Field) -> str:
    """The driver, a worker, the raylet."""
    typed = ("render", "--n", 96, "--size", 32, "--quality", "draft", "--shard-size", 8, "--gpus", 0, "--workers", 2)
    return killed(field, 10, typed, sums, "ray::Worker", "raylet/raylet")


def kills_of_pull(field: Field) -> str:
    """While shards come slowly."""
    field.paint("data", 96, codec="fast")
    with serving(field.folder) as moods:
        moods.pause = 0.05
        return killed(field, 10, ("pull", f"{moods.url}/data"), sums)


def kills_of_pairs(field: Field) -> str:
    """A file that appears when it is whole."""
    field.paint("data", 300)
    return killed(field, 5, ("pairs", "data", "--conditional", "laplace", "--n", 100_000), sha256)


def kills_of_bench(field: Field) -> str:
    """A training, with its scores and its curve."""

    def result(out: Path) -> dict[str, Any]:
        every = json.loads(next(out.rglob("result.json")).read_text())
        return {name: every[name] for name in ("recipe", "scores", "history")}

    return killed(field, 5, (*TABLE2, "--kind", "unsupervised"), result)


KILLS: tuple[Attack, ...] = (kills_of_render, kills_of_bench, kills_of_pairs, kills_of_pull)
ATTACKS: dict[str, Attack] = {
    **{attack.__name__.replace("_", " "): attack for attack in KILLS},  # which take longest
    **{attack.__name__.replace("_", " "): attack for attack in DATA},
    **{f"server: {kind}": partial(hostile_server, kind) for kind in ANSWERS},
    **{f"mood: {name}": partial(mood, name) for name in MOODS},
}
AT_ONCE = 2


def attacked(name: str, seed: int, until: float) -> tuple[str, bool]:
    """What an attack says, and whether ident held."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        field, since = Field(Path(folder) / "field", random.Random(f"{seed} {name}"), until), time.monotonic()
        try:
            figures = ATTACKS[name](field)
            held, said = True, f"held: {figures}" if figures else "held"
        except Exception as error:  # whatever breaks in an attack did not hold
            held, said = False, f"FELL: {' '.join((str(error) or repr(error)).split())[:500]}"
        finally:
            end(field.mark)
    return f"{name:<22} {said} ({time.monotonic() - since:.0f} s)", held


@click.command()
@click.option("--only", metavar="NAME", multiple=True, help="Only attacks with this in their names.")
@click.option("--minutes", type=float, default=10, show_default=True, help="No kill after so many.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the moments, and of what is drawn.")
def main(only: tuple[str, ...], minutes: float, seed: int) -> None:
    """Attack ident. Exit code 1: something did not hold."""
    chosen = [name for name in ATTACKS if not only or any(word in name for word in only)]
    until, fallen = time.monotonic() + 60 * minutes, 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in as_completed([pool.submit(attacked, name, seed, until) for name in chosen]):
            line, held = done.result()
            fallen += not held
            click.echo(line)
    click.echo(f"{len(chosen) - fallen} of {len(chosen)} attacks held, {fallen} fell; seed {seed}")
    sys.exit(fallen > 0)


if __name__ == "__main__":
    main()
