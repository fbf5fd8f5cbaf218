"""A process that stands for a container. It has no network of its own: each port that it would listen on is a free
one of this machine, the one that it is mapped to. Nor has it a root: paths of the image in commands, variables and
scripts are made those of its directory."""

import io
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.docker.engine.image import Image
from tests.free_ports import free_ports

_LISTENERS: Final = ("KAFKA_LISTENERS", "GROUPD_DEFAULT_LISTENERS", "GROUPD_DEFAULT_HTTP_LISTENER")
_PORT: Final = re.compile(r":(\d+)(?=,|$)")
_MOVED: Final = re.compile(
    r"(?<![\w/.])(/etc/confluent/|/etc/kafka/|/var/lib/groupd|/opt/groupd/|/usr/local/bin/(?:kafka|zookeeper)"
    r"|/tc-start\.sh|/(?:usr/sbin/|tmp/)?testcontainers_start\.sh)"
)
STDOUT: Final = 1
STDERR: Final = 2


class Container:
    """Made, then started, then removed."""

    def __init__(self, image: Image, name: str, asked: dict[str, Any], root: Path) -> None:
        """In: what the engine was asked to make."""
        self.id: Final = secrets.token_hex(32)
        self.name: Final = name or self.id[:12]
        self.asked: Final = asked
        self.root: Final = root
        self._image = image
        given = dict(one.split("=", 1) for one in asked.get("Env") or [])
        self.environment: Final = image.environment | given
        inner = [port for key in _LISTENERS for port in _PORT.findall(self.environment.get(key, ""))]
        self.ports: Final = dict(zip(dict.fromkeys(inner), free_ports(len(set(inner))), strict=True))
        """Of this machine, by those in the image."""
        self.said: Final[list[tuple[int, bytes]]] = []
        """What was said so far, in pieces, and where."""
        self._process: subprocess.Popen[bytes] | None = None
        self._hearing: list[threading.Thread] = []
        image.lay_out(root, self._moved)

    @property
    def is_running(self) -> bool:
        """Whether its process is."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Runs what the image or whoever asked says."""
        programs = self.root / "opt" / "groupd" / "bin"
        programs.mkdir(parents=True, exist_ok=True)
        groupd = programs / "groupd"
        groupd.write_text(f'#!/bin/sh\nexec {sys.executable} -m coordinator "$@"\n')
        groupd.chmod(0o755)
        self._process = subprocess.Popen(
            self._command(),
            cwd=self.root / self._image.directory.strip("/"),
            env=self._variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        for stream, number in ((self._process.stdout, STDOUT), (self._process.stderr, STDERR)):
            assert stream is not None
            hearing = threading.Thread(target=self._hear, args=(stream, number), daemon=True)
            hearing.start()
            self._hearing.append(hearing)

    def _command(self) -> Sequence[str]:
        entrypoint, command = self.asked.get("Entrypoint"), self.asked.get("Cmd")
        if entrypoint is None:
            entrypoint = self._image.entrypoint
            command = command or self._image.command
        return [self._moved(word) for word in (*entrypoint, *(command or ()))]

    def _variables(self) -> dict[str, str]:
        variables = {key: self._moved(text) for key, text in self.environment.items()}
        for key in _LISTENERS:
            if key in variables:
                variables[key] = _PORT.sub(lambda found: f":{self.ports[found[1]]}", variables[key])
        path = self.environment.get("PATH", "").replace("$PATH", "").strip(":")
        here = [f"{self.root}{place}" for place in (*path.split(":"), "/usr/local/bin")]
        return variables | {"PATH": os.pathsep.join([*here, os.environ["PATH"]])}

    def _moved(self, text: str) -> str:
        return _MOVED.sub(lambda found: f"{self.root}{found[0]}", text)

    def _hear(self, stream: io.BufferedReader, number: int) -> None:
        with stream:
            while piece := stream.read1():
                self.said.append((number, piece))

    def put(self, directory: str, archive: bytes) -> None:
        """Unpacks files into it."""
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            for member in packed.getmembers():
                source = packed.extractfile(member)
                if source is None:
                    continue
                target = self.root / directory.strip("/") / member.name.strip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                # Who waits for the file shall find all of it.
                fresh = target.with_name(f".{target.name}")
                fresh.write_text(self._moved(source.read().decode()))
                fresh.chmod(member.mode)
                fresh.rename(target)

    @property
    def output(self) -> bytes:
        """What it said to its standard output."""
        return b"".join(piece for number, piece in self.said if number == STDOUT)

    def signal(self, what: signal.Signals) -> int:
        """Tells its process something that ends it; the exit code."""
        assert self._process is not None
        self._process.send_signal(what)
        return self.wait(60)

    def wait(self, timeout_s: float) -> int:
        """The exit code, when it has ended and everything that it said is here."""
        assert self._process is not None
        code = self._process.wait(timeout_s)
        for hearing in self._hearing:
            hearing.join(timeout_s)
        return code

    def remove(self) -> None:
        """Ends it with all that it started."""
        if self._process is not None:
            if self.is_running:
                os.killpg(self._process.pid, 9)
            self._process.wait()
            for hearing in self._hearing:
                hearing.join()
        shutil.rmtree(self.root, ignore_errors=True)
