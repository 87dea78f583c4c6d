"""Hosts on this machine: each has its own network, processes, name, /run and /dev/shm; all see the same files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import HANG, running

COMMANDS = Path(sys.executable).parent
"""Where `ident` and `ray` are."""


def possible() -> bool:
    """Whether hosts can be made here: by root, on a Linux that lets it."""
    if os.geteuid() or not sys.platform.startswith("linux"):
        return False
    link = "ip link add one type veth peer name two && ip link add both type bridge && mount -t tmpfs tmpfs /run"
    own = ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "sh", "-c", link]
    with suppress(FileNotFoundError):
        return subprocess.run(own, capture_output=True, check=False).returncode == 0
    return False


@dataclass(frozen=True)
class Host:
    """A host, by the process that all others of its own descend from."""

    name: str
    address: str
    init: int
    switch: int
    environment: Mapping[str, str]

    def _command(self, words: tuple[object, ...]) -> list[str]:
        own = ["--mount", "--net", "--pid", "--uts", "--ipc", f"--wd={Path.cwd()}"]
        return ["nsenter", "--target", str(self.init), *own, *map(str, words)]

    def start(self, *words: object, unset: tuple[str, ...] = (), **more: str) -> subprocess.Popen[str]:
        """Start a command there."""
        environment = {name: value for name, value in self.environment.items() if name not in unset} | more
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self._command(words), env=environment, text=True, **pipes)

    def run(self, *words: object, unset: tuple[str, ...] = (), **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command there to its end."""
        with self.start(*words, unset=unset, **more) as process:
            try:
                out, errors = process.communicate(timeout=HANG)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors)

    def link(self, state: str) -> None:
        """Cut the host off (`down`), or let it be reached again (`up`)."""
        in_switch(self.switch, "link", "set", self.name, state)

    def kill(self) -> None:
        """End all its processes at once, as if it lost its power."""
        with suppress(ProcessLookupError):
            os.kill(self.init, 9)


def in_switch(switch: int, *words: str) -> None:
    """Run `ip` where the hosts are wired up."""
    subprocess.run(["nsenter", "--target", str(switch), "--net", "ip", *words], check=True)


@contextmanager
def unshared(begin: str) -> Iterator[int]:
    """A shell with all of its own but the files, that has begun; gives its process's number."""
    own = ("--net", "--mount", "--mount-proc", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
    shell = ("sh", "-c", f"{begin} && echo begun && while :; do sleep 1000; done")  # which reaps its orphans
    with subprocess.Popen(["unshare", *own, *shell], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "begun\n"
            yield next(pid for pid, parent, _ in running() if parent == process.pid)
        finally:
            process.kill()


@contextmanager
def hosts(count: int, environment: Mapping[str, str]) -> Iterator[list[Host]]:
    """So many hosts with addresses of their own, wired to one switch that leads nowhere else."""
    folders = dict.fromkeys(("HOME", "TMPDIR", "RAY_TMPDIR"), "/run")  # the host's own, and short, for Ray's sockets
    own = {**environment, **folders, "PATH": f"{COMMANDS}:{os.environ['PATH']}"}
    with ExitStack() as stack:
        wire = "ip link add switch type bridge && ip addr add 10.99.0.254/24 dev switch && ip link set switch up"
        switch = stack.enter_context(unshared(wire))
        made = list[Host]()
        for number in range(1, count + 1):
            name, address = f"host{number}", f"10.99.0.{number}"
            begin = f"hostname {name} && mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm"
            init = stack.enter_context(unshared(begin))
            host = Host(name, address, init, switch, own)
            in_switch(switch, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(init))
            in_switch(switch, "link", "set", name, "master", "switch", "up")
            for words in ("link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up",
                          "route add default via 10.99.0.254"):  # fmt: skip
                assert host.run("ip", *words.split()).returncode == 0
            made.append(host)
        yield made
