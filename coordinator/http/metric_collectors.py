"""Metrics of a broker and of the control plane, in Kafka's terms, without metrics of single groups.

A collector needs only its snapshot of values, so another thread can run it. Source: Kafka's
`GroupCoordinatorMetrics`, `CoordinatorRuntimeMetricsImpl`, `RequestMetrics`.
"""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from coordinator.broker.broker_metrics import EVICTION_PHASES, BrokerMetrics, GroupCounter
from coordinator.broker.server_view import ConnectionMetrics, ServerMetrics
from coordinator.control.diagnosis.violation import OracleName
from coordinator.control.faults.fault_rule import ACTION_KINDS
from coordinator.control.metrics_snapshot import DURATION_BOUNDS_S, ControlMetricsSnapshot
from coordinator.core.wire_name import get_wire_name
from coordinator.group.consumer.durable_consumer_group import ConsumerGroupState
from coordinator.group.event_details import RebalanceCause
from coordinator.network.request_context import LATENCY_BOUNDS_NS
from coordinator.network.request_routes import AuthenticationCounts
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.transactions.transaction_state_machine import WRITTEN
from protocol.apis import APIS

_CLASSIC_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")


class ServerMetricsCollector(Collector):
    """Converts a snapshot into Prometheus metric families. It reads nothing else, so another thread may run it."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the broker."""
        metrics = self._metrics
        yield from _collect_groups(metrics)
        yield from _collect_rebalances(metrics.events)
        yield from _collect_transactions(metrics)
        yield from _collect_oracle_counts(metrics.events)
        yield from _collect_requests(metrics)
        yield from _collect_connections(metrics.connections)
        yield from _collect_authentications(metrics.events.authentications)
        yield from _collect_process(metrics)
        yield from _collect_logs(metrics)


def _collect_groups(metrics: ServerMetrics) -> Iterator[Metric]:
    groups = GaugeMetricFamily("groupd_groups", "Classic groups by state", labels=["state"])
    for name in _CLASSIC_STATES:
        groups.add_metric([name], metrics.groups.get(name, 0))
    yield groups
    groups = GaugeMetricFamily(
        "groupd_consumer_groups", "Consumer groups (KIP-848) by state", labels=["state"]
    )
    for state in ConsumerGroupState:
        groups.add_metric([state.value], metrics.consumer_groups.get(state.value, 0))
    yield groups
    family = GaugeMetricFamily(
        "groupd_partitions", "Partitions of __consumer_offsets by state", labels=["state"]
    )
    for partition_state in PartitionState:
        family.add_metric([partition_state.value], metrics.partitions.get(partition_state, 0))
    yield family


def _collect_rebalances(broker_metrics: BrokerMetrics) -> Iterator[Metric]:
    started = CounterMetricFamily("groupd_rebalances", "Rebalances begun, by cause", labels=["cause"])
    for cause in RebalanceCause:
        started.add_metric([cause.value], broker_metrics.rebalances[cause.value])
    yield started
    yield from _collect_evictions(broker_metrics)
    yield CounterMetricFamily(
        "groupd_completed_rebalances",
        "Rebalances that reached Stable",
        value=broker_metrics.completed_rebalances,
    )
    yield CounterMetricFamily(
        "groupd_offset_commits", "Offsets committed, one for each partition", value=broker_metrics.commits
    )
    yield CounterMetricFamily(
        "groupd_offset_expirations",
        "Offsets that expired after their retention",
        value=broker_metrics.expired_offsets,
    )
    yield CounterMetricFamily(
        "groupd_offset_deletions", "Offsets deleted", value=broker_metrics.deleted_offsets
    )
    events = CounterMetricFamily("groupd_group_events", "Events of groups, by name", labels=["event"])
    _add_events(events, broker_metrics.events)
    yield events


def _collect_evictions(broker_metrics: BrokerMetrics) -> Iterator[Metric]:
    evicted = CounterMetricFamily(
        "groupd_members_evicted",
        "Members removed because they were late in a phase: to rejoin (join), to send SyncGroup (sync), or to give "
        "up partitions (revoke)",
        labels=["phase"],
    )
    for phase in EVICTION_PHASES:
        evicted.add_metric([phase], broker_metrics.group_counts[GroupCounter.EVICTED, phase])
    yield evicted
    yield CounterMetricFamily(
        "groupd_member_sessions_expired",
        "Sessions of members that expired",
        value=broker_metrics.group_counts[GroupCounter.EXPIRED, ""],
    )
    refused = CounterMetricFamily(
        "groupd_commits_refused", "Refused commits, whole or in part", labels=["error"]
    )
    for (counter, error), count in sorted(broker_metrics.group_counts.items()):
        if counter is GroupCounter.COMMITS_REFUSED:
            refused.add_metric([error], count)
    yield refused


