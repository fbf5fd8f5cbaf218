"""A groupd process for a test."""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import IO

from tests.interop.build import CHECKOUT

READY = re.compile(r"groupd ready kafka=(\S+) http=(\S+) data=(.+)$")
FINDINGS = re.compile(r'^groupd_(?:violations|notices)_total\{oracle="(\w+)"\} (\S+)$', re.MULTILINE)
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 60
KEPT_STDERR_LINES = 400


class Daemon:
    """Start `groupd serve` on free loopback ports, with the test profile or with Kafka's defaults."""

    def __init__(
        self,
        data_directory: str,
        *options: str,
        listen: str = "",
        environment: Mapping[str, str] = MappingProxyType({}),
        has_test_profile: bool = True,
    ) -> None:
        """Start the daemon and wait for its ready line.

        `listen` are listeners with ports of their own, separated by commas; `bootstrap` is the address of the
        first. `environment` are variables besides those of this process.
        """
        self._profile = ("--profile", "test") if has_test_profile else ()
        self._data_directory = data_directory
        self._options = options
        self._listen = listen
        self._environment = {**os.environ, **environment}
        self.stderr: list[str] = []
        self._written = threading.Condition()
        """Notified of each line on standard error."""
        self.bootstrap = "127.0.0.1:0"
        self.http = "127.0.0.1:0"
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "coordinator", "serve"),
                *("--listen", self._listen or self.bootstrap, "--http", self.http),
                *("--data-dir", self._data_directory, *self._profile),
                *self._options,
            ],
            cwd=CHECKOUT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        ready: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._readers = [
            threading.Thread(target=self._read_stdout, args=(self._process.stdout, ready), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        try:
            line = ready.get(timeout=START_TIMEOUT_S)
        except queue.Empty:
            line = ""
        found = READY.match(line)
        if found is None:
            self.kill()
            raise AssertionError(f"groupd did not get ready; it printed {line!r}\n{self.report()}")
        self.bootstrap, self.http = found.group(1), found.group(2)

    def _read_stdout(self, lines: IO[str], ready: "queue.SimpleQueue[str]") -> None:
        for line in lines:
            ready.put(line.rstrip("\n"))
        ready.put("")

    def _read_stderr(self, lines: IO[str]) -> None:
        for line in lines:
            with self._written:
                self.stderr.append(line.rstrip("\n"))
                del self.stderr[:-KEPT_STDERR_LINES]
                self._written.notify_all()

    def has_told(self, text: str) -> bool:
        """Whether a line on standard error has this text, or soon will."""
        with self._written:
            return self._written.wait_for(lambda: any(text in line for line in self.stderr), ANSWER_TIMEOUT_S)

    def _ended(self) -> int:
        code = self._process.wait(STOP_TIMEOUT_S)
        for reader in self._readers:
            reader.join(STOP_TIMEOUT_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        return code

    def stop(self) -> None:
        """SIGTERM; it must exit with 0."""
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._ended()
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        assert code == 0, f"groupd exited with {code} on SIGTERM\n{self.report()}"

    def send(self, what: signal.Signals) -> None:
        """Sends the process a signal."""
        self._process.send_signal(what)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._ended()

    def restart(self, how: signal.Signals) -> None:
        """Stop it with the signal and start it again on the same ports and data directory."""
        if how == signal.SIGKILL:
            self.kill()
        else:
            self.stop()
        self._start()

    def is_alive(self) -> bool:
        """Whether it runs and answers."""
        if self._process.poll() is not None:
            return False
        try:
            with urllib.request.urlopen(f"http://{self.http}/health", timeout=ANSWER_TIMEOUT_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def violations(self) -> dict[str, int]:
        """Return the number of violations and notices since the start by oracle, from /metrics."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=ANSWER_TIMEOUT_S) as answer:
            found = FINDINGS.findall(answer.read().decode())
        assert found, "the metric of violations is missing"
        counts: Counter[str] = Counter()
        for oracle, count in found:
            counts[oracle] += int(float(count))
        return counts

    def report(self) -> str:
        """Return the end of its log, for a failure message."""
        return "\n".join(["--- groupd's log", *self.stderr[-80:]])
