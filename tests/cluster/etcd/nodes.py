"""Nodes of etcd, as processes of this machine."""

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.free_ports import free_ports
from tests.interop.requirement import lacking

HANG_S = 60


def etcd_binary() -> str:
    """Return the path of the etcd binary; skip the test without one."""
    binary = os.environ.get("GROUPD_ETCD") or shutil.which("etcd")
    if binary is None:
        lacking("etcd: Debian's etcd-server, or GROUPD_ETCD")
        raise AssertionError("a test that lacks something does not go on")
    return binary


class EtcdNodes:
    """Some nodes that are one etcd."""

    def __init__(self, directory: Path, count: int, *options: str, scheme: str = "http") -> None:
        """Prepare `count` nodes with the same etcd `options`.

        With `https` the options configure TLS for clients.
        """
        self._scheme = scheme
        self._binary = etcd_binary()
        self._options = options
        self._directory = directory
        ports = free_ports(3 * count)
        self._client, self._peer, self._metrics = (ports[first::3] for first in range(3))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for number in range(count):
            self.start(number)
        self.until_healthy()

    @property
    def pids(self) -> list[int]:
        """The process ids of the running nodes."""
        return [process.pid for process in self._processes.values()]

    @property
    def ports(self) -> list[int]:
        """For clients, of each node."""
        return self._client

    @property
    def endpoints(self) -> str:
        """As the property has them."""
        return ",".join(f"127.0.0.1:{port}" for port in self._client)

    def start(self, number: int) -> None:
        """Starts one, or starts it again."""
        peers = [f"n{each}=http://127.0.0.1:{port}" for each, port in enumerate(self._peer)]
        client = f"{self._scheme}://127.0.0.1:{self._client[number]}"
        peer = f"http://127.0.0.1:{self._peer[number]}"
        with (self._directory / f"etcd{number}.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                [
                    *(self._binary, "--name", f"n{number}", "--data-dir", self._directory / f"etcd{number}"),
                    *("--listen-client-urls", client, "--advertise-client-urls", client),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--listen-metrics-urls", f"http://127.0.0.1:{self._metrics[number]}"),
                    *("--initial-cluster", ",".join(peers), "--initial-cluster-state", "new"),
                    *self._options,
                ],
                stdout=log,
                stderr=log,
            )

    def kill(self, number: int) -> None:
        """With signal 9."""
        process = self._processes.pop(number)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def pause(self, number: int) -> None:
        """Stop the process at once: its connections stay open without responses until `resume`."""
        process = self._processes[number]
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self, number: int) -> None:
        """Let a paused node continue."""
        self._processes[number].send_signal(signal.SIGCONT)

    def restore(self) -> None:
        """Start killed nodes, resume paused ones, and wait until etcd has a leader."""
        for number in range(len(self._client)):
            if number in self._processes:
                self.resume(number)
            else:
                self.start(number)
        self.until_healthy()

    def ask(self, path: str, token: str = "", **fields: object) -> dict[str, Any]:
        """Send a request that no daemon sends, through etcd's gateway for JSON: POST /v3/PATH at the first node."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._client[0]}/v3/{path}", json.dumps(fields).encode()
        )
        if token:
            request.add_header("Authorization", token)
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def close(self) -> None:
        """Kills all."""
        for number in list(self._processes):
            self.kill(number)

    def until_healthy(self) -> None:
        """Waits until there is a leader."""
        ends = time.monotonic() + HANG_S
        for port in (self._metrics[number] for number in self._processes):
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
                        if b"true" in answer.read():
                            break
                except (urllib.error.URLError, OSError):
                    assert time.monotonic() < ends, "etcd does not start"
                time.sleep(0.05)

    def leader(self) -> int:
        """Return the number of the node that leads. Wait for the end of an election."""
        deadline = time.monotonic() + HANG_S
        while True:
            for number in self._processes:
                url = f"http://127.0.0.1:{self._metrics[number]}/metrics"
                with urllib.request.urlopen(url, timeout=HANG_S) as answer:
                    if b"\netcd_server_is_leader 1" in answer.read():
                        return number
            assert time.monotonic() < deadline, "no node of etcd leads"
            time.sleep(0.05)
