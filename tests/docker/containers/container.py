"""A container: the processes of an image in namespaces of their own, with a writable copy of its files."""

import io
import os
import re
import shlex
import signal
import subprocess
import tarfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.docker.containers.image import Image, Mount, mount_commands
from tests.docker.containers.network import NetworkNamespace

STDOUT: Final = 1
STDERR: Final = 2
_DIES_WITH_PARENT: Final = ("setpriv", "--pdeathsig", "KILL")
"""No process outlives the test. A change of the user resets the setting, so that it is made again after that."""
_FIRST_COMMAND: Final = ("/bin/sh", "-c", 'echo >&0 && exec "$@" </dev/null', "sh")
"""Reports by a second line that the root of the container is its own, and starts the command in its place."""
HANG_S: Final = 120
"""Bounds a hang; nothing waits so long."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and the output of a command."""

    exit_code: int
    output: str


class Container:
    """A container of an image. `network` is its own; `hosts` is the text of its /etc/hosts."""

    def __init__(
        self,
        image: Image,
        directory: Path,
        network: NetworkNamespace,
        *,
        hostname: str = "container",
        hosts: str = "127.0.0.1 localhost\n",
        environment: Mapping[str, str] | None = None,
        entrypoint: Sequence[str] | None = None,
        command: Sequence[str] | None = None,
        user: str | None = None,
        mounts: Sequence[Mount] = (),
    ) -> None:
        """`directory` is a path that does not exist yet. What is None is the image's."""
        self._image = image
        self._network = network
        self._hostname = hostname
        self._root = directory / "root"
        self._root.mkdir(parents=True)
        files = {"hosts": hosts, "resolv.conf": "", "hostname": f"{hostname}\n"}
        for name, text in files.items():
            (directory / name).write_text(text)
        own = [Mount(str(directory / name), f"/etc/{name}", is_read_only=False) for name in files]
        given = [mount._replace(target=image.resolve(mount.target)) for mount in mounts]
        self._mounts = (*image.mounts, *own, *given)
        self.environment: Final = {**image.environment, "HOSTNAME": hostname, **(environment or {})}
        if entrypoint is None:
            entrypoint = image.entrypoint
            command = command or image.command
        self._command = [*entrypoint, *(command or ())]
        self._ids = image.user_ids(user)
        self._process: subprocess.Popen[bytes] | None = None
        self._first_process = 0
        self._readers: list[threading.Thread] = []
        self._grown = threading.Condition()
        self.pieces: Final[list[tuple[int, bytes]]] = []
        """The output so far with the number of its stream."""

    @property
    def is_running(self) -> bool:
        """Whether the first process of the container runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        """The output of both streams so far."""
        return b"".join(piece for _, piece in self.pieces).decode(errors="replace")

    @property
    def standard_output(self) -> bytes:
        """The standard output so far."""
        return b"".join(piece for number, piece in self.pieces if number == STDOUT)

    def start(self) -> None:
        """Start the command of the container, and return when its files are there."""
        reading, writing = os.pipe()
        words = [*_DIES_WITH_PARENT, "nsenter", f"--net={self._network.path}"]
        words += [
            "unshare",
            "--mount",
            "--pid",
            "--uts",
            "--ipc",
            "--fork",
            "--kill-child",
            "sh",
            "-ec",
            self._setup(),
            "sh",
            *self._words(_FIRST_COMMAND),
            *self._command,
        ]
        with os.fdopen(reading, "rb") as ready:
            self._process = subprocess.Popen(
                words,
                stdin=writing,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            os.close(writing)
            for stream, number in ((self._process.stdout, STDOUT), (self._process.stderr, STDERR)):
                assert isinstance(stream, io.BufferedReader)
                reader = threading.Thread(target=self._read, args=(stream, number), daemon=True)
                reader.start()
                self._readers.append(reader)
            first_process = ready.readline()
            self._first_process = int(first_process) if ready.readline() else 0
        if not self._first_process:
            self.wait()
            raise RuntimeError(f"the container could not be laid out: {self.output}")

    def _setup(self) -> str:
        """Return the shell script that lays out the files, reports its process and becomes the command."""
        root = shlex.quote(str(self._root))
        others = [entry.name for entry in self._image.root.iterdir() if entry.name != "usr"]
        sources = " ".join(shlex.quote(str(self._image.root / name)) for name in others)
        user_id, group_id = self._ids
        layers = shlex.quote(
            f"lowerdir={self._image.root}/usr,upperdir={self._root}/.usr/changes,workdir={self._root}/.usr/work"
        )
        return "\n".join(
            (
                f"mount -t tmpfs -o mode=755 tmpfs {root}",
                f"cp -a {sources} {root}",
                # /usr is too large for a copy. A mount or a file of `docker cp` may add to it.
                f"mkdir -p {root}/usr {root}/.usr/changes {root}/.usr/work && chmod 700 {root}/.usr",
                f"mount -t overlay -o {layers} overlay {root}/usr",
                mount_commands(self._mounts, self._root),
                # /proc is still the outer one, so that the id is the one that this machine has. Standard input is a
                # pipe to the reader of the id.
                "read -r id rest </proc/self/stat && echo $id >&0",
                f"mount -t proc proc {root}/proc",
                # The command hostname refuses an underscore, which names of services have.
                f"echo {shlex.quote(self._hostname)} >/proc/sys/kernel/hostname",
                f'exec chroot --userspec={user_id}:{group_id} --groups= {root} "$@"',
            )
        )

    def _words(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
        variables = {**self.environment, **(environment or {})}
        return [
            *_DIES_WITH_PARENT,
            *("env", "-i", "-C", self._image.directory),
            *(f"{name}={value}" for name, value in variables.items()),
            *command,
        ]

    def _read(self, stream: io.BufferedReader, number: int) -> None:
        with stream:
            while piece := stream.read1():
                with self._grown:
                    self.pieces.append((number, piece))
                    self._grown.notify_all()
        with self._grown:
            self._grown.notify_all()

    def wait_for_output(self, pattern: str) -> bool:
        """Wait for text in the output; False if the container ends without it."""
        found = re.compile(pattern, re.MULTILINE)
        deadline = time.monotonic() + HANG_S
        with self._grown:
            while found.search(self.output) is None:
                if not any(reader.is_alive() for reader in self._readers):
                    return found.search(self.output) is not None
                if not self._grown.wait(min(1, max(0, deadline - time.monotonic()))):
                    assert time.monotonic() < deadline, f"no {pattern} in:\n{self.output}"
        return True

    def execute(
        self, command: Sequence[str], *, user: str | None = None, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run a command in the running container, as `docker exec` does."""
        with self.execute_in_background(command, user=user, environment=environment) as process:
            output, _ = process.communicate(timeout=HANG_S)
        return CommandResult(process.returncode, output.decode(errors="replace"))

    def execute_in_background(
        self, command: Sequence[str], *, user: str | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command in the running container. Its output has both streams."""
        user_id, group_id = self._image.user_ids(user) if user else self._ids
        target = ("nsenter", "-t", str(self._first_process), "-m", "-n", "-p", "-u", "-i", "-r", "-w")
        words = [*target, "-S", str(user_id), "-G", str(group_id), *self._words(command, environment)]
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def put(self, directory: str, archive: bytes) -> None:
        """Unpack a tar archive into a directory of the running container, as `docker cp` does."""
        root = Path(f"/proc/{self._first_process}/root")
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            for member in packed.getmembers():
                source = packed.extractfile(member)
                if source is None:
                    continue
                target = root / directory.strip("/") / member.name.strip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                # A process that waits for the file finds all of it.
                fresh = target.with_name(f".{target.name}")
                fresh.write_bytes(source.read())
                fresh.chmod(member.mode)
                fresh.rename(target)

    def wait(self) -> int:
        """Wait for the end of the container; return its exit code."""
        assert self._process is not None
        code = self._process.wait(HANG_S)
        for reader in self._readers:
            reader.join(HANG_S)
        return code

    def stop(self) -> int:
        """Send SIGTERM to the first process, and return its exit code."""
        assert self._first_process, "the container was not started"
        os.kill(self._first_process, signal.SIGTERM)
        return self.wait()

    def remove(self) -> None:
        """Kill every process of the container."""
        if self._process is not None:
            if self.is_running:
                with suppress(ProcessLookupError):
                    os.kill(self._first_process or self._process.pid, signal.SIGKILL)
            self.wait()
