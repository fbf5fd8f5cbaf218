"""The metrics of single groups.

Metrics of lag have the names and labels of kafka_exporter (danielqsj), so existing dashboards work. A
partition without a committed offset has no series; kafka_exporter reports -1. One family is rendered and
written at a time."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from coordinator.broker.broker_metrics import GroupCounter
from coordinator.control.metrics_snapshot import PHASES, GroupMetricsSnapshot, SelectedGroupMetrics

GROUP_LABEL: Final = "consumergroup"
"""The label of a group's id, as in kafka_exporter."""
_PARTITION_LABELS: Final = ("topic", "partition")

Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)
Sample = tuple[Sequence[str], float]
"""The values of the labels, and the value of the metric."""


class GroupsCollector(Collector):
    """Converts a snapshot into Prometheus metric families. It reads nothing else, so another thread may run it."""

    def __init__(self, metrics: SelectedGroupMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the snapshot."""
        groups = self._metrics.groups
        yield from _collect_states(groups)
        yield from _collect_rebalances(groups)
        yield from _collect_counts(groups)
        yield from _collect_offsets(self._metrics)
        yield from _collect_partitions(self._metrics)
        yield GaugeMetricFamily(
            "groupd_groups_left_out",
            "Selected groups beyond the limit, without metrics; select fewer groups (match)",
            value=self._metrics.left_out,
        )


def _fill_family(family: Family, values: Iterator[Sample]) -> Family:
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _collect_states(groups: Sequence[GroupMetricsSnapshot]) -> Iterator[Metric]:
    yield _fill_family(
        GaugeMetricFamily(
            "groupd_group_state", "1 for the current state of a group", labels=[GROUP_LABEL, "type", "state"]
        ),
        (((group.group_id, group.type, group.state), 1) for group in groups),
    )
    yield _fill_family(
        GaugeMetricFamily("kafka_consumergroup_members", "Members of a group", labels=[GROUP_LABEL]),
        (((group.group_id,), group.members) for group in groups),
    )
    yield _fill_family(
        GaugeMetricFamily(
            "groupd_group_frozen", "1 while the clock of a group is stopped", labels=[GROUP_LABEL]
        ),
        (((group.group_id,), group.is_frozen) for group in groups),
    )
    yield _fill_family(
        GaugeMetricFamily(
            "groupd_group_session_margin_ratio",
            "The lowest remaining share (0 to 1) of a session in a group; no series without members",
            labels=[GROUP_LABEL],
        ),
        (((group.group_id,), group.session_margin) for group in groups if group.session_margin is not None),
    )


def _collect_rebalances(groups: Sequence[GroupMetricsSnapshot]) -> Iterator[Metric]:
    yield _fill_family(
        GaugeMetricFamily(
            "groupd_group_rebalance_open_seconds",
            "Age of the open rebalance of a group; 0 without one",
            labels=[GROUP_LABEL],
        ),
        (((group.group_id,), group.rebalance_open_s) for group in groups),
    )
    took = SummaryMetricFamily(
        "groupd_group_rebalance_seconds",
        "Durations of completed rebalances of a group, by phase; join and sync are parts of total",
        labels=[GROUP_LABEL, "phase"],
    )
    for group in groups:
        for phase, spent_ms in zip(PHASES, group.counts.phase_totals_ms, strict=True):
            took.add_metric([group.group_id, phase], group.counts.completed_rebalances, spent_ms / 1000)
    yield took


def _collect_counts(groups: Sequence[GroupMetricsSnapshot]) -> Iterator[Metric]:
    for counter, name, what in (
        (
            GroupCounter.REBALANCES,
            "groupd_group_rebalances",
            "Rebalances of a group that began; for a consumer group, its epochs",
        ),
        (
            GroupCounter.EXPIRED,
            "groupd_group_member_sessions_expired",
            "Sessions of members of a group that expired",
        ),
    ):
        yield _fill_family(
            CounterMetricFamily(name, what, labels=[GROUP_LABEL]),
            (((group.group_id,), group.counts.event_counts[counter, ""]) for group in groups),
        )
    for counter, name, label, what in (
        (
            GroupCounter.EVICTED,
            "groupd_group_members_evicted",
            "phase",
            "Members of a group that groupd removed because they were late, by phase",
        ),
        (
            GroupCounter.COMMITS_REFUSED,
            "groupd_group_commits_refused",
            "error",
            "Refused commits of a group",
        ),
    ):
        yield _fill_family(
            CounterMetricFamily(name, what, labels=[GROUP_LABEL, label]), _list_labelled(groups, counter)
        )
    for name, what, counts in (
        (
            "groupd_group_violations",
            "Violations that the oracles found in a group",
            [group.counts.violations for group in groups],
        ),
        (
            "groupd_group_notices",
            "Notices of the oracles about a group",
            [group.counts.notices for group in groups],
        ),
    ):
        yield _fill_family(
            CounterMetricFamily(name, what, labels=[GROUP_LABEL, "oracle"]),
            (
                ((group.group_id, oracle), count)
                for group, by_oracle in zip(groups, counts, strict=True)
                for oracle, count in sorted(by_oracle.items())
            ),
        )


def _list_labelled(groups: Sequence[GroupMetricsSnapshot], counter: GroupCounter) -> Iterator[Sample]:
    for group in groups:
        for (kind, label), count in sorted(group.counts.event_counts.items()):
            if kind is counter:
                yield (group.group_id, label), count


def _collect_offsets(metrics: SelectedGroupMetrics) -> Iterator[Metric]:
    yield _fill_family(
        GaugeMetricFamily(
            "kafka_consumergroup_current_offset",
            "Committed offset of a group for a partition",
            labels=[GROUP_LABEL, *_PARTITION_LABELS],
        ),
        (
            ((group.group_id, topic, str(partition)), offset)
            for group in metrics.groups
            for (topic, partition), offset in sorted(group.offsets.items())
        ),
    )
    yield _fill_family(
        GaugeMetricFamily(
            "kafka_consumergroup_lag",
            "Lag of a group in a partition",
            labels=[GROUP_LABEL, *_PARTITION_LABELS],
        ),
        (
            ((group.group_id, topic, str(partition)), lag)
            for group in metrics.groups
            for topic, partition, lag in _list_lags(metrics, group)
        ),
    )
    yield _fill_family(
        GaugeMetricFamily(
            "kafka_consumergroup_current_offset_sum",
            "Sum of the committed offsets of a group in a topic",
            labels=[GROUP_LABEL, "topic"],
        ),
        _sum_by_topic(
            metrics.groups, lambda group: ((place[0], value) for place, value in group.offsets.items())
        ),
    )
    yield _fill_family(
        GaugeMetricFamily(
            "kafka_consumergroup_lag_sum",
            "Sum of the lags of a group in a topic",
            labels=[GROUP_LABEL, "topic"],
        ),
        _sum_by_topic(
            metrics.groups, lambda group: ((topic, lag) for topic, _, lag in _list_lags(metrics, group))
        ),
    )


def _list_lags(metrics: SelectedGroupMetrics, group: GroupMetricsSnapshot) -> Iterator[tuple[str, int, int]]:
    for (topic, partition), offset in sorted(group.offsets.items()):
        ends = metrics.ends.get((topic, partition))
        if ends is not None:
            yield topic, partition, max(0, ends.end - offset)


def _sum_by_topic(
    groups: Sequence[GroupMetricsSnapshot],
    values: Callable[[GroupMetricsSnapshot], Iterator[tuple[str, int]]],
) -> Iterator[Sample]:
    for group in groups:
        sums: Counter[str] = Counter()
        for topic, value in values(group):
            sums[topic] += value
        for topic, total in sums.items():
            yield (group.group_id, topic), total


def _collect_partitions(metrics: SelectedGroupMetrics) -> Iterator[Metric]:
    yield _fill_family(
        GaugeMetricFamily(
            "kafka_topic_partitions",
            "Number of partitions of a topic; only topics with a commit of one of the groups",
            labels=["topic"],
        ),
        (((topic,), count) for topic, count in metrics.partitions.items()),
    )
    places = sorted(metrics.ends.items())
    yield _fill_family(
        GaugeMetricFamily(
            "kafka_topic_partition_current_offset",
            "End offset of a partition for consumers",
            labels=_PARTITION_LABELS,
        ),
        (((topic, str(partition)), ends.end) for (topic, partition), ends in places),
    )
    yield _fill_family(
        GaugeMetricFamily(
            "kafka_topic_partition_oldest_offset", "Start offset of a partition", labels=_PARTITION_LABELS
        ),
        (((topic, str(partition)), ends.start) for (topic, partition), ends in places),
    )
