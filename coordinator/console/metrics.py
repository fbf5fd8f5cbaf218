"""The metrics, in Kafka's terms, collected when they are asked for: nothing is kept for them but plain counts.

Source: Kafka's `GroupCoordinatorMetrics`, `CoordinatorRuntimeMetricsImpl`, `RequestMetrics`.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from coordinator import clock
from coordinator.engine.partition import PartitionState
from coordinator.machine.outcome import Context
from coordinator.net.api_counts import LATENCY_BOUNDS_NS
from coordinator.server.server import Server
from protocol.apis import APIS
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
_LIST_GROUPS_VERSION = 5


class ServerCollector(Collector):
    """Reads a server's counts."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        """All metrics, now."""
        yield from self._groups()
        yield from self._rebalances()
        yield from self._requests()
        yield from self._connections()
        yield from self._process()
        yield from self._logs()

    def _groups(self) -> Iterator[Metric]:
        states: Counter[str] = Counter()
        partitions: Counter[PartitionState] = Counter()
        context, now = Context(0, _LIST_GROUPS_VERSION, "", ""), clock.now()
        for partition in self._server.runtime.partitions:
            partitions[partition.state] += 1
            if partition.machine is None:
                continue
            # Listing changes nothing, so that nobody has to wait for what it reveals.
            for _, listed in partition.handle(ListGroupsRequest(), context, now).replies:
                assert isinstance(listed, ListGroupsResponse)
                states.update(group.group_state for group in listed.groups)
        groups = GaugeMetricFamily("groupd_groups", "Groups by state", labels=["state"])
        for name in _STATES:
            groups.add_metric([name], states[name])
        yield groups
        family = GaugeMetricFamily(
            "groupd_partitions", "Partitions of __consumer_offsets by state", labels=["state"]
        )
        for state in PartitionState:
            family.add_metric([state.value], partitions[state])
        yield family

    def _rebalances(self) -> Iterator[Metric]:
        metrics = self._server.metrics
        started = CounterMetricFamily("groupd_rebalances", "Rebalances begun, by cause", labels=["cause"])
        for cause, count in sorted(metrics.rebalances.items()):
            started.add_metric([cause], count)
        yield started
        yield CounterMetricFamily(
            "groupd_completed_rebalances",
            "Rebalances that reached Stable",
            value=metrics.completed_rebalances,
        )
        yield CounterMetricFamily(
            "groupd_offset_commits", "Offsets committed, one for each partition", value=metrics.commits
        )
        yield CounterMetricFamily(
            "groupd_offset_expirations",
            "Offsets that outlived their retention",
            value=metrics.expired_offsets,
        )
        yield CounterMetricFamily("groupd_offset_deletions", "Offsets deleted", value=metrics.deleted_offsets)
        events = CounterMetricFamily(
            "groupd_group_events", "What happened in groups, by the name of its event", labels=["event"]
        )
        for name, count in sorted(metrics.events.items()):
            events.add_metric([name], count)
        yield events

    def _requests(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(
            "groupd_request_seconds",
            "From request to answer, by API; a parked JoinGroup counts its wait",
            labels=["api"],
        )
        bounds = [*(str(bound / 1e9) for bound in LATENCY_BOUNDS_NS), "+Inf"]
        for key, counts in sorted(self._server.routes.counts.items()):
            totals = list(accumulate(counts.buckets))
            if totals[-1]:
                buckets = list(zip(bounds, totals, strict=True))
                family.add_metric([APIS[key].name], buckets, counts.sum_ns / 1e9)
        yield family

    def _connections(self) -> Iterator[Metric]:
        connections = self._server.connections
        yield GaugeMetricFamily("groupd_connections", "Connections open now", value=len(connections.open))
        yield CounterMetricFamily(
            "groupd_connections_accepted", "Connections let in", value=connections.accepted
        )
        yield CounterMetricFamily(
            "groupd_connections_refused",
            "Connections turned away or closed for what they sent",
            value=connections.refused,
        )
        yield CounterMetricFamily(
            "groupd_connections_closed_idle",
            "Connections closed for their silence (connections.max.idle.ms)",
            value=connections.closed_idle,
        )
        yield CounterMetricFamily(
            "groupd_connections_full_seconds",
            "Time during which new connections had to wait (max.connections)",
            value=connections.full_seconds,
        )
        yield GaugeMetricFamily(
            "groupd_unanswered_requests",
            "Requests that wait for an answer: for their group, for records, or for the disk",
            value=sum(connection.open_answers for connection in connections.open),
        )
        yield GaugeMetricFamily(
            "groupd_answer_bytes",
            "Answers that have not left yet, behind one that is missing or for a peer that reads slowly",
            value=sum(connection.answer_bytes for connection in connections.open),
        )
        memory = connections.memory
        yield GaugeMetricFamily(
            "groupd_request_bytes", "Size of the requests that are being received", value=memory.taken_bytes
        )
        yield GaugeMetricFamily(
            "groupd_connections_awaiting_memory",
            "Connections that are not read from meanwhile (queued.max.request.bytes)",
            value=memory.waiting,
        )

    def _process(self) -> Iterator[Metric]:
        server = self._server
        yield GaugeMetricFamily(
            "groupd_waiters",
            "Answers that groups, fetches and logs have still to give; 0 without a connection",
            value=server.engine.waiters + server.topics.waiters,
        )
        yield GaugeMetricFamily(
            "groupd_timers", "Timers of groups: sessions, rebalances, retention", value=server.engine.timers
        )
        yield GaugeMetricFamily(
            "groupd_tasks", "Tasks of the event loop", value=len(asyncio.all_tasks(server.loop))
        )
        yield GaugeMetricFamily(
            "groupd_memory_blocks",
            "Blocks of memory that Python has given out: what leaks grows here before the process does",
            value=sys.getallocatedblocks(),
        )

    def _logs(self) -> Iterator[Metric]:
        sizes: Counter[str] = Counter()
        for name, log in self._server.logs().items():
            sizes[name.topic] += log.size_bytes
        family = GaugeMetricFamily("groupd_log_bytes", "Size of the logs, by topic", labels=["topic"])
        for topic, size in sorted(sizes.items()):
            family.add_metric([topic], size)
        yield family
        flusher = self._server.flusher
        yield CounterMetricFamily("groupd_log_flushes", "Syncs of logs to the disk", value=flusher.syncs)
        yield CounterMetricFamily(
            "groupd_log_flush_seconds", "Time spent on syncs of logs", value=flusher.sync_ns / 1e9
        )
