"""The daemon that tests are run against: one of their own, or one that runs already."""

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Final

from groupd_client import Groupd, GroupdError
from groupd_client.operation import door

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 20.0

_READY: Final = re.compile(r"groupd ready kafka=\S+ http=(\S+) ")
_REPORTED_BYTES: Final = 8000


class CannotStart(GroupdError):
    """There is no daemon to run tests against; the message says why, and what to do."""


def found_command(configured: str) -> list[str]:
    """How a daemon is started. In: what `groupd_command` says, "" for nothing. Raises CannotStart."""
    if configured:
        return shlex.split(configured)
    beside_python = shutil.which("groupd", path=str(Path(sys.executable).parent))
    on_path = beside_python or shutil.which("groupd")
    if on_path:
        return [on_path]
    if importlib.util.find_spec("coordinator") is not None:
        return [sys.executable, "-m", "coordinator"]
    raise CannotStart(
        "there is no command groupd: install groupd, say groupd_command in the configuration of pytest, or let "
        "--groupd=URL (GROUPD_URL) name a daemon that runs"
    )


class Daemon(Groupd):
    """A daemon that runs already: tests leave its own broker alone, and have namespaces."""

    def __init__(self, url: str, token: str | None) -> None:
        super().__init__(url, token=token, actor="pytest-groupd")

    def ensure(self) -> None:
        """It is to be asked from now on. Raises Unreachable where it is not there."""
        self.namespaces()

    def end(self) -> str | None:
        """How it ended, with the end of its log; None while it runs, or where that cannot be seen."""
        return None


class SpawnedDaemon(Daemon):
    """A daemon of the tests: begun with the first one that needs it, and again after one that ended it."""

    def __init__(self, command: Sequence[str], properties: Sequence[str]) -> None:
        """In: `NAME=VALUE`, each."""
        super().__init__("http://127.0.0.1:1", None)
        self._command = [
            *command,
            *("serve", "--profile", "test", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"),
            *(part for each in properties for part in ("-o", each)),
        ]
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None

    def ensure(self) -> None:
        """Raises CannotStart."""
        if self._process is not None and self._process.poll() is None:
            return
        self._stop()
        self._directory = tempfile.TemporaryDirectory(prefix="pytest-groupd-", ignore_cleanup_errors=True)
        command = [*self._command, "--data-dir", f"{self._directory.name}/data"]
        with open(self._log_path, "wb") as log:
            try:
                # What the environment sets for another daemon is not meant for this one.
                environment = {
                    name: text for name, text in os.environ.items() if not name.startswith("KAFKA_")
                }
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env=environment,
                )
            except OSError as error:
                raise CannotStart(f"{shlex.join(command)} cannot be run: {error.strerror}") from None
        ready = _READY.match(self._first_line(self._process.stdout))
        if ready is None:
            self._process.kill()
            self._process.wait()
            raise CannotStart(f"{shlex.join(command)} did not get ready. {self.end()}")
        self._door = door(f"http://{ready[1]}", None, self._door.actor)

    @staticmethod
    def _first_line(stdout: IO[str] | None) -> str:
        """What it prints first, "" where it ends or takes too long. The rest is read and dropped."""
        assert stdout is not None
        lines: SimpleQueue[str] = SimpleQueue()

        def read() -> None:
            lines.put(stdout.readline())
            for _ in stdout:
                pass
            stdout.close()

        threading.Thread(target=read, daemon=True).start()
        try:
            return lines.get(timeout=START_TIMEOUT_S)
        except Empty:
            return ""

    @property
    def _log_path(self) -> str:
        assert self._directory is not None
        return f"{self._directory.name}/groupd.log"

    def end(self) -> str | None:
        if self._process is None or self._process.poll() is None:
            return None
        code = self._process.returncode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        log = Path(self._log_path).read_bytes()[-_REPORTED_BYTES:].decode(errors="replace")
        return f"The daemon ended with {how}. The end of its log:\n{log}"

    def close(self) -> None:
        super().close()
        self._stop()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._directory is not None:
            with contextlib.suppress(OSError):
                self._directory.cleanup()
            self._directory = None
