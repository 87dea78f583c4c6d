"""The machines: their cores and GPUs, and Ray on them, which is there or is started here."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ident.render import temporary
from ident.render.blender.silence import silent
from ident.render.children import ask
from ident.render.errors import Failed, Impossible
from ident.render.signals import later
from ident.render.threads import cores


@contextmanager
def cluster(address: str | None, *, cores: int, gpus: int | None) -> Iterator[Any]:
    """Ray: what runs at the address, or started here with so many cores and GPUs (None: all that Ray finds).

    Started here, it listens on the loopback address alone, and to nobody without its token; its files go with it.
    """
    # Read as ray is imported: it reports to nobody, and prints nothing of its own on our stdout.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what it cannot write to a full disk goes to stderr
    if address is None:
        # Without it Ray takes 127.0.0.1 for a mistake, and listens to the whole network.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        # Ray's own is 15: workers would start after all of Ray's other processes, and wait for whoever else works.
        os.environ.setdefault("RAY_worker_niceness", "0")
        if "RAY_AUTH_MODE" not in os.environ:
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    else:
        reachable(address)
    import ray

    if ray.is_initialized():
        yield ray  # whoever started it stops it
        return
    if address is None:
        check_temporary()
    with nullcontext(None) if address is not None else temporary.folder(session_parent()) as folder:
        try:
            with later(signal.SIGINT, signal.SIGTERM), silent(2):  # half a start would leave processes behind
                start(ray, address, folder, cores, gpus)
            yield ray
        except Failed:
            if folder:
                check_disk(folder.parent, Failed)
            raise
        finally:
            ray.shutdown()


ROOM = 20_000_000
"""Bytes of a disk that Ray's files may take, before it fails in many ways."""


def check_temporary() -> None:
    """Refuse to start Ray here where its files cannot be; nothing is made yet."""
    parent = session_parent()
    if parent.exists():
        check_disk(parent, Impossible)


def check_disk(parent: Path, error: type[Failed | Impossible]) -> None:
    """Say so if the disk of Ray's files is full."""
    disk = os.statvfs(parent)
    if disk.f_bavail * disk.f_frsize < ROOM or (disk.f_files and not disk.f_favail):
        free = disk.f_bavail * disk.f_frsize / 1e6
        raise error(
            f"{parent}: {free:.0f} MB and {disk.f_favail} files are free there, too few for Ray's, which take "
            f"{ROOM / 1e6:.0f} MB; free some, or let TMPDIR name another folder"
        )


SOCKET = len("/session_2000-01-01_00-00-00_000000_4194304/sockets/plasma_store")
LONGEST_SOCKET = 107 if sys.platform == "linux" else 103
"""Bytes of a Unix socket's path, and of these Ray's part: it ends in the largest process number that Linux gives."""


def session_parent() -> Path:
    """Where the folder goes for the files of a Ray that is started here: its sockets' paths are not too long there."""
    names = ("RAY_TMPDIR", "TMPDIR") if sys.platform == "linux" else ("RAY_TMPDIR",)
    variable = next((name for name in names if os.environ.get(name)), None)
    if variable is None:
        return Path("/tmp")
    parent = str(Path(os.environ[variable]).absolute())
    most = LONGEST_SOCKET - SOCKET - temporary.LENGTH - len("/")
    if len(os.fsencode(parent)) > most:
        raise Impossible(
            f"{variable}={parent}: {len(os.fsencode(parent))} bytes, and Ray's sockets there may have paths of "
            f"{LONGEST_SOCKET}; shorten it to {most} or fewer, like {variable}=/tmp"
        )
    return Path(parent)


