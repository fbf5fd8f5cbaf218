"""The recipes of docker/examples, built where they have to be, and an engine for them."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.docker.containers.image import require_containers
from tests.docker.engine.engine import IMAGES
from tests.interop import build

EXAMPLES: Final = Path(__file__).parents[2] / "docker" / "examples"


def _sources(language: str) -> list[str]:
    return sorted(str(path) for path in (EXAMPLES / language).iterdir() if path.is_file())


def python(program: str) -> list[str]:
    """The command that runs a recipe."""
    return [sys.executable, str(EXAMPLES / "python" / program)]


def node(program: str) -> list[str]:
    """The same; npm installs its dependencies from the lock file."""
    npm = build.tool("npm")
    install = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    target = build.once("recipes-node", _sources("node"), lambda fresh: build.run(install, fresh))
    return [build.tool("node"), f"{target}/{program}"]


def go(program: str) -> list[str]:
    """The same, compiled."""
    compiler = build.tool("go")
    target = build.once(
        "recipes-go", _sources("go"), lambda fresh: build.run([compiler, "build", "-o", "recipe", "."], fresh)
    )
    return [f"{target}/recipe", program]


def java(program: str, *arguments: str) -> list[str]:
    """The same, compiled."""
    compiler, maven = build.tool("javac"), build.tool("mvn")

    def make(fresh: str) -> None:
        build.run([maven, *build.COPY_JARS], fresh)
        build.run([compiler, "-cp", "jars/*", "-d", "classes", "Plain.java", "DropIn.java"], fresh)

    target = build.once("recipes-java", _sources("java"), make)
    options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
    return [build.tool("java"), *options, "-cp", f"{target}/classes:{target}/jars/*", program, *arguments]


@contextmanager
def engine() -> Iterator[dict[str, str]]:
    """Variables that name an engine: Docker if it has both tags of the image, else the stand-in (needs root)."""
    if _docker_has_images():
        yield {}
        return
    require_containers()
    with tempfile.TemporaryDirectory(prefix="groupd-engine-") as directory:
        served = subprocess.Popen(
            [sys.executable, "-m", "tests.docker.engine.engine", directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert served.stdout is not None
        port = int(served.stdout.readline())
        yield {
            "DOCKER_HOST": f"tcp://127.0.0.1:{port}",
            "HOME": directory,
            "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
            "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
            "TESTCONTAINERS_RYUK_DISABLED": "true",
        }
        served.communicate()
        assert served.returncode == 0


def _docker_has_images() -> bool:
    try:
        done = subprocess.run(
            ["docker", "image", "inspect", *IMAGES], capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
