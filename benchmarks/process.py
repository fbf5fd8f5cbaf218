"""The servers under measurement, each a process of its own, and what the kernel says of it."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version as metadata_version
from pathlib import Path
from typing import Final

from benchmarks.login import ANYBODY, Login

STOP_SECONDS: Final = 20
ON_A_FREE_PORT: Final = ("--listen", "127.0.0.1:0")


@dataclass(frozen=True)
class Server:
    """A running server: its process id, the address of one of its listeners, and how clients log in there."""

    pid: int
    host: str
    port: int
    login: Login = ANYBODY
    http_port: int = 0
    """On the same host; 0 for what has none, or is not asked there."""
    others: tuple[int, ...] = ()
    """Process ids of those whose work for it counts as its own, as in a cluster."""

    def cpu_seconds(self) -> float:
        """CPU time of all its threads so far, user and system, and of the processes that it stands for."""
        nanoseconds = 0
        for pid in (self.pid, *self.others):
            for task in Path(f"/proc/{pid}/task").iterdir():
                nanoseconds += int((task / "schedstat").read_text().split()[0])
        return nanoseconds / 1e9

    def resident_bytes(self) -> int:
        """Its resident memory now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise ValueError(f"process {self.pid} has no resident memory")


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server; gives the process and its first line of output. Stops it with SIGTERM."""
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            process.wait(STOP_SECONDS)
            raise RuntimeError(f"{command} ended with {process.returncode}:\n{log.read_text()}")
        yield process, line
    finally:
        process.stdout.close()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def groupd(
    *options: str, data_dir: str | None = None, listens: Sequence[str] = ON_A_FREE_PORT
) -> Iterator[Server]:
    """groupd with an empty data directory, or a given one; `options` are added to its command line. In: those that
    say where it listens."""
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        command = groupd_command(directory, *options, listens=listens)
        if data_dir is not None:
            command += ["--data-dir", data_dir]
        with _running(command, Path(directory) / "stderr") as (process, line):
            yield Server(process.pid, *kafka_address(line), http_port=http_address(line)[1])


def groupd_command(directory: str, *options: str, listens: Sequence[str] = ON_A_FREE_PORT) -> list[str]:
    """The command line of groupd on free ports with its data below `directory`."""
    data = str(Path(directory) / "data")
    addresses = [*listens, "--http", "127.0.0.1:0"]
    return [sys.executable, "-m", "coordinator", "serve", *addresses, "--data-dir", data, *options]


def environment() -> dict[str, str]:
    """Of a process that is timed: Python keeps its bytecode, as it does for whoever runs groupd, even where that is
    turned off for tests."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def kafka_address(ready_line: str) -> tuple[str, int]:
    """Host and port of the ready line `groupd ready kafka=HOST:PORT …`."""
    return _address(ready_line, "kafka=")


def http_address(ready_line: str) -> tuple[str, int]:
    """Host and port of its `http=HOST:PORT`."""
    return _address(ready_line, "http=")


def _address(ready_line: str, what: str) -> tuple[str, int]:
    for word in ready_line.split():
        if word.startswith(what):
            host, _, port = word.removeprefix(what).rpartition(":")
            return host, int(port)
    raise ValueError(f"not a ready line: {ready_line!r}")


@contextmanager
def serving(command: list[str]) -> Iterator[Server]:
    """A server that prints HOST:PORT when it listens."""
    with (
        tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
        _running(command, Path(directory) / "stderr") as (process, line),
    ):
        host, _, port = line.strip().rpartition(":")
        yield Server(process.pid, host, int(port))


def machine() -> str:
    """The machine in general terms."""
    version = ".".join(map(str, sys.version_info[:3]))
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores, {os.uname().machine}, Linux; CPython {version}, uvloop {metadata_version('uvloop')}"
    )
