"""Read-only view of a server for the HTTP port, the console and the command line: its state, an overview and
its metrics, as plain values. Every call reads the current state, in the thread of the event loop.

Most counts are kept up to date. Logs and connections are counted one by one and may be many, so the collection of
metrics has checkpoints between them.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from coordinator import __version__
from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.broker.services import Services
from coordinator.broker.topic_log_lines import describe_offline
from coordinator.config.listeners import Address
from coordinator.core.daemon_log import AddressLineLimit
from coordinator.core.time_budget import Budget, TimeBudget
from coordinator.network.request_context import ApiCounts
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.transactions.transaction_state_machine import ONGOING, PREPARED
from storage.topic_partition import TopicPartition

_ITEMS_PER_STEP: Final = 256
"""The number of logs or connections between two checkpoints. They take a fraction of a millisecond."""


class ConnectionMetrics(Struct, frozen=True):
    """Metrics of the connections of all listeners."""

    open: int
    accepted: int
    refused: int
    """Connections that were rejected, or closed for invalid data."""
    closed_idle: int
    failed_handshakes: Mapping[str, int]
    """Failed TLS handshakes, by kind."""
    full_seconds: float
    """Total time in seconds that new connections had to wait because of the connection limit."""
    unanswered_requests: int
    answer_bytes: int
    """The size of the unsent responses in bytes."""
    request_bytes: int
    """The size of the requests that are being received, in bytes."""
    awaiting_memory: int


class ServerMetrics(Struct, frozen=True):
    """All metrics as immutable values. Counts are since the start."""

    groups: Mapping[str, int]
    """Classic groups, by state."""
    consumer_groups: Mapping[str, int]
    """Consumer groups of KIP-848, by state."""
    partitions: Mapping[PartitionState, int]
    """Partitions of `__consumer_offsets`, by state."""
    transactional_ids: Mapping[str, int]
    """Transactional ids in loaded partitions, by state."""
    transaction_partitions: Mapping[PartitionState, int]
    """Partitions of `__transaction_state`, by state; empty before the first use of transactions."""
    open_transactions: int
    """Transactions that are ongoing or wait for their markers."""
    events: BrokerMetrics
    """Counters of events."""
    requests: Mapping[int, ApiCounts]
    """Requests by API key."""
    connections: ConnectionMetrics
    waiters: int
    """Pending responses of groups, fetches and logs."""
    timers: int
    tasks: int
    """Tasks of the event loop."""
    memory_blocks: int
    log_bytes: Mapping[str, int]
    """Bytes of the logs, by topic."""
    flushes: int
    flush_seconds: float
    disk_refusals: int
    """Disk failures of group logs and of the files next to them."""


async def collect_metrics(services: Services, budget: Budget) -> ServerMetrics:
    """Return the metrics of a server that listens. Values that need no counting loop are read after the last
    checkpoint."""
    log_bytes = await _count_log_bytes(services, budget)
    connections = await _collect_connection_metrics(services, budget)
    return ServerMetrics(
        groups=_count_groups(services),
        consumer_groups=_count_consumer_groups(services),
        partitions=Counter(partition.state for partition in services.runtime.partitions),
        transactional_ids=(ids := _count_transactional_ids(services)),
        transaction_partitions=_count_transaction_partitions(services),
        open_transactions=sum(ids[state.value] for state in (ONGOING, *PREPARED)),
        events=services.metrics.copy(),
        requests={key: counts.copy() for key, counts in services.routes.counts.items()},
        connections=connections,
        waiters=services.engine.waiter_count + services.topics.waiter_count,
        timers=services.engine.timer_count,
        tasks=len(asyncio.all_tasks(services.loop)),
        memory_blocks=sys.getallocatedblocks(),
        log_bytes=log_bytes,
        flushes=services.flusher.syncs,
        flush_seconds=services.flusher.sync_ns / 1e9,
        disk_refusals=services.disk_failures.count,
    )


async def _count_log_bytes(services: Services, budget: Budget) -> Counter[str]:
    log_bytes: Counter[str] = Counter()
    for number, part in enumerate(list(services.data_plane.catalogue.iterate_hosted())):
        # A topic that was deleted during a checkpoint has no series any more.
        if part.log is not None and not part.log.is_deleted:
            log_bytes[part.name.topic] += part.log.size_bytes
        if number % _ITEMS_PER_STEP == 0:
            await budget.checkpoint()
    for name, log in services.engine.list_open_logs().items():
        log_bytes[name.topic] += log.size_bytes
    return log_bytes


def _count_groups(services: Services) -> Counter[str]:
    states: Counter[str] = Counter()
    for partition in services.runtime.partitions:
        if partition.machine is not None:
            for state, count in partition.machine.classic_states.items():
                states[state.value] += count
    return states


def _count_consumer_groups(services: Services) -> Counter[str]:
    states: Counter[str] = Counter()
    for partition in services.runtime.partitions:
        if partition.machine is not None:
            for state, count in partition.machine.consumer_states.items():
                states[state.value] += count
    return states


def _count_transactional_ids(services: Services) -> Counter[str]:
    states: Counter[str] = Counter()
    for partition in _list_transaction_partitions(services):
        if partition.machine is not None:
            for state, count in partition.machine.states.items():
                states[state.value] += count
    return states


def _count_transaction_partitions(services: Services) -> Counter[PartitionState]:
    return Counter(partition.state for partition in _list_transaction_partitions(services))


def _list_transaction_partitions(services: Services) -> Sequence[CoordinatorPartition[Any]]:
    """Return the partitions of `__transaction_state`; empty before the first use of transactions."""
    transactions = services.transactions
    if not transactions.is_started or transactions.coordinator is None:
        return ()
    return transactions.coordinator.runtime.partitions


async def _collect_connection_metrics(services: Services, budget: Budget) -> ConnectionMetrics:
    connections = services.connections
    unanswered_requests = answer_bytes = 0
    for number, connection in enumerate(list(connections.open)):
        if connection in connections.open:  # not closed at a checkpoint
            unanswered_requests += connection.unanswered_requests
            answer_bytes += connection.answer_bytes
        if number % _ITEMS_PER_STEP == 0:
            await budget.checkpoint()
    return ConnectionMetrics(
        open=len(connections.open),
        accepted=connections.accepted,
        refused=connections.refused,
        closed_idle=connections.closed_idle,
        failed_handshakes=dict(connections.failed_handshakes),
        full_seconds=connections.full_seconds,
        unanswered_requests=unanswered_requests,
        answer_bytes=answer_bytes,
        request_bytes=connections.memory.reserved_bytes,
        awaiting_memory=connections.memory.waiting_count,
    )


class ListenerOverview(NamedTuple):
    """The addresses of one listener."""

    name: str
    bound: Address
    advertised: Address | None
    """The advertised address; None: each client keeps the address that it connected to."""

    @property
    def advertised_text(self) -> str:
        """The advertised address as text."""
        return str(self.advertised or "the address that each client connected to")


class ServerOverview(NamedTuple):
    """The state of a server at one time."""

    version: str
    data_dir: str
    standing: str
    """Ready, loading or closing."""
    listeners: list[ListenerOverview]
    topics: int
    """Number of topics without the internal ones."""
    groups: int
    """Number of groups in loaded partitions."""
    partitions: int
    """Number of partitions of `__consumer_offsets`, as the next two."""
    loaded_partitions: int
    failed_partitions: int
    transactional_ids: int | None
    """Number of transactional ids in loaded partitions; None before the first use of transactions."""
    failed_transaction_partitions: int


def find_standing(services: Services) -> str:
    """Return whether a server is ready, loading or closing."""
    if services.is_closing:
        return "closing"
    return "ready" if services.ready.is_set() else "loading"


def create_overview(services: Services) -> ServerOverview:
    """Return the overview of a server that listens."""
    partitions = services.runtime.partitions
    states = [partition.state for partition in partitions]
    transactions = services.transactions
    coordinator = transactions.coordinator if transactions.is_started else None
    shards = (
        []
        if coordinator is None
        else [part.machine for part in coordinator.runtime.partitions if part.machine is not None]
    )
    return ServerOverview(
        version=__version__,
        data_dir=services.settings.data_dir,
        standing=find_standing(services),
        listeners=[
            ListenerOverview(endpoint.listener.name, endpoint.bound_address, endpoint.advertised_address)
            for endpoint in services.endpoints
        ],
        topics=sum(not topic.is_internal for topic in services.data_plane.catalogue),
        groups=sum(part.machine.group_count for part in partitions if part.machine is not None),
        partitions=len(partitions),
        loaded_partitions=states.count(PartitionState.OWNED),
        failed_partitions=states.count(PartitionState.FAILED),
        transactional_ids=None
        if coordinator is None
        else sum(sum(shard.states.values()) for shard in shards),
        failed_transaction_partitions=0
        if coordinator is None
        else len(coordinator.runtime.list_failed_partitions()),
    )


class ServerView:
    """The server that the HTTP port shows. Every call reads the current state, in the thread of the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def standing(self) -> str:
        """Ready, loading or closing."""
        return find_standing(self._services)

    @property
    def line_limit(self) -> AddressLineLimit:
        """Rate limit by address of the log lines about invalid peers, on all ports."""
        return self._services.connections.line_limit

    def list_failed_partitions(self) -> list[TopicPartition]:
        """Return the coordinator partitions, of groups and of transactions, that failed to load."""
        return self._services.engine.list_failed_partitions()

    def find_disk_refusal(self) -> str | None:
        """Return why the disk rejects commits of some groups, with the name of a file; None while it accepts
        them.
        """
        return self._services.engine.find_write_failure()

    def describe_offline_partitions(self) -> str | None:
        """Return a short list of the topic partitions without a working log; None if all have one."""
        return describe_offline(self._services.data_plane.list_failed_partitions())

    def create_overview(self) -> ServerOverview:
        """Return the state of a server that listens."""
        return create_overview(self._services)

    async def collect_metrics(self) -> ServerMetrics:
        """Return the metrics. Other requests are served at the checkpoints of the collection."""
        return await collect_metrics(self._services, TimeBudget(self._services.run_queue))
