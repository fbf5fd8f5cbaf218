"""The other servers that groupd is compared with, as far as this machine can run them."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from benchmarks.kafka import kafka
from benchmarks.kfake.server import kfake_command
from benchmarks.process import Server, serving
from tests.interop.build import CannotBuild

ECHO: Final = "echo"
KAFKA: Final = "Kafka"
KFAKE: Final = "kfake"
MOCK: Final = "mock"
WITHOUT_KAFKA: Final = (ECHO, MOCK, KFAKE)
"""The fast-starting peers, for a quick run."""
_PARTITIONS: Final = 6
_AS_IT_COMES: Final[Mapping[str, str]] = {}


@dataclass
class Peers:
    """The running peers by name, and the reasons why others are missing."""

    servers: dict[str, Server] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def left_out(self) -> str:
        """Return a sentence for the report; "" if all peers run."""
        reasons = "; ".join(f"{name} ({reason})" for name, reason in self.missing.items())
        return f" Not there: {reasons}." if reasons else ""


async def start_peers(
    stack: ExitStack,
    names: Sequence[str],
    topic: str,
    groups: Sequence[str],
    partitions: int = _PARTITIONS,
    properties: Mapping[str, str] = _AS_IT_COMES,
) -> Peers:
    """Start peers with a topic. They stop when `stack` is closed.

    Args:
        stack: stops the peers.
        names: some of ECHO, KAFKA, KFAKE and MOCK.
        topic: the name of the topic.
        groups: the groups of the benchmark; Kafka coordinates them before this returns.
        partitions: the number of partitions of the topic.
        properties: broker properties; KAFKA uses all, KFAKE the ones it knows.
    """
    peers = Peers()
    for name in names:
        try:
            if name == KAFKA:
                server = await kafka(stack, topic, partitions, groups, properties)
            else:
                server = stack.enter_context(serving(_command(name, topic, partitions, properties)))
        except CannotBuild as problem:
            peers.missing[name] = " ".join(str(problem).split())
            print(f"{name} is left out: {peers.missing[name]}", flush=True)
        else:
            peers.servers[name] = server
    return peers


def _command(name: str, topic: str, partitions: int, properties: Mapping[str, str]) -> list[str]:
    python = [sys.executable, "-m"]
    if name == ECHO:
        return [*python, "benchmarks.echo_server"]
    if name == MOCK:
        return [*python, "benchmarks.mock_cluster", topic]
    return kfake_command(topic, partitions, properties)