def _collect_transactions(metrics: ServerMetrics) -> Iterator[Metric]:
    ids = GaugeMetricFamily("groupd_transactional_ids", "Transactional ids by state", labels=["state"])
    for transaction_state in WRITTEN.values():
        ids.add_metric([transaction_state.value], metrics.transactional_ids.get(transaction_state.value, 0))
    yield ids
    yield GaugeMetricFamily(
        "groupd_open_transactions",
        "Transactions that have begun and have not ended in every partition",
        value=metrics.open_transactions,
    )
    partitions = GaugeMetricFamily(
        "groupd_transaction_partitions",
        "Partitions of __transaction_state by state; all 0 before the topic exists",
        labels=["state"],
    )
    for state in PartitionState:
        partitions.add_metric([state.value], metrics.transaction_partitions.get(state, 0))
    yield partitions
    events = CounterMetricFamily(
        "groupd_transaction_events",
        "Events of transactions, by name",
        labels=["event"],
    )
    _add_events(events, metrics.events.transactions)
    yield events


def _add_events(family: CounterMetricFamily, counts: Mapping[type[Any], int]) -> None:
    for name, count in sorted((get_wire_name(cls), count) for cls, count in counts.items()):
        family.add_metric([name], count)


def _collect_oracle_counts(broker_metrics: BrokerMetrics) -> Iterator[Metric]:
    for name, what, counts in (
        (
            "groupd_violations",
            "Violations that the invariant checks (oracles) found",
            broker_metrics.violations,
        ),
        ("groupd_notices", "Notices of the oracles: unusual, but not always errors", broker_metrics.notices),
    ):
        family = CounterMetricFamily(name, what, labels=["oracle"])
        for oracle in OracleName:
            family.add_metric([oracle.value], counts[oracle])
        yield family


def _collect_requests(metrics: ServerMetrics) -> Iterator[Metric]:
    family = HistogramMetricFamily(
        "groupd_request_seconds",
        "Time from request to response, by API; it includes the wait of a JoinGroup",
        labels=["api"],
    )
    bounds = [*(str(bound / 1e9) for bound in LATENCY_BOUNDS_NS), "+Inf"]
    for key, counts in sorted(metrics.requests.items()):
        totals = list(accumulate(counts.buckets))
        if totals[-1]:
            buckets = list(zip(bounds, totals, strict=True))
            family.add_metric([APIS[key].name], buckets, counts.sum_ns / 1e9)
    yield family


def _collect_authentications(counts: AuthenticationCounts) -> Iterator[Metric]:
    for name, what, counted in (
        ("successful_authentications", "Successful authentications by SASL", counts.succeeded),
        ("failed_authentications", "Failed authentications by SASL", counts.failed),
        ("successful_reauthentications", "Successful reauthentications", counts.reauthentications),
        (
            "failed_reauthentications",
            "Failed reauthentications",
            counts.failed_reauthentications,
        ),
    ):
        family = CounterMetricFamily(f"groupd_{name}", what, labels=["listener", "mechanism"])
        for labels, count in sorted(counted.items()):
            family.add_metric(labels, count)
        yield family
    yield CounterMetricFamily(
        "groupd_expired_connections_killed",
        "Connections closed at a request after their session had expired (connections.max.reauth.ms)",
        value=counts.expired_connections,
    )


def _collect_connections(connections: ConnectionMetrics) -> Iterator[Metric]:
    yield GaugeMetricFamily("groupd_connections", "Open connections", value=connections.open)
    yield CounterMetricFamily(
        "groupd_connections_accepted", "Accepted connections", value=connections.accepted
    )
    yield CounterMetricFamily(
        "groupd_connections_refused",
        "Connections that were rejected, or closed because of invalid bytes",
        value=connections.refused,
    )
    yield CounterMetricFamily(
        "groupd_connections_closed_idle",
        "Connections closed while idle (connections.max.idle.ms)",
        value=connections.closed_idle,
    )
    handshakes = CounterMetricFamily(
        "groupd_failed_handshakes", "Failed TLS handshakes, by reason", labels=["reason"]
    )
    for kind, count in sorted(connections.failed_handshakes.items()):
        handshakes.add_metric([kind], count)
    yield handshakes
    yield CounterMetricFamily(
        "groupd_connections_full_seconds",
        "Time during which new connections waited (max.connections)",
        value=connections.full_seconds,
    )
    yield GaugeMetricFamily(
        "groupd_unanswered_requests",
        "Requests without a response yet: they wait for their group, for records, or for the disk",
        value=connections.unanswered_requests,
    )
    yield GaugeMetricFamily(
        "groupd_answer_bytes",
        "Bytes of unsent responses, which wait for an earlier response or for a slow client",
        value=connections.answer_bytes,
    )
    yield GaugeMetricFamily(
        "groupd_request_bytes",
        "Size of the requests in receipt",
        value=connections.request_bytes,
    )
    yield GaugeMetricFamily(
        "groupd_connections_awaiting_memory",
        "Connections that wait for memory for their next request (queued.max.request.bytes)",
        value=connections.awaiting_memory,
    )


def _collect_process(metrics: ServerMetrics) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "groupd_waiters",
        "Pending responses of groups, fetches and logs; 0 without a connection",
        value=metrics.waiters,
    )
    yield GaugeMetricFamily(
        "groupd_timers", "Timers of groups: sessions, rebalances, retention", value=metrics.timers
    )
    yield GaugeMetricFamily("groupd_tasks", "Tasks of the event loop", value=metrics.tasks)
    yield GaugeMetricFamily(
        "groupd_memory_blocks",
        "Memory blocks allocated by Python; a leak shows here before the process grows",
        value=metrics.memory_blocks,
    )


