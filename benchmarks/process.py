"""The servers under measurement, each in its own process, and the kernel's figures about them."""

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
    """A running server: its process id, the address of one of its listeners, and the login of clients there."""

    pid: int
    host: str
    port: int
    login: Login = ANYBODY
    http_port: int = 0
    """The port of the HTTP API on the same host; 0 if the server has none or the benchmark does not use it."""
    others: tuple[int, ...] = ()
    """Further processes that count as part of the server, as in a cluster."""

    def cpu_seconds(self) -> float:
        """Return the user and system CPU seconds so far of the process, all its threads and `others`."""
        nanoseconds = 0
        for pid in (self.pid, *self.others):
            for task in Path(f"/proc/{pid}/task").iterdir():
                nanoseconds += int((task / "schedstat").read_text().split()[0])
        return nanoseconds / 1e9

    def resident_bytes(self) -> int:
        """Return the resident memory now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise ValueError(f"process {self.pid} has no resident memory")


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server and yield the process and its first line of output. Stop it with SIGTERM."""
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
    """Run groupd with a new or given data directory.

    Args:
        data_dir: the data directory; None: an empty one.
        listens: the options that set the listeners; `options` are further ones.
    """
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        command = groupd_command(directory, *options, listens=listens)
        if data_dir is not None:
            command += ["--data-dir", data_dir]
        with _running(command, Path(directory) / "stderr") as (process, line):
            yield Server(process.pid, *kafka_address(line), http_port=http_address(line)[1])


def groupd_command(directory: str, *options: str, listens: Sequence[str] = ON_A_FREE_PORT) -> list[str]:
    """Return the command line of groupd on free ports with its data below `directory`."""
    data = str(Path(directory) / "data")
    addresses = [*listens, "--http", "127.0.0.1:0"]
    return [sys.executable, "-m", "coordinator", "serve", *addresses, "--data-dir", data, *options]


def environment() -> dict[str, str]:
    """Return the environment of a measured process: Python caches bytecode as in production, even if the tests
    disable that.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def kafka_address(ready_line: str) -> tuple[str, int]:
    """Parse host and port from the ready line `groupd ready kafka=HOST:PORT …`."""
    return _address(ready_line, "kafka=")


def http_address(ready_line: str) -> tuple[str, int]:
    """Parse host and port from `http=HOST:PORT` in the ready line."""
    return _address(ready_line, "http=")


def _address(ready_line: str, what: str) -> tuple[str, int]:
    for word in ready_line.split():
        if word.startswith(what):
            host, _, port = word.removeprefix(what).rpartition(":")
            return host, int(port)
    raise ValueError(f"not a ready line: {ready_line!r}")


@contextmanager
def serving(command: list[str]) -> Iterator[Server]:
    """Run a server that prints HOST:PORT when it listens."""
    with (
        tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
        _running(command, Path(directory) / "stderr") as (process, line),
    ):
        host, _, port = line.strip().rpartition(":")
        yield Server(process.pid, host, int(port))


def machine() -> str:
    """Describe the machine in general terms."""
    version = ".".join(map(str, sys.version_info[:3]))
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores, {os.uname().machine}, Linux; CPython {version}, uvloop {metadata_version('uvloop')}"
    )
