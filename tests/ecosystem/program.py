"""A Java program that a test starts, watches and kills."""

import glob
import os
import subprocess
import threading
from collections.abc import Sequence
from typing import IO, Final

from tests.interop.broker import eventually
from tests.interop.build import JVM_OPTIONS, CannotBuild, kafka, maven_archive, tool
from tests.interop.requirement import lacking

KEPT_LINES: Final = 60


_JAVA: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "java")
CONNECT: Final = ("kafka-connect", os.path.join(_JAVA, "connect"), ("Numbers.java",))
STREAMS: Final = ("kafka-streams", os.path.join(_JAVA, "streams"), ("WordCount.java",))
REGISTRY: Final = "io.apicurio:apicurio-registry-app:3.0.9:tar.gz:all"
"""Apicurio Registry as it is in its image: the newest release for Java 17."""


def registry() -> list[str]:
    """Return the command that runs Apicurio Registry. The test is skipped where it cannot be had."""
    try:
        folder = maven_archive("registry", REGISTRY)
        (jar,) = glob.glob(os.path.join(folder, "*-runner.jar"))
        return [tool("java"), *JVM_OPTIONS, "-Xmx384m", "-jar", jar]
    except CannotBuild as reason:
        lacking(str(reason))
        raise AssertionError("unreachable") from reason


def prepared(name: str, folder: str, programs: tuple[str, ...] = ()) -> list[str]:
    """The command that runs a class of `folder`'s jars; the test is skipped where they cannot be had. What else is
    in the folder is on the class path, too: META-INF names our own plugins."""
    try:
        *command, class_path = kafka(name, folder, programs)
        return [*command, os.pathsep.join((class_path, folder))]
    except CannotBuild as reason:
        lacking(str(reason))
        raise AssertionError("unreachable") from reason


class Program:
    """A process and its output."""

    def __init__(self, command: Sequence[str]) -> None:
        """Starts it."""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, printed: IO[str]) -> None:
        for line in printed:
            self.lines.append(line.rstrip("\n"))

    def wait_printed(self, line: str, timeout_s: float) -> None:
        """Wait until it has printed a line."""
        eventually(f"{line!r} in", lambda: line in self.lines, self.report, timeout_s)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()
        self._reader.join(60)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def report(self) -> str:
        """Return the end of its output."""
        return "\n".join(self.lines[-KEPT_LINES:])
