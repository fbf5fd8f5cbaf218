"""The daemon for the tests: a new one, or one that already runs."""

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
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from groupd_client import Groupd, GroupdError
from groupd_client.deprecated_names import find_renamed, warn_renamed
from groupd_client.operation import parse_endpoint

from pytest_groupd import __version__

START_TIMEOUT_S: Final = 60.0
PULL_TIMEOUT_S: Final = 600.0
"""The start timeout of a container in seconds. The engine may have to pull the image first."""
STOP_TIMEOUT_S: Final = 20.0

_READY: Final = re.compile(r"groupd ready kafka=\S+ http=(\S+) ")
_REPORTED_BYTES: Final = 8000
_SETTINGS: Final = (
    "Name a daemon with --groupd-command=COMMAND (GROUPD), --groupd=URL (GROUPD_URL) or --groupd-container=IMAGE "
    "(GROUPD_CONTAINER)."
)
_COMPATIBLE_PARTS: Final = 2 if __version__.startswith("0.") else 1
_COMPATIBLE: Final = ".".join([*__version__.split(".")[:_COMPATIBLE_PARTS], "x"])


class CannotStart(GroupdError):
    """No daemon for the tests can be used; the message has the reason and the fix."""


class DaemonChoice(NamedTuple):
    """The daemon that one source of settings (options, environment, configuration file) selects.

    It is the `url` of a running daemon, the `command` that starts one, or the image of a `container`. The first
    one that is set counts.
    """

    url: str | None = None
    command: str | None = None
    container: str | None = None


def create_daemon(choices: Iterable[DaemonChoice], token: str | None, properties: Sequence[str]) -> "Daemon":
    """Create the daemon of the first choice that names one, otherwise one of the installed command `groupd`.

    `token` is for a running daemon; `properties`, each `NAME=VALUE`, for one that tests start. Starts nothing.
    Raises CannotStart, and ValueError for a malformed URL.
    """
    for choice in choices:
        if choice.url:
            return Daemon(choice.url, token)
        if choice.command and choice.command.strip():
            return SpawnedDaemon(find_command(choice.command), properties)
        if choice.container:
            return ContainerDaemon(choice.container, properties)
    return SpawnedDaemon(find_command(""), properties)


def find_command(configured: str) -> list[str]:
    """Return the command that starts a daemon, as a list of arguments.

    `configured` is the path of a program, or a command with arguments in the syntax of a shell. If it is empty,
    the command is `groupd` beside this Python, otherwise `groupd` on PATH (pipx, uv tool), otherwise the package
    `groupd` of this Python. Raises CannotStart.
    """
    if configured:
        if os.path.isfile(configured):
            return [configured]
        try:
            return shlex.split(configured)
        except ValueError as error:
            raise CannotStart(f"{configured!r} is not a command: {error}. {_SETTINGS}") from None
    directory = str(Path(sys.executable).parent)
    found = shutil.which("groupd", path=directory) or shutil.which("groupd")
    if found:
        return [found]
    installed = importlib.util.find_spec("groupd")
    if installed is not None and installed.origin is not None:  # a folder of the project may have the name
        return [sys.executable, "-m", "groupd"]
    raise CannotStart(
        f"pytest-groupd found no groupd: no command groupd in {directory} or on PATH, and no package groupd in "
        f"{sys.executable}. Install groupd into this environment. {_SETTINGS}"
    )


def _fits(version: str) -> bool:
    """Return whether a daemon of this version fits this plugin. Before 1.0 a minor version may change the API."""
    return version.split(".")[:_COMPATIBLE_PARTS] == __version__.split(".")[:_COMPATIBLE_PARTS]


class Daemon(Groupd):
    """A running daemon. Tests use namespaces and do not change its own broker."""

    def __init__(self, url: str, token: str | None) -> None:
        super().__init__(url, token=token, actor="pytest-groupd")
        self._is_checked = False

    def ensure(self) -> None:
        """Check once that a daemon answers and that its version fits. Raises CannotStart, GroupdError."""
        if not self._is_checked:
            self._check_version(self.url)
            self._is_checked = True

    def describe_end(self) -> str | None:
        """Return how the daemon ended, with the end of its log; None while it runs or if that is unknown."""
        return None

    def end(self) -> str | None:
        """Call `describe_end`. Deprecated."""
        warn_renamed("Daemon.end", "Daemon.describe_end")
        return self.describe_end()

    def _check_version(self, source: str) -> None:
        """Raise CannotStart unless the daemon fits this plugin. `source` is its URL or command."""
        version = str(self.call("GET", "board").version)
        if not _fits(version):
            raise CannotStart(
                f"{source} is groupd {version}, but pytest-groupd {__version__} needs groupd {_COMPATIBLE}: "
                f"install the same version of both. {_SETTINGS}"
            )


