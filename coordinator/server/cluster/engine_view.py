"""What the engine knows of its cluster, looked at for whoever asks: its nodes, tokens and epochs, sessions."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from coordinator.cluster.engine.engine import EngineError
from coordinator.cluster.engine.node_status import NodeStatus
from coordinator.cluster.key_values import UnreadableKey, parse_number, parse_partition
from coordinator.cluster.keys import Keys
from coordinator.cluster.member.table import Table
from coordinator.cluster.member.watching import read_all
from coordinator.server.cluster.reach import Nodes
from storage.os_error import reason_of
from storage.topic_partition import TopicPartition

_TIMEOUT_S: Final = 2.0


class EngineView(NamedTuple):
    """As it was a moment ago. What could not be asked is not there, and `problem` says why."""

    nodes: Sequence[NodeStatus]
    quota_bytes: int
    tokens: Mapping[TopicPartition, int]
    epochs: Mapping[TopicPartition, int]
    """The last leader epochs."""
    sessions_left_s: Mapping[int, float]
    """Until the session of a broker ends, if nothing is heard of it."""
    engine_bytes: Mapping[TopicPartition, int]
    """What the engine holds of a partition, of those that this daemon owns."""
    problem: str


class Looked(NamedTuple):
    """What only the engine can say."""

    tokens: Mapping[TopicPartition, int]
    epochs: Mapping[TopicPartition, int]
    sessions_left_s: Mapping[int, float]
    problem: str


async def look(engine: Nodes, keys: Keys, table: Table) -> Looked:
    """Asks for tokens, epochs and sessions, for a while. In: which brokers live."""
    tokens: dict[TopicPartition, int] = {}
    epochs: dict[TopicPartition, int] = {}
    left: dict[int, float] = {}
    problem = ""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            for kind, found in (("owner", tokens), ("epoch", epochs)):
                begin, end = keys.all_of(kind)
                entries, _ = await read_all(engine, begin, end)
                for entry in entries:
                    with suppress(UnreadableKey):  # the table of the cluster names it
                        value = entry.written_at if kind == "owner" else parse_number(entry.value)
                        found[TopicPartition(*parse_partition(entry.key[len(begin) :]))] = value
            for node_id, broker in list(table.brokers.items()):
                left[node_id] = await engine.lease_left_s(broker.lease)
    except (EngineError, TimeoutError) as error:
        problem = reason_of(error)
    return Looked(tokens, epochs, left, problem)
