"""The compose files of README.md and docs/docker.md: each starts groupd with the documented output."""

import os
import random
import re
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.readme.compose_service import DOCKER as DOCKER_FILES
from tests.readme.compose_service import ComposeService
from tests.readme.newcomer import OF_THE_TESTS, PORTS
from tests.readme.page import SNIPPETS, Role, Snippet

COMPOSE_SNIPPETS = [snippet for snippet in SNIPPETS if snippet.role is Role.COMPOSE]
GROUPD_IMAGE: Final = re.compile(r"^  ([\w-]+):\n +image: \S*\bgroupd:dev$", re.MULTILINE)
IN_IMAGE: Final = {"GROUPD_IMAGE": "true"}
_PORT: Final = re.compile(r"(?<=[:-])\d{4,5}\b")
_BROKERS: Final = 3
"""The most brokers that a file of the pages starts in one process."""
_CHANCE: Final = random.SystemRandom()


def compose_text(snippet: Snippet) -> str:
    """Return the compose file: after the change that a diff shows; with Compose's names for those of a workflow."""
    text = snippet.text
    if snippet.language == "diff":
        kept = [line for line in text.splitlines(keepends=True) if not line.startswith("-")]
        text = "".join(line[1:] for line in kept)
    return re.sub(r"^( +)env:$", r"\1environment:", text, flags=re.MULTILINE)


def free_ports_of(text: str) -> dict[str, str]:
    """Return a free port for each port of the text and of the image, all at one distance from the original, so that
    the ports that follow stay consecutive."""
    named = sorted({*PORTS, *_PORT.findall(text)}, key=int)
    while True:
        distance = _CHANCE.randrange(1_000, 3_600)  # below the ports that Linux gives out by itself
        moved = {name: int(name) + distance for name in named}
        try:
            with ExitStack() as stack:
                for port in {first + broker for first in moved.values() for broker in range(_BROKERS)}:
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue
        return {name: str(port) for name, port in moved.items()}


@pytest.mark.parametrize("snippet", COMPOSE_SNIPPETS, ids=lambda snippet: f"{snippet.section}:{snippet.line}")
def test_service_starts_and_is_healthy(snippet: Snippet, tmp_path: Path) -> None:
    text = compose_text(snippet)
    file = tmp_path / "compose.yml"
    file.write_text(text)
    ports = free_ports_of(text)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    inherited = {name: value for name, value in os.environ.items() if not OF_THE_TESTS.match(name)}
    (name,) = GROUPD_IMAGE.findall(text)
    service = ComposeService(file, tmp_path, ports, {**inherited, "PATH": path, **IN_IMAGE}, name)
    try:
        for line in (*snippet.prints, *snippet.log_says):
            moved = re.sub(rf"(?<=:)({'|'.join(ports)})\b", lambda port: ports[port[0]], line)
            service.await_line(re.compile(re.escape(moved)))
        assert service.is_healthy(), service.log
    finally:
        assert service.stop() == 0, service.log
    assert "WARNING" not in service.log


def test_a_change_takes_away_the_image_of_kafka_alone() -> None:
    """The diff of README.md has one line that goes and one that comes, both of the image."""
    (change,) = (snippet for snippet in COMPOSE_SNIPPETS if snippet.language == "diff")
    changed = [line for line in change.text.splitlines() if line[0] in "+-"]
    assert [line[0] for line in changed] == ["-", "+"]
    assert all(line[1:].strip().startswith("image: ") for line in changed)


def test_the_image_of_the_pages_is_the_one_that_they_build() -> None:
    (build,) = {snippet.text for snippet in SNIPPETS if snippet.text.startswith("docker build")}
    file, name = re.findall(r"-f docker/(\S+) -t (\S+)", build)[0]
    assert (DOCKER_FILES / file).exists()
    assert all(name in compose_text(snippet) for snippet in COMPOSE_SNIPPETS)
