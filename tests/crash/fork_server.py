"""Daemons that are forked from a process that has imported groupd already.

A daemon of a short test spends nine tenths of its CPU time on imports. `start` asks the fork server of this test
process for a daemon; the first call starts the server, `python -m tests.crash.fork_server FD`. For each daemon the
server forks a supervisor, which forks the daemon, waits for it, and reports its process id and its exit code.
"""

import asyncio
import atexit
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final

IMPORTED: Final = (
    "coordinator.cli.serve",
    "coordinator.daemon",
    "coordinator.control.control_plane",
    "uvloop",
)
_REQUEST_BYTES: Final = 1 << 16


class ForkedProcess:
    """One daemon, with the part of `asyncio.subprocess.Process` that tests need."""

    def __init__(self, pid: int, stdout: asyncio.StreamReader, status: asyncio.StreamReader) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._status = status

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens when the process has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for the end. Return the exit code, or the negative number of the signal."""
        if self.returncode is None:
            self.returncode = int(await self._status.read())
        return self.returncode


async def start(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], stderr: IO[bytes]
) -> ForkedProcess:
    """Fork a process that runs a module as `python -m` does."""
    request = {"module": module, "arguments": arguments, "environment": environment, "directory": os.getcwd()}
    stdout_reader, stdout = os.pipe()
    status_reader, status = os.pipe()
    try:
        data = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(_connection(), [data], [stdout, stderr.fileno(), status])
        assert sent == len(data) <= _REQUEST_BYTES
    finally:
        os.close(stdout)
        os.close(status)
    output, ended = await _reader(stdout_reader), await _reader(status_reader)
    return ForkedProcess(int(await ended.readline()), output, ended)


async def _reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    return reader


_servers: Final[list[tuple[subprocess.Popen[bytes], socket.socket]]] = []


def _connection() -> socket.socket:
    """Return the connection to the fork server; start it when it does not run."""
    if not _servers or _servers[-1][0].poll() is not None:
        parent_end, child_end = socket.socketpair()
        with child_end:
            command = [sys.executable, "-m", "tests.crash.fork_server", str(child_end.fileno())]
            process = subprocess.Popen(command, pass_fds=[child_end.fileno()], stdin=subprocess.DEVNULL)
        _servers.append((process, parent_end))
        atexit.register(_stop, process, parent_end)
    return _servers[-1][1]


def _stop(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    process.wait()


# The server's side


def main(connection: socket.socket) -> None:
    """Fork a supervisor for each request, until the connection ends."""
    for name in IMPORTED:
        with suppress(ImportError):
            __import__(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 3)
        _reap()
        if not data:
            return
        while not data.endswith(b"\n"):
            data += connection.recv(_REQUEST_BYTES)
        if os.fork() == 0:
            connection.close()
            _supervise(json.loads(data), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _reap() -> None:
    """Wait for supervisors that have ended, so that their CPU time is counted as this process's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _supervise(request: dict[str, Any], stdout: int, stderr: int, status: int) -> None:
    """Run the daemon in a child of this process. Only the child returns, when the daemon's module has ended."""
    daemon = os.fork()
    if daemon == 0:
        os.close(status)
        _run(request, stdout, stderr)
        sys.exit()
    os.close(stdout)
    os.close(stderr)
    os.write(status, b"%d\n" % daemon)
    _, ended = os.waitpid(daemon, 0)
    os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended))
    os._exit(0)


def _run(request: dict[str, Any], stdout: int, stderr: int) -> None:
    for descriptor, number in ((stdout, 1), (stderr, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.argv[1:] = request["arguments"]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
