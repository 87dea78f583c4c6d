"""What tests start: waited for by what it does, known by a mark that it inherits, ended with the test."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

HANG = 600
"""Seconds after which something hangs: the only limit in tests, for machines however busy."""

MARK = "IDENT_TEST"
"""The environment variable that says which test a process belongs to, wherever its parents are."""

T = TypeVar("T")


def wait_for(condition: Callable[[], T]) -> T:
    """What a condition gives as soon as it holds."""
    until = time.monotonic() + HANG
    while not (value := condition()):
        assert time.monotonic() < until, f"nothing for {HANG} seconds"
        time.sleep(0.02)
    return value


def running() -> list[tuple[int, int, str]]:
    """All processes: numbers, their parents' numbers, and what was typed."""
    rows = list[tuple[int, int, str]]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            parent = (folder / "status").read_text().partition("PPid:")[2].split()[0]
            rows.append((int(folder.name), int(parent), (folder / "cmdline").read_text(errors="replace")))
    return sorted(rows)


def state(pid: int) -> str:
    """R, S, T, ... as in ps; Z also if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    return state(pid) == "Z"


def below(pids: set[int]) -> set[int]:
    """Processes, and all that they have started that still has its parents."""
    children = dict[int, list[int]]()
    for pid, parent, _ in running():
        children.setdefault(parent, []).append(pid)
    family, new = set(pids), list(pids)
    while new:
        new = [child for pid in new for child in children.get(pid, ()) if child not in family]
        family |= set(new)
    return family


def started_by(mark: str) -> dict[int, str]:
    """The processes with this mark, and those below them, with what was typed."""
    words = f"{MARK}={mark}".encode()
    pids = set[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if words in (folder / "environ").read_bytes().split(b"\0"):
                pids.add(int(folder.name))
    pids.discard(os.getpid())
    if not pids:
        return {}
    family = below(pids)
    return {pid: typed.replace("\0", " ") for pid, _, typed in running() if pid in family and not gone(pid)}


def end(mark: str) -> None:
    """Kill all that has a mark."""

    def killed() -> bool:
        pids = started_by(mark)
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    wait_for(killed)
