"""The metrics of single groups. Those of lag have the names and labels of kafka_exporter (danielqsj),
so that boards and rules made for it are right; where nothing was committed there is no series, and no -1."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from coordinator.control.figures.durations import PHASES
from coordinator.control.figures.group_figures import AllGroupFigures
from coordinator.server.tallies import Tally

GROUP: str = "consumergroup"
"""The label of a group's id, as in kafka_exporter."""


class GroupsCollector(Collector):
    """Figures as metrics. Needs nothing else, so that another thread can write them down."""

    def __init__(self, figures: AllGroupFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        yield from _standing(self._figures)
        yield from _rebalances(self._figures)
        yield from _counts(self._figures)
        yield from _offsets(self._figures)
        yield from _partitions(self._figures)
        yield GaugeMetricFamily(
            "groupd_groups_left_out",
            "Groups that were asked for and are not told of, as there are too many: ask for some (match)",
            value=self._figures.left_out,
        )


def _standing(figures: AllGroupFigures) -> Iterator[Metric]:
    states = GaugeMetricFamily(
        "groupd_group_state", "1 for the state that a group is in", labels=[GROUP, "type", "state"]
    )
    members = GaugeMetricFamily("kafka_consumergroup_members", "Members of a group", labels=[GROUP])
    frozen = GaugeMetricFamily(
        "groupd_group_frozen", "Whether the clock of a group stands still", labels=[GROUP]
    )
    margins = GaugeMetricFamily(
        "groupd_group_session_margin_ratio",
        "The least share of its session, from 0 to 1, that a member of a group has left; none without members",
        labels=[GROUP],
    )
    for group in figures.groups:
        states.add_metric([group.group_id, group.type, group.state], 1)
        members.add_metric([group.group_id], group.members)
        frozen.add_metric([group.group_id], group.is_frozen)
        if group.session_margin is not None:
            margins.add_metric([group.group_id], group.session_margin)
    yield from (states, members, frozen, margins)


def _rebalances(figures: AllGroupFigures) -> Iterator[Metric]:
    opened = GaugeMetricFamily(
        "groupd_group_rebalance_open_seconds",
        "How long a group has been rebalancing; 0 where it is not",
        labels=[GROUP],
    )
    took = SummaryMetricFamily(
        "groupd_group_rebalance_seconds",
        "What the rebalances of a group took that came to their end, by phase; join and sync are parts of total",
        labels=[GROUP, "phase"],
    )
    for group in figures.groups:
        opened.add_metric([group.group_id], group.rebalance_open_s)
        for phase, spent_ms in zip(PHASES, group.spent_ms, strict=True):
            took.add_metric([group.group_id, phase], group.completed, spent_ms / 1000)
    yield from (opened, took)


def _counts(figures: AllGroupFigures) -> Iterator[Metric]:
    rebalances = CounterMetricFamily(
        "groupd_group_rebalances",
        "Rebalances of a group that began; of a consumer group, its epochs",
        labels=[GROUP],
    )
    expired = CounterMetricFamily(
        "groupd_group_member_sessions_expired", "Sessions of members of a group that ended", labels=[GROUP]
    )
    evicted = CounterMetricFamily(
        "groupd_group_members_evicted",
        "Members of a group that were put out, by what they did not do in time",
        labels=[GROUP, "phase"],
    )
    refused = CounterMetricFamily(
        "groupd_group_commits_refused", "Commits of a group that were refused", labels=[GROUP, "error"]
    )
    violations = CounterMetricFamily(
        "groupd_group_violations", "What the oracles found in a group, each time", labels=[GROUP, "oracle"]
    )
    labelled = {Tally.EVICTED: evicted, Tally.COMMITS_REFUSED: refused}
    for group in figures.groups:
        rebalances.add_metric([group.group_id], group.tallies[Tally.REBALANCES, ""])
        expired.add_metric([group.group_id], group.tallies[Tally.EXPIRED, ""])
        for (tally, label), count in sorted(group.tallies.items()):
            if tally in labelled:
                labelled[tally].add_metric([group.group_id, label], count)
        for oracle, count in sorted(group.violations.items()):
            violations.add_metric([group.group_id, oracle], count)
    yield from (rebalances, expired, evicted, refused, violations)


def _offsets(figures: AllGroupFigures) -> Iterator[Metric]:
    place = [GROUP, "topic", "partition"]
    committed = GaugeMetricFamily(
        "kafka_consumergroup_current_offset", "What a group has committed for a partition", labels=place
    )
    lags = GaugeMetricFamily(
        "kafka_consumergroup_lag", "What is left to read for a group in a partition", labels=place
    )
    committed_sums = GaugeMetricFamily(
        "kafka_consumergroup_current_offset_sum",
        "What a group has committed, of all partitions of a topic",
        labels=[GROUP, "topic"],
    )
    lag_sums = GaugeMetricFamily(
        "kafka_consumergroup_lag_sum",
        "What is left to read for a group in all partitions of a topic",
        labels=[GROUP, "topic"],
    )
    for group in figures.groups:
        offset_sums: Counter[str] = Counter()
        of_topic: Counter[str] = Counter()
        for (topic, partition), offset in sorted(group.offsets.items()):
            labels = [group.group_id, topic, str(partition)]
            committed.add_metric(labels, offset)
            offset_sums[topic] += offset
            ends = figures.ends.get((topic, partition))
            if ends is not None:
                lag = max(0, ends.end - offset)
                lags.add_metric(labels, lag)
                of_topic[topic] += lag
        for topic, offset in offset_sums.items():
            committed_sums.add_metric([group.group_id, topic], offset)
        for topic, lag in of_topic.items():
            lag_sums.add_metric([group.group_id, topic], lag)
    yield from (committed, lags, committed_sums, lag_sums)


def _partitions(figures: AllGroupFigures) -> Iterator[Metric]:
    counts = GaugeMetricFamily(
        "kafka_topic_partitions",
        "Partitions of a topic for which one of the groups has committed something",
        labels=["topic"],
    )
    for topic, count in figures.partitions.items():
        counts.add_metric([topic], count)
    place = ["topic", "partition"]
    newest = GaugeMetricFamily(
        "kafka_topic_partition_current_offset", "Where a partition ends for consumers", labels=place
    )
    oldest = GaugeMetricFamily(
        "kafka_topic_partition_oldest_offset", "Where a partition begins", labels=place
    )
    for (topic, partition), ends in sorted(figures.ends.items()):
        newest.add_metric([topic, str(partition)], ends.end)
        oldest.add_metric([topic, str(partition)], ends.start)
    yield from (counts, newest, oldest)
