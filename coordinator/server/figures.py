"""The counts and sizes of a server: what there is to measure, in plain values.

Of most things the count is kept. What has to be looked at one by one, logs and connections, can be many: the server
does other things in between.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordinator.engine.partition import Partition, PartitionState
from coordinator.net.api_counts import ApiCounts
from coordinator.server.metrics import Metrics
from coordinator.server.server import Server
from coordinator.transactions.state import ONGOING, PREPARED

_LOOKS: Final = 256
"""How many things are looked at in one step."""


@dataclass(frozen=True, slots=True)
class ConnectionFigures:
    """Of all listeners."""

    open: int
    accepted: int
    refused: int
    """Turned away, or closed for what they sent."""
    closed_idle: int
    failed_handshakes: Mapping[str, int]
    """TLS, by kind."""
    full_seconds: float
    """How long new connections have had to wait."""
    unanswered_requests: int
    answer_bytes: int
    """Answers that have not left."""
    request_bytes: int
    """Of the requests that are being received."""
    awaiting_memory: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All of them, in values that change no more. Counts are since the start."""

    groups: Mapping[str, int]
    """Classic ones, by state."""
    consumer_groups: Mapping[str, int]
    """Those of KIP-848, by state."""
    partitions: Mapping[PartitionState, int]
    """Of the groups, by state."""
    transactional_ids: Mapping[str, int]
    """By state, in the partitions that are loaded."""
    transaction_partitions: Mapping[PartitionState, int]
    """Of `__transaction_state`, by state; none before somebody has asked for a coordinator of transactions."""
    open_transactions: int
    """Those whose outcome is not settled, and those that wait for markers."""
    happened: Metrics
    """What the events add up to."""
    requests: Mapping[int, ApiCounts]
    """By api key."""
    connections: ConnectionFigures
    waiters: int
    """Answers that groups, fetches and logs have still to give."""
    timers: int
    tasks: int
    """Of the event loop."""
    memory_blocks: int
    log_bytes: Mapping[str, int]
    """By topic."""
    flushes: int
    flush_seconds: float
    disk_refusals: int
    """What the disk has refused to the groups and to what is kept beside them."""


def figures(server: Server) -> Generator[None, None, Figures]:
    """Of a server that listens. Each step takes less than a millisecond; the last one has the result."""
    log_bytes = yield from _log_bytes(server)
    connections = yield from _connections(server)
    return Figures(
        groups=_groups(server),
        consumer_groups=_consumer_groups(server),
        partitions=Counter(partition.state for partition in server.runtime.partitions),
        transactional_ids=(ids := _transactional_ids(server)),
        transaction_partitions=_transaction_partitions(server),
        open_transactions=sum(ids[state.value] for state in (ONGOING, *PREPARED)),
        happened=server.metrics.copy(),
        requests={key: counts.copy() for key, counts in server.routes.counts.items()},
        connections=connections,
        waiters=server.engine.waiters + server.topics.waiters,
        timers=server.engine.timers,
        tasks=len(asyncio.all_tasks(server.loop)),
        memory_blocks=sys.getallocatedblocks(),
        log_bytes=log_bytes,
        flushes=server.flusher.syncs,
        flush_seconds=server.flusher.sync_ns / 1e9,
        disk_refusals=server.disk_failures.count,
    )


def _log_bytes(server: Server) -> Generator[None, None, Counter[str]]:
    log_bytes: Counter[str] = Counter()
    for number, part in enumerate(list(server.data_plane.catalogue.hosted())):
        if part.log is not None:
            log_bytes[part.name.topic] += part.log.size_bytes
        if number % _LOOKS == 0:
            yield
    for name, log in server.engine.logs().items():
        log_bytes[name.topic] += log.size_bytes
    return log_bytes


def _groups(server: Server) -> Counter[str]:
    states: Counter[str] = Counter()
    for partition in server.runtime.partitions:
        if partition.machine is not None:
            for state, count in partition.machine.classic_states.items():
                states[state.value] += count
    return states


def _consumer_groups(server: Server) -> Counter[str]:
    states: Counter[str] = Counter()
    for partition in server.runtime.partitions:
        if partition.machine is not None:
            for state, count in partition.machine.consumer_states.items():
                states[state.value] += count
    return states


def _transactional_ids(server: Server) -> Counter[str]:
    states: Counter[str] = Counter()
    for partition in _of_transactions(server):
        if partition.machine is not None:
            for state, count in partition.machine.states.items():
                states[state.value] += count
    return states


def _transaction_partitions(server: Server) -> Counter[PartitionState]:
    return Counter(partition.state for partition in _of_transactions(server))


def _of_transactions(server: Server) -> Sequence[Partition[Any]]:
    """The partitions of their coordinator; none while nobody has any."""
    transactions = server.transactions
    if not transactions.is_begun or transactions.parts is None:
        return ()
    return transactions.parts.runtime.partitions


def _connections(server: Server) -> Generator[None, None, ConnectionFigures]:
    connections = server.connections
    unanswered_requests = answer_bytes = 0
    for number, connection in enumerate(list(connections.open)):
        unanswered_requests += connection.open_answers
        answer_bytes += connection.answer_bytes
        if number % _LOOKS == 0:
            yield
    return ConnectionFigures(
        open=len(connections.open),
        accepted=connections.accepted,
        refused=connections.refused,
        closed_idle=connections.closed_idle,
        failed_handshakes=dict(connections.failed_handshakes),
        full_seconds=connections.full_seconds,
        unanswered_requests=unanswered_requests,
        answer_bytes=answer_bytes,
        request_bytes=connections.memory.taken_bytes,
        awaiting_memory=connections.memory.waiting,
    )
