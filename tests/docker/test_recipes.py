"""The recipes for Testcontainers, run with its own modules, and a stock client at the address that they give."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.docker import recipes
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
    """A group with one member gets the written records, at that address and no other."""
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
    """Connect to a port. Raises OSError if it is closed."""
    host, _, port = bootstrap.rpartition(":")
    socket.create_connection((host, int(port)), TIMEOUT_S).close()
