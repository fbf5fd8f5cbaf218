"""The Go program of this directory, built once where there is a Go toolchain."""

import os
from collections.abc import Mapping
from typing import Final

from tests.interop.build import once, run, tool

HERE: Final = os.path.dirname(os.path.abspath(__file__))
SOURCES: Final = ("main.go", "go.mod", "go.sum")


def kfake_command(topic: str, partitions: int, properties: Mapping[str, str] | None = None) -> list[str]:
    """The command of a kfake that has a topic, listens on a free port and prints HOST:PORT. Raises CannotBuild.

    In: properties of a broker; it passes over those that it does not know."""
    go = tool("go")
    sources = [os.path.join(HERE, name) for name in SOURCES]
    target = once("kfake", sources, lambda fresh: run([go, "build", "-o", "kfake", "."], fresh))
    command = [os.path.join(target, "kfake"), "-topic", topic, "-partitions", str(partitions)]
    for name, value in (properties or {}).items():
        command += ["-property", f"{name}={value}"]
    return command
