"""The metrics, in Kafka's terms, made of a broker's figures when they are asked for.

Source: Kafka's `GroupCoordinatorMetrics`, `CoordinatorRuntimeMetricsImpl`, `RequestMetrics`.
"""

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from coordinator.control.oracles.violation import OracleName
from coordinator.engine.partition import PartitionState
from coordinator.group.consumer.state import ConsumerGroupState
from coordinator.group.rebalance_facts import RebalanceCause
from coordinator.net.api_counts import LATENCY_BOUNDS_NS
from coordinator.server.authentication_counts import AuthenticationCounts
from coordinator.server.figures import ConnectionFigures, Figures
from coordinator.server.metrics import Metrics
from coordinator.server.tallies import EVICTION_PHASES, Tally
from coordinator.transactions.state import WRITTEN
from protocol.apis import APIS

_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")


class FiguresCollector(Collector):
    """Figures as metrics. Needs nothing else, so that another thread can write them down."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        figures = self._figures
        yield from _groups(figures)
        yield from _rebalances(figures.happened)
        yield from _transactions(figures)
        yield from _oracle_counts(figures.happened)
        yield from _requests(figures)
        yield from _connections(figures.connections)
        yield from _authentications(figures.happened.authentications)
        yield from _process(figures)
        yield from _logs(figures)


def _groups(figures: Figures) -> Iterator[Metric]:
    groups = GaugeMetricFamily("groupd_groups", "Classic groups by state", labels=["state"])
    for name in _STATES:
        groups.add_metric([name], figures.groups.get(name, 0))
    yield groups
    groups = GaugeMetricFamily(
        "groupd_consumer_groups", "Consumer groups (KIP-848) by state", labels=["state"]
    )
    for state in ConsumerGroupState:
        groups.add_metric([state.value], figures.consumer_groups.get(state.value, 0))
    yield groups
    family = GaugeMetricFamily(
        "groupd_partitions", "Partitions of __consumer_offsets by state", labels=["state"]
    )
    for standing in PartitionState:
        family.add_metric([standing.value], figures.partitions.get(standing, 0))
    yield family


def _rebalances(happened: Metrics) -> Iterator[Metric]:
    started = CounterMetricFamily("groupd_rebalances", "Rebalances begun, by cause", labels=["cause"])
    for cause in RebalanceCause:
        started.add_metric([cause.value], happened.rebalances[cause.value])
    yield started
    yield from _befallen(happened)
    yield CounterMetricFamily(
        "groupd_completed_rebalances",
        "Rebalances that reached Stable",
        value=happened.completed_rebalances,
    )
    yield CounterMetricFamily(
        "groupd_offset_commits", "Offsets committed, one for each partition", value=happened.commits
    )
    yield CounterMetricFamily(
        "groupd_offset_expirations",
        "Offsets that outlived their retention",
        value=happened.expired_offsets,
    )
    yield CounterMetricFamily("groupd_offset_deletions", "Offsets deleted", value=happened.deleted_offsets)
    events = CounterMetricFamily(
        "groupd_group_events", "What happened in groups, by the name of its event", labels=["event"]
    )
    for name, count in sorted(happened.events.items()):
        events.add_metric([name], count)
    yield events


def _befallen(happened: Metrics) -> Iterator[Metric]:
    evicted = CounterMetricFamily(
        "groupd_members_evicted",
        "Members that were put out, by what they did not do in time: rejoin, ask for their assignment, give up "
        "partitions",
        labels=["phase"],
    )
    for phase in EVICTION_PHASES:
        evicted.add_metric([phase], happened.tallies[Tally.EVICTED, phase])
    yield evicted
    yield CounterMetricFamily(
        "groupd_member_sessions_expired",
        "Sessions of members that ended, as nothing was heard of them",
        value=happened.tallies[Tally.EXPIRED, ""],
    )
    refused = CounterMetricFamily(
        "groupd_commits_refused", "Commits that were refused, whole or in part", labels=["error"]
    )
    for (tally, error), count in sorted(happened.tallies.items()):
        if tally is Tally.COMMITS_REFUSED:
            refused.add_metric([error], count)
    yield refused


def _transactions(figures: Figures) -> Iterator[Metric]:
    ids = GaugeMetricFamily("groupd_transactional_ids", "Transactional ids by state", labels=["state"])
    for kept in WRITTEN.values():
        ids.add_metric([kept.value], figures.transactional_ids.get(kept.value, 0))
    yield ids
    yield GaugeMetricFamily(
        "groupd_open_transactions",
        "Transactions that have begun and are not ended in every partition",
        value=figures.open_transactions,
    )
    partitions = GaugeMetricFamily(
        "groupd_transaction_partitions",
        "Partitions of __transaction_state by state; all 0 before it is there",
        labels=["state"],
    )
    for state in PartitionState:
        partitions.add_metric([state.value], figures.transaction_partitions.get(state, 0))
    yield partitions
    events = CounterMetricFamily(
        "groupd_transaction_events",
        "What happened to transactions, by the name of its event",
        labels=["event"],
    )
    for name, count in sorted(figures.happened.transactions.items()):
        events.add_metric([name], count)
    yield events


def _oracle_counts(happened: Metrics) -> Iterator[Metric]:
    for name, what, counts in (
        ("groupd_violations", "What the oracles found that must not happen, each time", happened.violations),
        ("groupd_notices", "Notices of the oracles: unusual, but not always wrong", happened.notices),
    ):
        family = CounterMetricFamily(name, what, labels=["oracle"])
        for oracle in OracleName:
            family.add_metric([oracle.value], counts[oracle])
        yield family


def _requests(figures: Figures) -> Iterator[Metric]:
    family = HistogramMetricFamily(
        "groupd_request_seconds",
        "From request to answer, by API; a parked JoinGroup counts its wait",
        labels=["api"],
    )
    bounds = [*(str(bound / 1e9) for bound in LATENCY_BOUNDS_NS), "+Inf"]
    for key, counts in sorted(figures.requests.items()):
        totals = list(accumulate(counts.buckets))
        if totals[-1]:
            buckets = list(zip(bounds, totals, strict=True))
            family.add_metric([APIS[key].name], buckets, counts.sum_ns / 1e9)
    yield family


def _authentications(counts: AuthenticationCounts) -> Iterator[Metric]:
    for name, what, counted in (
        ("successful_authentications", "Clients let in by SASL", counts.succeeded),
        ("failed_authentications", "Clients that SASL did not let in", counts.failed),
        ("successful_reauthentications", "Clients that authenticated anew", counts.succeeded_again),
        ("failed_reauthentications", "Clients that could not authenticate anew", counts.failed_again),
    ):
        family = CounterMetricFamily(f"groupd_{name}", what, labels=["listener", "mechanism"])
        for labels, count in sorted(counted.items()):
            family.add_metric(labels, count)
        yield family
    yield CounterMetricFamily(
        "groupd_expired_connections_killed",
        "Connections closed for a request after the end of their session (connections.max.reauth.ms)",
        value=counts.expired_connections,
    )


def _connections(connections: ConnectionFigures) -> Iterator[Metric]:
    yield GaugeMetricFamily("groupd_connections", "Connections open now", value=connections.open)
    yield CounterMetricFamily("groupd_connections_accepted", "Connections let in", value=connections.accepted)
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
    handshakes = CounterMetricFamily(
        "groupd_failed_handshakes", "TLS handshakes that failed, by what was wrong", labels=["reason"]
    )
    for kind, count in sorted(connections.failed_handshakes.items()):
        handshakes.add_metric([kind], count)
    yield handshakes
    yield CounterMetricFamily(
        "groupd_connections_full_seconds",
        "Time during which new connections had to wait (max.connections)",
        value=connections.full_seconds,
    )
    yield GaugeMetricFamily(
        "groupd_unanswered_requests",
        "Requests that wait for an answer: for their group, for records, or for the disk",
        value=connections.unanswered_requests,
    )
    yield GaugeMetricFamily(
        "groupd_answer_bytes",
        "Answers that have not left yet, behind one that is missing or for a peer that reads slowly",
        value=connections.answer_bytes,
    )
    yield GaugeMetricFamily(
        "groupd_request_bytes",
        "Size of the requests that are being received",
        value=connections.request_bytes,
    )
    yield GaugeMetricFamily(
        "groupd_connections_awaiting_memory",
        "Connections that are not read from meanwhile (queued.max.request.bytes)",
        value=connections.awaiting_memory,
    )


def _process(figures: Figures) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "groupd_waiters",
        "Answers that groups, fetches and logs have still to give; 0 without a connection",
        value=figures.waiters,
    )
    yield GaugeMetricFamily(
        "groupd_timers", "Timers of groups: sessions, rebalances, retention", value=figures.timers
    )
    yield GaugeMetricFamily("groupd_tasks", "Tasks of the event loop", value=figures.tasks)
    yield GaugeMetricFamily(
        "groupd_memory_blocks",
        "Blocks of memory that Python has given out: what leaks grows here before the process does",
        value=figures.memory_blocks,
    )


def _logs(figures: Figures) -> Iterator[Metric]:
    family = GaugeMetricFamily("groupd_log_bytes", "Size of the logs, by topic", labels=["topic"])
    for topic, size in sorted(figures.log_bytes.items()):
        family.add_metric([topic], size)
    yield family
    yield CounterMetricFamily("groupd_log_flushes", "Syncs of logs to the disk", value=figures.flushes)
    yield CounterMetricFamily(
        "groupd_log_flush_seconds", "Time spent on syncs of logs", value=figures.flush_seconds
    )
    yield CounterMetricFamily(
        "groupd_disk_refusals",
        "What the disk refused: commits, trials, checkpoints, states",
        value=figures.disk_refusals,
    )
