"""The recipes for Testcontainers, run with its own modules, and a stock client at the address that they give."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.docker import recipes
from tests.docker.engine.container import Container
from tests.docker.engine.image import REPOSITORY, image_of
from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking

TIMEOUT_S: Final = 60
RECIPES: Final[Mapping[str, Callable[[], list[str]]]] = {
    "python": lambda: recipes.python("plain.py"),
    "python, drop-in": lambda: recipes.python("drop_in.py"),
    "node": lambda: recipes.node("plain.js"),
    "node, drop-in": lambda: recipes.node("drop-in.js"),
    "go": lambda: recipes.go("plain"),
    "go, drop-in": lambda: recipes.go("drop-in"),
    "java": lambda: recipes.java("Plain"),
    "java, drop-in": lambda: recipes.java("DropIn"),
    "java, drop-in for Confluent's image": lambda: recipes.java("DropIn", "confluent"),
}


@pytest.fixture(scope="module")
def engine() -> Iterator[dict[str, str]]:
    with recipes.engine() as variables:
        yield variables


@pytest.mark.parametrize("command", RECIPES.values(), ids=RECIPES.keys())
def test_clients_are_told_the_address_that_they_were_given(
    command: Callable[[], list[str]], engine: Mapping[str, str]
) -> None:
    try:
        words = command()
    except CannotBuild as why:
        lacking(str(why))
    with subprocess.Popen(
        words, env={**os.environ, **engine}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as recipe:
        assert recipe.stdout is not None
        bootstrap = recipe.stdout.readline().strip()
        assert bootstrap, "it ended, or said nothing"
        produces_and_consumes(bootstrap)
        recipe.communicate(timeout=TIMEOUT_S)
    assert recipe.returncode == 0
    with pytest.raises(OSError, match="refused"):
        connect(bootstrap)


def produces_and_consumes(bootstrap: str) -> None:
    """A group of one member gets what was written, at that address and no other."""
    servers = {"bootstrap.servers": bootstrap}
    (broker,) = AdminClient(servers).list_topics(timeout=TIMEOUT_S).brokers.values()
    assert f"{broker.host}:{broker.port}" == bootstrap
    producer = Producer(servers)
    producer.produce("orders", b"1")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer(servers | {"group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None
    assert message.value() == b"1"


def connect(bootstrap: str) -> None:
    """Raises OSError where nobody listens."""
    host, _, port = bootstrap.rpartition(":")
    socket.create_connection((host, int(port)), TIMEOUT_S).close()


# What the image of the drop-in has, and starts by itself


def test_what_the_image_copies_is_sent_to_the_engine() -> None:
    sent = (REPOSITORY / ".dockerignore").read_text().splitlines()
    copied = [source.rstrip("/") for source in image_of("drop-in").copied.values()]
    assert copied
    assert [source for source in copied if f"!{source}" not in sent] == []


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    environment = ["KAFKA_NODE_ID=7", "KAFKA_LISTENERS=PLAINTEXT://127.0.0.1:9092"]
    container = Container(image_of("drop-in"), "", {"Env": environment}, tmp_path / "root")
    yield container
    container.remove()


def test_it_says_what_modules_wait_for_once_it_is_ready_and_ends_at_a_signal(container: Container) -> None:
    container.start()
    ends = time.monotonic() + TIMEOUT_S
    while b"Kafka Server started" not in container.output:
        assert container.is_running, container.said
        assert time.monotonic() < ends, container.said
        time.sleep(0.05)
    lines = container.output.decode().splitlines()
    assert lines[0].startswith("groupd ready ")
    assert [line.partition(" (")[0] for line in lines[1:]] == [
        "[KafkaServer id=7] started",
        "Transitioning from RECOVERY to RUNNING",
        "Kafka Server started",
    ]
    # What was started is groupd itself, not a shell in front of it.
    assert container.signal(signal.SIGTERM) == 0


def test_what_is_wrong_with_its_variables_ends_it(tmp_path: Path) -> None:
    wrong = ["KAFKA_LISTENERS=PLAINTEXT://127.0.0.1:9092", "KAFKA_GROUP_MAX_SIZE=none"]
    container = Container(image_of("drop-in"), "", {"Env": wrong}, tmp_path / "root")
    container.start()
    assert container.wait(TIMEOUT_S) not in (0, None)
    assert b"started" not in container.output
    container.remove()