class SpawnedDaemon(Daemon):
    """A daemon of the tests. The first test that needs it starts it. If a test ends it, the next test starts it
    again."""

    _start_timeout_s = START_TIMEOUT_S

    def __init__(self, command: Sequence[str], properties: Sequence[str]) -> None:
        """Create the daemon without starting it. Each of the `properties` is `NAME=VALUE`."""
        super().__init__("http://127.0.0.1:1", None)
        self._command = list(command)
        self._options = [
            *("serve", "--profile", "test", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"),
            *(part for each in properties for part in ("-o", each)),
        ]
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None

    def ensure(self) -> None:
        """Start the daemon unless it runs, and check its version. Raises CannotStart, GroupdError."""
        if self._process is not None and self._process.poll() is None:
            return
        self._stop()
        self._directory = tempfile.TemporaryDirectory(prefix="pytest-groupd-", ignore_cleanup_errors=True)
        command = self._create_command(self._directory.name)
        with open(self._log_path, "wb") as log:
            try:
                # The environment may have settings for another daemon.
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
                raise CannotStart(
                    f"{shlex.join(command)} cannot be run: {error.strerror}. {_SETTINGS}"
                ) from None
        ready = _READY.match(self._read_first_line(self._process.stdout, self._start_timeout_s))
        if ready is None:
            self._kill(self._process)
            raise CannotStart(f"{shlex.join(command)} did not get ready. {self.describe_end()}")
        self._endpoint = parse_endpoint(f"http://{ready[1]}", None, self._endpoint.actor)
        try:
            self._check_version(shlex.join(self._command))
        except GroupdError:
            self._stop()
            raise

    def _create_command(self, directory: str) -> list[str]:
        """Return the whole command line. `directory` is an empty directory for this run of the daemon."""
        return [*self._command, *self._options, "--data-dir", f"{directory}/data"]

    @staticmethod
    def _read_first_line(stdout: IO[str] | None, timeout_s: float) -> str:
        """Return the first line of output, "" if the daemon ends or takes too long. A thread discards the
        rest."""
        assert stdout is not None
        lines: SimpleQueue[str] = SimpleQueue()

        def read() -> None:
            lines.put(stdout.readline())
            for _ in stdout:
                pass
            stdout.close()

        threading.Thread(target=read, daemon=True).start()
        try:
            return lines.get(timeout=timeout_s)
        except Empty:
            return ""

    @property
    def _log_path(self) -> str:
        assert self._directory is not None
        return f"{self._directory.name}/groupd.log"

    def describe_end(self) -> str | None:
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
                self._kill(process)
        if self._directory is not None:
            with contextlib.suppress(OSError):
                self._directory.cleanup()
            self._directory = None

    def _kill(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait()


class ContainerDaemon(SpawnedDaemon):
    """A daemon of the tests in a container, which Docker or Podman starts from a local or published image.

    The container uses the network of the host, because each namespace opens a port of its own.
    """

    _start_timeout_s = PULL_TIMEOUT_S

    def __init__(self, image: str, properties: Sequence[str]) -> None:
        """Create the daemon without starting it. Each of the `properties` is `NAME=VALUE`. Raises CannotStart
        without a container engine."""
        engine = shutil.which("docker") or shutil.which("podman")
        if engine is None:
            raise CannotStart(
                f"the image {image} needs a container engine, but neither docker nor podman is on PATH: "
                f"install one. {_SETTINGS}"
            )
        super().__init__([engine, "run", "--rm", "--network", "host", image], properties)
        self._engine = engine
        self._name = ""

    def _create_command(self, directory: str) -> list[str]:
        # The data stay in the directory of the image, because the container mounts no directory of the host.
        self._name = f"pytest-groupd-{uuid.uuid4().hex[:12]}"
        *run, image = self._command
        return [*run, "--name", self._name, image, *self._options]

    def _kill(self, process: subprocess.Popen[str]) -> None:
        # Killing `docker run` would not stop the container.
        subprocess.run([self._engine, "rm", "--force", self._name], capture_output=True, check=False)
        super()._kill(process)


if not TYPE_CHECKING:  # type checkers report the former names

    def __getattr__(name: str) -> object:
        """Return `find_command` for `found_command`. Deprecated."""
        return find_renamed(__name__, name, {"found_command": find_command})
