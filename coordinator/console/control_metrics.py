"""The metrics of what the control room knows: rebalances, clocks, faults, sessions. No group is named here."""

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from coordinator.control.faults.kinds import KINDS
from coordinator.control.figures.durations import DURATION_BOUNDS_S
from coordinator.control.figures.figures import ControlFigures

_BOUNDS = [*(str(float(bound)) for bound in DURATION_BOUNDS_S), "+Inf"]


class ControlCollector(Collector):
    """Figures as metrics. Needs nothing else, so that another thread can write them down."""

    def __init__(self, figures: ControlFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        figures = self._figures
        rebalances = HistogramMetricFamily(
            "groupd_rebalance_seconds",
            "What rebalances took that came to their end, as in the ledger; join and sync are parts of total",
            labels=["phase"],
        )
        for phase, durations in figures.rebalances.items():
            buckets = list(zip(_BOUNDS, accumulate(durations.buckets), strict=True))
            rebalances.add_metric([phase], buckets, durations.sum_ms / 1000)
        yield rebalances
        yield GaugeMetricFamily(
            "groupd_rebalance_open_seconds",
            "How long the oldest open rebalance has gone on; 0 where there is none",
            value=figures.rebalance_open_s,
        )
        hits = CounterMetricFamily(
            "groupd_fault_hits", "How often faults have acted, by what they do", labels=["fault"]
        )
        for kind in KINDS:
            hits.add_metric([kind], figures.fault_hits.get(kind, 0))
        yield hits
        yield GaugeMetricFamily(
            "groupd_frozen_groups", "Groups whose clock stands still", value=figures.frozen_groups
        )
        yield GaugeMetricFamily(
            "groupd_session_margin_ratio",
            "The least share of its session, from 0 to 1, that a member of any group has left; 1 without members",
            value=figures.session_margin,
        )
        yield from self._cluster()

    def _cluster(self) -> Iterator[Metric]:
        owned = GaugeMetricFamily(
            "groupd_cluster_owned_partitions",
            "Partitions that each of several brokers in this process coordinates or leads; in a cluster on etcd, "
            "those that this broker coordinates, or leads of topics with replicas",
            labels=["broker"],
        )
        for node_id, count in self._figures.owned_partitions.items():
            owned.add_metric([str(node_id)], count)
        yield owned
        moves = CounterMetricFamily(
            "groupd_cluster_moves",
            "How often partitions came to another of several brokers, or lost their only one, by why; in a cluster "
            "on etcd, how often this broker gained or lost one",
            labels=["cause"],
        )
        for cause, count in self._figures.moves.items():
            moves.add_metric([cause], count)
        yield moves
        engine = self._figures.engine
        fenced = CounterMetricFamily(
            "groupd_cluster_fenced",
            "How often an append was refused because another broker owns the partition",
        )
        append = GaugeMetricFamily(
            "groupd_cluster_append_seconds", "The median of how long the last 1,000 transactions in etcd took"
        )
        left = GaugeMetricFamily(
            "groupd_cluster_session_left_seconds",
            "Until this broker lets go of all that it owns, unless etcd answers before; 0 without a session",
        )
        held = GaugeMetricFamily(
            "groupd_cluster_engine_bytes", "What etcd holds of the partitions that this broker coordinates"
        )
        sizes = GaugeMetricFamily(
            "groupd_cluster_etcd_bytes",
            "Size of the database of each node of etcd, of those that answer",
            labels=["endpoint"],
        )
        quota = GaugeMetricFamily(
            "groupd_cluster_etcd_quota_bytes",
            "How large the database of etcd may grow: cluster.etcd.quota.bytes, or what it says itself, or 2 GiB",
        )
        full = GaugeMetricFamily(
            "groupd_cluster_etcd_full", "1 while etcd takes no writes for want of room (its alarm NOSPACE)"
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