def _collect_logs(metrics: ServerMetrics) -> Iterator[Metric]:
    family = GaugeMetricFamily("groupd_log_bytes", "Size of the logs, by topic", labels=["topic"])
    for topic, size in sorted(metrics.log_bytes.items()):
        family.add_metric([topic], size)
    yield family
    yield CounterMetricFamily("groupd_log_flushes", "Syncs of logs to the disk", value=metrics.flushes)
    yield CounterMetricFamily(
        "groupd_log_flush_seconds", "Time spent on syncs of logs", value=metrics.flush_seconds
    )
    yield CounterMetricFamily(
        "groupd_disk_refusals",
        "Writes that the disk refused: commits, trials, checkpoints, states",
        value=metrics.disk_refusals,
    )


_BOUNDS = [*(str(float(bound)) for bound in DURATION_BOUNDS_S), "+Inf"]


class ControlCollector(Collector):
    """Converts a snapshot into Prometheus metric families. It reads nothing else, so another thread may run it."""

    def __init__(self, metrics: ControlMetricsSnapshot) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the control plane."""
        metrics = self._metrics
        rebalances = HistogramMetricFamily(
            "groupd_rebalance_seconds",
            "Durations of completed rebalances, as in the ledger; join and sync are parts of total",
            labels=["phase"],
        )
        for phase, durations in metrics.rebalances.items():
            buckets = list(zip(_BOUNDS, accumulate(durations.buckets), strict=True))
            rebalances.add_metric([phase], buckets, durations.sum_ms / 1000)
        yield rebalances
        yield GaugeMetricFamily(
            "groupd_rebalance_open_seconds",
            "Age of the oldest open rebalance; 0 without one",
            value=metrics.rebalance_open_s,
        )
        hits = CounterMetricFamily(
            "groupd_fault_hits", "Hits of injected faults, by action", labels=["fault"]
        )
        for kind in ACTION_KINDS:
            hits.add_metric([kind], metrics.fault_hits.get(kind, 0))
        yield hits
        yield GaugeMetricFamily(
            "groupd_frozen_groups", "Groups with a stopped clock", value=metrics.frozen_groups
        )
        yield GaugeMetricFamily(
            "groupd_session_margin_ratio",
            "The lowest remaining share (0 to 1) of a session among the members of all groups; 1 without members",
            value=metrics.session_margin,
        )
        yield from self._collect_cluster()

    def _collect_cluster(self) -> Iterator[Metric]:
        owned = GaugeMetricFamily(
            "groupd_cluster_owned_partitions",
            "Partitions that each broker of this process coordinates or leads. In a cluster on etcd: partitions "
            "that this broker coordinates, and the partitions of replicated topics that it leads",
            labels=["broker"],
        )
        for node_id, count in self._metrics.owned_partitions.items():
            owned.add_metric([str(node_id)], count)
        yield owned
        moves = CounterMetricFamily(
            "groupd_cluster_moves",
            "Moves of partitions to another broker of this process, or from their only broker, by cause. In a "
            "cluster on etcd: gains and losses of this broker",
            labels=["cause"],
        )
        for cause, count in self._metrics.moves.items():
            moves.add_metric([cause], count)
        yield moves
        engine = self._metrics.engine
        fenced = CounterMetricFamily(
            "groupd_cluster_fenced",
            "Appends that were refused because another broker owns the partition",
        )
        append = GaugeMetricFamily(
            "groupd_cluster_append_seconds", "Median duration of the last 1,000 transactions in etcd"
        )
        left = GaugeMetricFamily(
            "groupd_cluster_session_left_seconds",
            "Time until this broker gives up all its partitions unless etcd answers; 0 without a session",
        )
        held = GaugeMetricFamily(
            "groupd_cluster_engine_bytes", "Bytes in etcd of the partitions that this broker coordinates"
        )
        sizes = GaugeMetricFamily(
            "groupd_cluster_etcd_bytes",
            "Database size of each etcd node that answers",
            labels=["endpoint"],
        )
        quota = GaugeMetricFamily(
            "groupd_cluster_etcd_quota_bytes",
            "Quota of the etcd database: cluster.etcd.quota.bytes, or the quota that etcd reports, or 2 GiB",
        )
        full = GaugeMetricFamily(
            "groupd_cluster_etcd_full", "1 while etcd rejects writes because it is full (its alarm NOSPACE)"
        )
        if engine is not None:
            held.add_metric([], engine.engine_bytes)
            for endpoint, size in engine.node_bytes.items():
                sizes.add_metric([endpoint], size)
            quota.add_metric([], engine.quota_bytes)
            full.add_metric([], engine.is_full)
            fenced.add_metric([], engine.fenced)
            append.add_metric([], engine.append_seconds)
            left.add_metric([], engine.session_left_seconds)
        yield from (fenced, append, left, held, sizes, quota, full)
