"""The metrics of single groups.

Metrics of lag have the names and labels of kafka_exporter (danielqsj), so existing dashboards work. A
partition without a committed offset has no series; kafka_exporter reports -1. One family is rendered and
written at a time."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from coordinator.broker.broker_metrics import EVICTION_PHASES, GroupCounter
from coordinator.control.metrics_snapshot import PHASES, GroupMetricsSnapshot, SelectedGroupMetrics
from coordinator.group.group_types import STATE_NAMES, GroupType
from coordinator.http.metric_declaration import (
    Declaration,
    Sample,
    Samples,
    SnapshotCollector,
    counters,
    gauge,
    gauges,
    summaries,
)

GROUP_LABEL: Final = "consumergroup"
"""The label of a group's id, as in kafka_exporter."""
_GROUP: Final = {GROUP_LABEL: ""}
_TOPIC: Final = {"topic": ""}
_PARTITION: Final = {"topic": "", "partition": ""}


def _of_groups(value: Callable[[GroupMetricsSnapshot], float]) -> Samples[SelectedGroupMetrics]:
    """Return one sample for each group."""
    return lambda metrics: (((group.group_id,), value(group)) for group in metrics.groups)


def _list_margins(metrics: SelectedGroupMetrics) -> Iterator[Sample]:
    for group in metrics.groups:
        if group.session_margin is not None:
            yield (group.group_id,), group.session_margin


def _list_phases(metrics: SelectedGroupMetrics) -> Iterator[Sample]:
    for group in metrics.groups:
        for phase, spent_ms in zip(PHASES, group.counts.phase_totals_ms, strict=True):
            yield (group.group_id, phase), group.counts.completed_rebalances, spent_ms / 1000


def _list_findings(
    metrics: SelectedGroupMetrics, counts: Callable[[GroupMetricsSnapshot], Counter[str]]
) -> Iterator[Sample]:
    for group in metrics.groups:
        for oracle, count in sorted(counts(group).items()):
            yield (group.group_id, oracle), count


def _list_labelled(groups: Sequence[GroupMetricsSnapshot], counter: GroupCounter) -> Iterator[Sample]:
    for group in groups:
        for (kind, label), count in sorted(group.counts.event_counts.items()):
            if kind is counter:
                yield (group.group_id, label), count


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


def _list_offsets(metrics: SelectedGroupMetrics) -> Iterator[Sample]:
    for group in metrics.groups:
        for (topic, partition), offset in sorted(group.offsets.items()):
            yield (group.group_id, topic, str(partition)), offset


def _list_partition_lags(metrics: SelectedGroupMetrics) -> Iterator[Sample]:
    for group in metrics.groups:
        for topic, partition, lag in _list_lags(metrics, group):
            yield (group.group_id, topic, str(partition)), lag


