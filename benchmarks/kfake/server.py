"""The Go program of this directory, built once if a Go toolchain is installed."""

import os
from collections.abc import Mapping
from typing import Final

from tests.interop.build import once, run, tool

HERE: Final = os.path.dirname(os.path.abspath(__file__))
SOURCES: Final = ("main.go", "go.mod", "go.sum")


def kfake_command(topic: str, partitions: int, properties: Mapping[str, str] | None = None) -> list[str]:
    """Return the command that runs kfake with a topic on a free port; it prints HOST:PORT. kfake ignores unknown
    broker properties.

    Raises:
        CannotBuild: kfake cannot be built.
    """
    go = tool("go")
    sources = [os.path.join(HERE, name) for name in SOURCES]
    target = once("kfake", sources, lambda fresh: run([go, "build", "-o", "kfake", "."], fresh))
    command = [os.path.join(target, "kfake"), "-topic", topic, "-partitions", str(partitions)]
    for name, value in (properties or {}).items():
        command += ["-property", f"{name}={value}"]
    return command
