"""The counts and sizes of a server at one moment: what there is to measure, in plain values."""

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.engine.partition import PartitionState
from coordinator.machine.outcome import Context
from coordinator.net.api_counts import ApiCounts
from coordinator.server.metrics import Metrics
from coordinator.server.server import Server
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

_LIST_GROUPS_VERSION: Final = 5


@dataclass(frozen=True, slots=True)
class ConnectionFigures:
    """Of all listeners."""

    open: int
    accepted: int
    refused: int
    """Turned away, or closed for what they sent."""
    closed_idle: int
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
    """All of them. Counts are since the start."""

    groups: Mapping[str, int]
    """By state."""
    partitions: Mapping[PartitionState, int]
    """Of the groups, by state."""
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


def figures(server: Server) -> Figures:
    """Of a server that listens."""
    log_bytes: Counter[str] = Counter()
    for name, log in server.logs().items():
        log_bytes[name.topic] += log.size_bytes
    return Figures(
        groups=_groups(server),
        partitions=Counter(partition.state for partition in server.runtime.partitions),
        happened=server.metrics,
        requests=server.routes.counts,
        connections=_connections(server),
        waiters=server.engine.waiters + server.topics.waiters,
        timers=server.engine.timers,
        tasks=len(asyncio.all_tasks(server.loop)),
        memory_blocks=sys.getallocatedblocks(),
        log_bytes=log_bytes,
        flushes=server.flusher.syncs,
        flush_seconds=server.flusher.sync_ns / 1e9,
        disk_refusals=server.disk_failures.count,
    )


def _groups(server: Server) -> Counter[str]:
    states: Counter[str] = Counter()
    context, now = Context(0, _LIST_GROUPS_VERSION, "", ""), server.group_clock.now()
    for partition in server.runtime.partitions:
        if partition.machine is None:
            continue
        # Listing changes nothing, so that nobody has to wait for what it reveals.
        for _, listed in partition.handle(ListGroupsRequest(), context, now).replies:
            assert isinstance(listed, ListGroupsResponse)
            states.update(group.group_state for group in listed.groups)
    return states


def _connections(server: Server) -> ConnectionFigures:
    connections = server.connections
    return ConnectionFigures(
        open=len(connections.open),
        accepted=connections.accepted,
        refused=connections.refused,
        closed_idle=connections.closed_idle,
        full_seconds=connections.full_seconds,
        unanswered_requests=sum(connection.open_answers for connection in connections.open),
        answer_bytes=sum(connection.answer_bytes for connection in connections.open),
        request_bytes=connections.memory.taken_bytes,
        awaiting_memory=connections.memory.waiting,
    )