def start(ray: Any, address: str | None, folder: Path | None, cores: int, gpus: int | None) -> None:
    """Join a cluster, or start one whose files go to a folder."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    # Else it lets workers import from the working directory, before all else.
    quiet["job_config"] = ray.job_config.JobConfig(_client_job=True)
    try:
        if address is not None:
            ray.init(address=address, **quiet)
        else:
            ray.init(
                address="local",
                num_cpus=cores,
                num_gpus=gpus,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                _temp_dir=str(folder),
                # Nothing here is so large, and for it Ray makes a folder as it ends, which a full disk does not let it.
                _system_config={"automatic_object_spilling_enabled": False},
                object_store_memory=80 * 2**20,
                **quiet,
            )
    except Exception as error:  # Ray raises half a dozen kinds
        said = " ".join(str(error).split())
        if address is None:
            raise Failed(f"Ray could not be started: {said}") from error
        if "InvalidAuthToken" in f"{error} {error.__cause__}":
            known = "none" if os.environ.get("RAY_AUTH_MODE") != "token" else "another"
            said = f"it asks for a token, and {known} is set here; export RAY_AUTH_MODE=token and its RAY_AUTH_TOKEN"
        raise Impossible(f"--ray-address {address}: no Ray cluster could be joined there ({said})") from error


SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS
"""How HTTP/2 begins, on which Ray speaks: either side sends its settings first, here none (RFC 9113, 3.4 and 6.5)."""


def reachable(address: str) -> None:
    """Ask whether Ray listens at HOST:PORT, before Ray does so for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal() or int(port) > 65535:
        raise Impossible(
            f"--ray-address {address}: give HOST:PORT of the cluster's head node, or auto, and type the command on "
            "one of the cluster's nodes"
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=10) as connection:
            connection.sendall(HELLO)
            answer = connection.recv(len(SETTINGS), socket.MSG_WAITALL)
    except OSError as error:
        raise Impossible(f"--ray-address {address}: nobody answers there ({error})") from error
    if answer[3:4] != SETTINGS[3:4] and os.environ.get("RAY_USE_TLS") != "1":
        raise Impossible(f"--ray-address {address}: what answers there is not Ray; give HOST:PORT of the head node")


DRIVER = Path("/proc/driver/nvidia/gpus")
DEVICES = ("proc/driver/nvidia/gpus/*", "dev/nvidia[0-9]*", "dev/dri/renderD*")
"""Where GPUs of any make show, one each."""


def gpus_there(address: str | None) -> int:
    """How many GPUs there are: in the cluster, or on this machine by the driver's word and what Ray is shown of it."""
    if address is not None:
        return resources(address).get("GPU", 0)
    present, shown = sum(1 for _ in DRIVER.glob("*")), os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is None:
        return present
    return min(present, sum(name not in ("", "-1", "NoDevFiles") for name in shown.split(",")))


def check_gpus(gpus: int) -> None:
    """Refuse more GPUs than this machine has devices for, before Ray, which takes long to start, has counted them."""
    nodes = [sum(1 for _ in Path("/").glob(pattern)) for pattern in DEVICES]
    if sys.platform == "linux" and not Path("/dev/dxg").exists() and gpus > max(nodes):  # dxg: all GPUs of Windows
        instead = f"give --gpus {max(nodes)}" + ("" if max(nodes) else " to render on the CPU")
        raise Impossible(f"--gpus {gpus}: this machine has {max(nodes)}; {instead}, or --ray-address of a cluster")


def cores_there(address: str | None) -> int:
    """How many cores there are: in the cluster, or on this machine."""
    return cores() if address is None else resources(address).get("CPU", 0)


def resources(address: str) -> dict[str, int]:
    """What the machines of a cluster have, by Ray's names."""
    with cluster(address, cores=1, gpus=None) as ray:
        return {name: int(count) for name, count in ray.cluster_resources().items()}


def cycles_gpus() -> int:
    """How many GPUs Cycles sees on this machine, asked in a process of its own."""
    done = ask("from ident.render.blender import engine; print(len(engine.gpus()))")
    return int(done.stdout.split()[-1]) if done.returncode == 0 else 0
