"""The metrics of single groups. Those of lag have the names and labels of kafka_exporter (danielqsj), so that what
was made for it works; where nothing was committed there is no series, and no -1. One family is made at a time, and
written before the next.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from coordinator.control.figures.durations import PHASES
from coordinator.control.figures.group_figures import AllGroupFigures, GroupFigures
from coordinator.server.tallies import Tally

GROUP: Final = "consumergroup"
"""The label of a group's id, as in kafka_exporter."""
_PLACE: Final = ("topic", "partition")

Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)
Value = tuple[Sequence[str], float]
"""Of labels, and what has them."""


class GroupsCollector(Collector):
    """Figures as metrics. Needs nothing else, so that another thread can write them down."""

    def __init__(self, figures: AllGroupFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        groups = self._figures.groups
        yield from _standing(groups)
        yield from _rebalances(groups)
        yield from _counts(groups)
        yield from _offsets(self._figures)
        yield from _partitions(self._figures)
        yield GaugeMetricFamily(
            "groupd_groups_left_out",
            "Groups that were asked for and are not told of, as there are too many: ask for some (match)",
            value=self._figures.left_out,
        )


def _filled(family: Family, values: Iterator[Value]) -> Family:
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _standing(groups: Sequence[GroupFigures]) -> Iterator[Metric]:
    yield _filled(
        GaugeMetricFamily(
            "groupd_group_state", "1 for the state that a group is in", labels=[GROUP, "type", "state"]
        ),
        (((group.group_id, group.type, group.state), 1) for group in groups),
    )
    yield _filled(
        GaugeMetricFamily("kafka_consumergroup_members", "Members of a group", labels=[GROUP]),
        (((group.group_id,), group.members) for group in groups),
    )
    yield _filled(
        GaugeMetricFamily("groupd_group_frozen", "Whether the clock of a group stands still", labels=[GROUP]),
        (((group.group_id,), group.is_frozen) for group in groups),
    )
    yield _filled(
        GaugeMetricFamily(
            "groupd_group_session_margin_ratio",
            "The least share of its session, from 0 to 1, that a member of a group has left; none without members",
            labels=[GROUP],
        ),
        (((group.group_id,), group.session_margin) for group in groups if group.session_margin is not None),
    )


def _rebalances(groups: Sequence[GroupFigures]) -> Iterator[Metric]:
    yield _filled(
        GaugeMetricFamily(
            "groupd_group_rebalance_open_seconds",
            "How long a group has been rebalancing; 0 where it is not",
            labels=[GROUP],
        ),
        (((group.group_id,), group.rebalance_open_s) for group in groups),
    )
    took = SummaryMetricFamily(
        "groupd_group_rebalance_seconds",
        "What the rebalances of a group took that came to their end, by phase; join and sync are parts of total",
        labels=[GROUP, "phase"],
    )
    for group in groups:
        for phase, spent_ms in zip(PHASES, group.history.spent_ms, strict=True):
            took.add_metric([group.group_id, phase], group.history.completed, spent_ms / 1000)
    yield took


def _counts(groups: Sequence[GroupFigures]) -> Iterator[Metric]:
    for tally, name, what in (
        (
            Tally.REBALANCES,
            "groupd_group_rebalances",
            "Rebalances of a group that began; of a consumer group, its epochs",
        ),
        (
            Tally.EXPIRED,
            "groupd_group_member_sessions_expired",
            "Sessions of members of a group that ended",
        ),
    ):
        yield _filled(
            CounterMetricFamily(name, what, labels=[GROUP]),
            (((group.group_id,), group.history.tallies[tally, ""]) for group in groups),
        )
    for tally, name, label, what in (
        (
            Tally.EVICTED,
            "groupd_group_members_evicted",
            "phase",
            "Members of a group that were put out, by what they did not do in time",
        ),
        (
            Tally.COMMITS_REFUSED,
            "groupd_group_commits_refused",
            "error",
            "Commits of a group that were refused",
        ),
    ):
        yield _filled(CounterMetricFamily(name, what, labels=[GROUP, label]), _labelled(groups, tally))
    for name, what, counts in (
        (
            "groupd_group_violations",
            "What the oracles found in a group, each time",
            [group.history.violations for group in groups],
        ),
        (
            "groupd_group_notices",
            "Notices of the oracles about a group, each time",
            [group.history.notices for group in groups],
        ),
    ):
        yield _filled(
            CounterMetricFamily(name, what, labels=[GROUP, "oracle"]),
            (
                ((group.group_id, oracle), count)
                for group, by_oracle in zip(groups, counts, strict=True)
                for oracle, count in sorted(by_oracle.items())
            ),
        )


def _labelled(groups: Sequence[GroupFigures], tally: Tally) -> Iterator[Value]:
    for group in groups:
        for (kind, label), count in sorted(group.history.tallies.items()):
            if kind is tally:
                yield (group.group_id, label), count


def _offsets(figures: AllGroupFigures) -> Iterator[Metric]:
    yield _filled(
        GaugeMetricFamily(
            "kafka_consumergroup_current_offset",
            "What a group has committed for a partition",
            labels=[GROUP, *_PLACE],
        ),
        (
            ((group.group_id, topic, str(partition)), offset)
            for group in figures.groups
            for (topic, partition), offset in sorted(group.offsets.items())
        ),
    )
    yield _filled(
        GaugeMetricFamily(
            "kafka_consumergroup_lag",
            "What is left to read for a group in a partition",
            labels=[GROUP, *_PLACE],
        ),
        (
            ((group.group_id, topic, str(partition)), lag)
            for group in figures.groups
            for topic, partition, lag in _lags(figures, group)
        ),
    )
    yield _filled(
        GaugeMetricFamily(
            "kafka_consumergroup_current_offset_sum",
            "What a group has committed, of all partitions of a topic",
            labels=[GROUP, "topic"],
        ),
        _sums(figures.groups, lambda group: ((place[0], value) for place, value in group.offsets.items())),
    )
    yield _filled(
        GaugeMetricFamily(
            "kafka_consumergroup_lag_sum",
            "What is left to read for a group in all partitions of a topic",
            labels=[GROUP, "topic"],
        ),
        _sums(figures.groups, lambda group: ((topic, lag) for topic, _, lag in _lags(figures, group))),
    )


def _lags(figures: AllGroupFigures, group: GroupFigures) -> Iterator[tuple[str, int, int]]:
    for (topic, partition), offset in sorted(group.offsets.items()):
        ends = figures.ends.get((topic, partition))
        if ends is not None:
            yield topic, partition, max(0, ends.end - offset)


def _sums(
    groups: Sequence[GroupFigures], values: Callable[[GroupFigures], Iterator[tuple[str, int]]]
) -> Iterator[Value]:
    for group in groups:
        sums: Counter[str] = Counter()
        for topic, value in values(group):
            sums[topic] += value
        for topic, total in sums.items():
            yield (group.group_id, topic), total


def _partitions(figures: AllGroupFigures) -> Iterator[Metric]:
    yield _filled(
        GaugeMetricFamily(
            "kafka_topic_partitions",
            "Partitions of a topic for which one of the groups has committed something",
            labels=["topic"],
        ),
        (((topic,), count) for topic, count in figures.partitions.items()),
    )
    places = sorted(figures.ends.items())
    yield _filled(
        GaugeMetricFamily(
            "kafka_topic_partition_current_offset", "Where a partition ends for consumers", labels=_PLACE
        ),
        (((topic, str(partition)), ends.end) for (topic, partition), ends in places),
    )
    yield _filled(
        GaugeMetricFamily("kafka_topic_partition_oldest_offset", "Where a partition begins", labels=_PLACE),
        (((topic, str(partition)), ends.start) for (topic, partition), ends in places),
    )