GROUP_METRICS: Final[tuple[Declaration[SelectedGroupMetrics], ...]] = (
    gauges(
        "groupd_group_state",
        "1 for the current state of a group",
        _GROUP
        | {"type": ", ".join((GroupType.CLASSIC, GroupType.CONSUMER)), "state": ", ".join(STATE_NAMES)},
        lambda metrics: (((group.group_id, group.type, group.state), 1) for group in metrics.groups),
    ),
    gauges(
        "kafka_consumergroup_members", "Members of a group", _GROUP, _of_groups(lambda group: group.members)
    ),
    gauges(
        "groupd_group_frozen",
        "1 while the clock of a group is stopped",
        _GROUP,
        _of_groups(lambda group: group.is_frozen),
    ),
    gauges(
        "groupd_group_session_margin_ratio",
        "The lowest remaining share (0 to 1) of a session in a group; no series without members",
        _GROUP,
        _list_margins,
    ),
    gauges(
        "groupd_group_rebalance_open_seconds",
        "Age of the open rebalance of a group; 0 without one",
        _GROUP,
        _of_groups(lambda group: group.rebalance_open_s),
    ),
    summaries(
        "groupd_group_rebalance_seconds",
        "Durations of completed rebalances of a group, by phase; join and sync are parts of total",
        _GROUP | {"phase": ", ".join(PHASES)},
        _list_phases,
    ),
    counters(
        "groupd_group_rebalances",
        "Rebalances of a group that began; for a consumer group, its epochs",
        _GROUP,
        _of_groups(lambda group: group.counts.event_counts[GroupCounter.REBALANCES, ""]),
    ),
    counters(
        "groupd_group_member_sessions_expired",
        "Sessions of members of a group that expired",
        _GROUP,
        _of_groups(lambda group: group.counts.event_counts[GroupCounter.EXPIRED, ""]),
    ),
    counters(
        "groupd_group_members_evicted",
        "Members of a group that groupd removed because they were late, by phase",
        _GROUP | {"phase": ", ".join(EVICTION_PHASES)},
        lambda metrics: _list_labelled(metrics.groups, GroupCounter.EVICTED),
    ),
    counters(
        "groupd_group_commits_refused",
        "Refused commits of a group",
        _GROUP | {"error": "Kafka's name"},
        lambda metrics: _list_labelled(metrics.groups, GroupCounter.COMMITS_REFUSED),
    ),
    counters(
        "groupd_group_violations",
        "Violations that the oracles found in a group",
        _GROUP | {"oracle": "as above"},
        lambda metrics: _list_findings(metrics, lambda group: group.counts.violations),
    ),
    counters(
        "groupd_group_notices",
        "Notices of the oracles about a group",
        _GROUP | {"oracle": "as above"},
        lambda metrics: _list_findings(metrics, lambda group: group.counts.notices),
    ),
    gauges(
        "kafka_consumergroup_current_offset",
        "Committed offset of a group for a partition",
        _GROUP | _PARTITION,
        _list_offsets,
    ),
    gauges(
        "kafka_consumergroup_lag", "Lag of a group in a partition", _GROUP | _PARTITION, _list_partition_lags
    ),
    gauges(
        "kafka_consumergroup_current_offset_sum",
        "Sum of the committed offsets of a group in a topic",
        _GROUP | _TOPIC,
        lambda metrics: _sum_by_topic(
            metrics.groups, lambda group: ((place[0], value) for place, value in group.offsets.items())
        ),
    ),
    gauges(
        "kafka_consumergroup_lag_sum",
        "Sum of the lags of a group in a topic",
        _GROUP | _TOPIC,
        lambda metrics: _sum_by_topic(
            metrics.groups, lambda group: ((topic, lag) for topic, _, lag in _list_lags(metrics, group))
        ),
    ),
    gauges(
        "kafka_topic_partitions",
        "Number of partitions of a topic; only topics with a commit of one of the groups",
        _TOPIC,
        lambda metrics: (((topic,), count) for topic, count in metrics.partitions.items()),
    ),
    gauges(
        "kafka_topic_partition_current_offset",
        "End offset of a partition for consumers",
        _PARTITION,
        lambda metrics: (
            ((topic, str(partition)), ends.end) for (topic, partition), ends in sorted(metrics.ends.items())
        ),
    ),
    gauges(
        "kafka_topic_partition_oldest_offset",
        "Start offset of a partition",
        _PARTITION,
        lambda metrics: (
            ((topic, str(partition)), ends.start) for (topic, partition), ends in sorted(metrics.ends.items())
        ),
    ),
    gauge(
        "groupd_groups_left_out",
        "Selected groups beyond the limit, without metrics; select fewer groups (match)",
        lambda metrics: metrics.left_out,
    ),
)


class GroupsCollector(SnapshotCollector[SelectedGroupMetrics]):
    """Converts the metrics of selected groups."""

    def __init__(self, metrics: SelectedGroupMetrics) -> None:
        super().__init__(GROUP_METRICS, metrics)
