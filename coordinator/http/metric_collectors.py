"""Metrics of a broker and of the control plane, in Kafka's terms, without metrics of single groups.

Source: Kafka's `GroupCoordinatorMetrics`, `CoordinatorRuntimeMetricsImpl`, `RequestMetrics`.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

from coordinator.broker.broker_metrics import EVICTION_PHASES, EtcdMetrics, GroupCounter
from coordinator.broker.server_view import ServerMetrics
from coordinator.control.diagnosis.violation import OracleName
from coordinator.control.faults.fault_rule import ACTION_KINDS
from coordinator.control.metrics_snapshot import DURATION_BOUNDS_S, PHASES, ControlMetricsSnapshot
from coordinator.core.wire_name import get_wire_name
from coordinator.group.classic.classic_state_machine import ClassicGroupState
from coordinator.group.consumer.durable_consumer_group import ConsumerGroupState
from coordinator.group.event_details import RebalanceCause
from coordinator.http.metric_declaration import (
    Declaration,
    Sample,
    SnapshotCollector,
    counter,
    counters,
    gauge,
    gauges,
    histograms,
)
from coordinator.network.request_context import LATENCY_BOUNDS_NS
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.transactions.transaction_state_machine import WRITTEN
from protocol.apis import APIS

_CLASSIC_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
_CONSUMER_STATES: Final = tuple(state.value for state in ConsumerGroupState)
_PARTITION_STATES: Final = {"state": ", ".join(state.value for state in PartitionState)}
_TRANSACTION_STATES: Final = tuple(state.value for state in WRITTEN.values())
_ERROR: Final = {"error": "Kafka's name"}
_PHASE: Final = {"phase": ", ".join(EVICTION_PHASES)}


def _list_counts(names: tuple[str, ...], counts: Mapping[str, int]) -> Iterator[Sample]:
    for name in names:
        yield (name,), counts.get(name, 0)


def _list_partition_states(counts: Mapping[PartitionState, int]) -> Iterator[Sample]:
    for state in PartitionState:
        yield (state.value,), counts.get(state, 0)


def _list_events(counts: Mapping[type[Any], int]) -> Iterator[Sample]:
    for name, count in sorted((get_wire_name(cls), count) for cls, count in counts.items()):
        yield (name,), count


def _list_evictions(metrics: ServerMetrics) -> Iterator[Sample]:
    for phase in EVICTION_PHASES:
        yield (phase,), metrics.events.group_counts[GroupCounter.EVICTED, phase]


def _list_refused_commits(metrics: ServerMetrics) -> Iterator[Sample]:
    for (kind, error), count in sorted(metrics.events.group_counts.items()):
        if kind is GroupCounter.COMMITS_REFUSED:
            yield (error,), count


_GROUPS: Final[tuple[Declaration[ServerMetrics], ...]] = (
    gauges(
        "groupd_groups",
        "Classic groups by state",
        {"state": ", ".join(state.value for state in ClassicGroupState)},
        lambda metrics: _list_counts(_CLASSIC_STATES, metrics.groups),
    ),
    gauges(
        "groupd_consumer_groups",
        "Consumer groups (KIP-848) by state",
        {"state": ", ".join(_CONSUMER_STATES)},
        lambda metrics: _list_counts(_CONSUMER_STATES, metrics.consumer_groups),
    ),
    gauges(
        "groupd_partitions",
        "Partitions of __consumer_offsets by state",
        _PARTITION_STATES,
        lambda metrics: _list_partition_states(metrics.partitions),
    ),
    counters(
        "groupd_rebalances",
        "Rebalances begun, by cause",
        {"cause": ", ".join(RebalanceCause)},
        lambda metrics: (
            ((cause.value,), metrics.events.rebalances[cause.value]) for cause in RebalanceCause
        ),
    ),
    counters(
        "groupd_members_evicted",
        "Members removed because they were late in a phase: to rejoin (join), to send SyncGroup (sync), or to give "
        "up partitions (revoke)",
        _PHASE,
        _list_evictions,
    ),
    counter(
        "groupd_member_sessions_expired",
        "Sessions of members that expired",
        lambda metrics: metrics.events.group_counts[GroupCounter.EXPIRED, ""],
    ),
    counters("groupd_commits_refused", "Refused commits, whole or in part", _ERROR, _list_refused_commits),
    counter(
        "groupd_completed_rebalances",
        "Rebalances that reached Stable",
        lambda metrics: metrics.events.completed_rebalances,
    ),
    counter(
        "groupd_offset_commits",
        "Offsets committed, one for each partition",
        lambda metrics: metrics.events.commits,
    ),
    counter(
        "groupd_offset_expirations",
        "Offsets that expired after their retention",
        lambda metrics: metrics.events.expired_offsets,
    ),
    counter("groupd_offset_deletions", "Offsets deleted", lambda metrics: metrics.events.deleted_offsets),
    counters(
        "groupd_group_events",
        "Events of groups, by name",
        {"event": "the wire names of `coordinator/group/group_event_types.py`"},
        lambda metrics: _list_events(metrics.events.events),
    ),
)
_TRANSACTIONS: Final[tuple[Declaration[ServerMetrics], ...]] = (
    gauges(
        "groupd_transactional_ids",
        "Transactional ids by state",
        {"state": ", ".join(_TRANSACTION_STATES)},
        lambda metrics: _list_counts(_TRANSACTION_STATES, metrics.transactional_ids),
    ),
    gauge(
        "groupd_open_transactions",
        "Transactions that have begun and have not ended in every partition",
        lambda metrics: metrics.open_transactions,
    ),
    gauges(
        "groupd_transaction_partitions",
        "Partitions of __transaction_state by state; all 0 before the topic exists",
        _PARTITION_STATES,
        lambda metrics: _list_partition_states(metrics.transaction_partitions),
    ),
    counters(
        "groupd_transaction_events",
        "Events of transactions, by name",
        {"event": "the wire names of `coordinator/transactions/transaction_event_types.py`"},
        lambda metrics: _list_events(metrics.events.transactions),
    ),
)
_ORACLES: Final[tuple[Declaration[ServerMetrics], ...]] = (
    counters(
        "groupd_violations",
        "Violations that the invariant checks (oracles) found",
        {"oracle": ", ".join(OracleName)},
        lambda metrics: (((oracle.value,), metrics.events.violations[oracle]) for oracle in OracleName),
    ),
    counters(
        "groupd_notices",
        "Notices of the oracles: unusual, but not always errors",
        {"oracle": "as above"},
        lambda metrics: (((oracle.value,), metrics.events.notices[oracle]) for oracle in OracleName),
    ),
)
_LATENCY_BOUNDS: Final = [*(str(bound / 1e9) for bound in LATENCY_BOUNDS_NS), "+Inf"]


def _list_latencies(metrics: ServerMetrics) -> Iterator[Sample]:
    for key, counts in sorted(metrics.requests.items()):
        totals = list(accumulate(counts.buckets))
        if totals[-1]:
            yield (APIS[key].name,), list(zip(_LATENCY_BOUNDS, totals, strict=True)), counts.sum_ns / 1e9


_NETWORK: Final[tuple[Declaration[ServerMetrics], ...]] = (
    histograms(
        "groupd_request_seconds",
        "Time from request to response, by API; it includes the wait of a JoinGroup",
        {"api": "Kafka's names, as in [protocol.md](protocol.md)"},
        _list_latencies,
    ),
    gauge("groupd_connections", "Open connections", lambda metrics: metrics.connections.open),
    counter(
        "groupd_connections_accepted", "Accepted connections", lambda metrics: metrics.connections.accepted
    ),
    counter(
        "groupd_connections_refused",
        "Connections that were rejected, or closed because of invalid bytes",
        lambda metrics: metrics.connections.refused,
    ),
    counter(
        "groupd_connections_closed_idle",
        "Connections closed while idle (connections.max.idle.ms)",
        lambda metrics: metrics.connections.closed_idle,
    ),
    counters(
        "groupd_failed_handshakes",
        "Failed TLS handshakes, by reason",
        {"reason": ""},
        lambda metrics: (
            ((kind,), count) for kind, count in sorted(metrics.connections.failed_handshakes.items())
        ),
    ),
    counter(
        "groupd_connections_full_seconds",
        "Time during which new connections waited (max.connections)",
        lambda metrics: metrics.connections.full_seconds,
    ),
    gauge(
        "groupd_unanswered_requests",
        "Requests without a response yet: they wait for their group, for records, or for the disk",
        lambda metrics: metrics.connections.unanswered_requests,
    ),
    gauge(
        "groupd_answer_bytes",
        "Bytes of unsent responses, which wait for an earlier response or for a slow client",
        lambda metrics: metrics.connections.answer_bytes,
    ),
    gauge(
        "groupd_request_bytes",
        "Size of the requests in receipt",
        lambda metrics: metrics.connections.request_bytes,
    ),
    gauge(
        "groupd_connections_awaiting_memory",
        "Connections that wait for memory for their next request (queued.max.request.bytes)",
        lambda metrics: metrics.connections.awaiting_memory,
    ),
)
_LOGIN: Final = {"listener": "", "mechanism": ""}
_AUTHENTICATIONS: Final[tuple[Declaration[ServerMetrics], ...]] = (
    counters(
        "groupd_successful_authentications",
        "Successful authentications by SASL",
        _LOGIN,
        lambda metrics: sorted(metrics.events.authentications.succeeded.items()),
    ),
    counters(
        "groupd_failed_authentications",
        "Failed authentications by SASL",
        _LOGIN,
        lambda metrics: sorted(metrics.events.authentications.failed.items()),
    ),
    counters(
        "groupd_successful_reauthentications",
        "Successful reauthentications",
        _LOGIN,
        lambda metrics: sorted(metrics.events.authentications.reauthentications.items()),
    ),
    counters(
        "groupd_failed_reauthentications",
        "Failed reauthentications",
        _LOGIN,
        lambda metrics: sorted(metrics.events.authentications.failed_reauthentications.items()),
    ),
    counter(
        "groupd_expired_connections_killed",
        "Connections closed at a request after their session had expired (connections.max.reauth.ms)",
        lambda metrics: metrics.events.authentications.expired_connections,
    ),
)
_PROCESS: Final[tuple[Declaration[ServerMetrics], ...]] = (
    gauge(
        "groupd_waiters",
        "Pending responses of groups, fetches and logs; 0 without a connection",
        lambda metrics: metrics.waiters,
    ),
    gauge(
        "groupd_timers", "Timers of groups: sessions, rebalances, retention", lambda metrics: metrics.timers
    ),
    gauge("groupd_tasks", "Tasks of the event loop", lambda metrics: metrics.tasks),
    gauge(
        "groupd_memory_blocks",
        "Memory blocks allocated by Python; a leak shows here before the process grows",
        lambda metrics: metrics.memory_blocks,
    ),
)
_LOGS: Final[tuple[Declaration[ServerMetrics], ...]] = (
    gauges(
        "groupd_log_bytes",
        "Size of the logs, by topic",
        {"topic": ""},
        lambda metrics: (((topic,), size) for topic, size in sorted(metrics.log_bytes.items())),
    ),
    counter("groupd_log_flushes", "Syncs of logs to the disk", lambda metrics: metrics.flushes),
    counter("groupd_log_flush_seconds", "Time spent on syncs of logs", lambda metrics: metrics.flush_seconds),
    counter(
        "groupd_disk_refusals",
        "Writes that the disk refused: commits, trials, checkpoints, states",
        lambda metrics: metrics.disk_refusals,
    ),
)
SERVER_METRICS: Final[tuple[Declaration[ServerMetrics], ...]] = (
    *(*_GROUPS, *_TRANSACTIONS, *_ORACLES, *_NETWORK, *_AUTHENTICATIONS, *_PROCESS, *_LOGS),
)

_DURATION_BOUNDS: Final = [*(str(float(bound)) for bound in DURATION_BOUNDS_S), "+Inf"]


def _list_rebalance_durations(metrics: ControlMetricsSnapshot) -> Iterator[Sample]:
    for phase, durations in metrics.rebalances.items():
        buckets = list(zip(_DURATION_BOUNDS, accumulate(durations.buckets), strict=True))
        yield (phase,), buckets, durations.sum_ms / 1000


_CONTROL: Final[tuple[Declaration[ControlMetricsSnapshot], ...]] = (
    histograms(
        "groupd_rebalance_seconds",
        "Durations of completed rebalances, as in the ledger; join and sync are parts of total",
        {"phase": ", ".join(PHASES)},
        _list_rebalance_durations,
    ),
    gauge(
        "groupd_rebalance_open_seconds",
        "Age of the oldest open rebalance; 0 without one",
        lambda metrics: metrics.rebalance_open_s,
    ),
    counters(
        "groupd_fault_hits",
        "Hits of injected faults, by action",
        {"fault": ", ".join(ACTION_KINDS)},
        lambda metrics: (((kind,), metrics.fault_hits.get(kind, 0)) for kind in ACTION_KINDS),
    ),
    gauge("groupd_frozen_groups", "Groups with a stopped clock", lambda metrics: metrics.frozen_groups),
    gauge(
        "groupd_session_margin_ratio",
        "The lowest remaining share (0 to 1) of a session among the members of all groups; 1 without members",
        lambda metrics: metrics.session_margin,
    ),
    gauges(
        "groupd_cluster_owned_partitions",
        "Partitions that each broker of this process coordinates or leads. In a cluster on etcd: partitions "
        "that this broker coordinates, and the partitions of replicated topics that it leads",
        {"broker": "a node id"},
        lambda metrics: (((str(node_id),), count) for node_id, count in metrics.owned_partitions.items()),
    ),
    counters(
        "groupd_cluster_moves",
        "Moves of partitions to another broker of this process, or from their only broker, by cause. In a "
        "cluster on etcd: gains and losses of this broker",
        {"cause": ""},
        lambda metrics: (((cause,), count) for cause, count in metrics.moves.items()),
    ),
)


def _etcd_gauge(
    name: str, meaning: str, value: Callable[[EtcdMetrics], float]
) -> Declaration[ControlMetricsSnapshot]:
    """Declare a gauge of a cluster on etcd, without a sample for any other broker."""
    return gauges(
        name, meaning, {}, lambda metrics: () if metrics.engine is None else [((), value(metrics.engine))]
    )


_ETCD: Final[tuple[Declaration[ControlMetricsSnapshot], ...]] = (
    counters(
        "groupd_cluster_fenced",
        "Appends that were refused because another broker owns the partition",
        {},
        lambda metrics: () if metrics.engine is None else [((), metrics.engine.fenced)],
    ),
    _etcd_gauge(
        "groupd_cluster_append_seconds",
        "Median duration of the last 1,000 transactions in etcd",
        lambda etcd: etcd.append_seconds,
    ),
    _etcd_gauge(
        "groupd_cluster_session_left_seconds",
        "Time until this broker gives up all its partitions unless etcd answers; 0 without a session",
        lambda etcd: etcd.session_left_seconds,
    ),
    _etcd_gauge(
        "groupd_cluster_engine_bytes",
        "Bytes in etcd of the partitions that this broker coordinates",
        lambda etcd: etcd.engine_bytes,
    ),
    gauges(
        "groupd_cluster_etcd_bytes",
        "Database size of each etcd node that answers",
        {"endpoint": "HOST:PORT, as in `cluster.etcd.endpoints`"},
        lambda metrics: (
            ()
            if metrics.engine is None
            else [((endpoint,), size) for endpoint, size in metrics.engine.node_bytes.items()]
        ),
    ),
    _etcd_gauge(
        "groupd_cluster_etcd_quota_bytes",
        "Quota of the etcd database: cluster.etcd.quota.bytes, or the quota that etcd reports, or 2 GiB",
        lambda etcd: etcd.quota_bytes,
    ),
    _etcd_gauge(
        "groupd_cluster_etcd_full",
        "1 while etcd rejects writes because it is full (its alarm NOSPACE)",
        lambda etcd: etcd.is_full,
    ),
)
CONTROL_METRICS: Final[tuple[Declaration[ControlMetricsSnapshot], ...]] = (*_CONTROL, *_ETCD)


class ServerMetricsCollector(SnapshotCollector[ServerMetrics]):
    """Converts the metrics of a broker."""

    def __init__(self, metrics: ServerMetrics) -> None:
        super().__init__(SERVER_METRICS, metrics)


class ControlCollector(SnapshotCollector[ControlMetricsSnapshot]):
    """Converts the metrics of the control plane."""

    def __init__(self, metrics: ControlMetricsSnapshot) -> None:
        super().__init__(CONTROL_METRICS, metrics)
