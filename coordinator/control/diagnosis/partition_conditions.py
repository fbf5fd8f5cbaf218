"""Conditions on the partitions of a group: owners, committed offsets and lag.

Owners are those of the current assignment, after all members have fetched it. Committed offsets are durable
ones.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from coordinator.control.diagnosis.group_conditions import BaseCondition, UnmetCondition
from coordinator.control.diagnosis.group_snapshot import GroupSnapshot, Lag
from coordinator.control.diagnosis.member_labels import (
    format_list,
    format_name,
    format_ranges,
    list_partition_names,
    matches_reference,
)

MAX_LISTED = 1_000
"""The maximum number of partitions in a list of a response."""
_MAX_PARTS = 5
_OFFSETS_UNKNOWN = "Its committed offsets are unknown, because the log was not synced yet"


class TopicsOwnedCondition(BaseCondition):
    """Every current partition of some topics has exactly one owner."""

    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def _list_names(self, find_partitions: Callable[[str], Sequence[int]]) -> list[str]:
        names = (
            name for topic in self._topics for name in list_partition_names(topic, find_partitions(topic))
        )
        return list(islice(names, MAX_LISTED))

    def is_met(self, snapshot: GroupSnapshot) -> bool:
        return snapshot.is_settled and all(
            snapshot.cluster.count_partitions(topic) is not None
            and not snapshot.find_unowned(topic)
            and not snapshot.find_owned_twice(topic)
            for topic in self._topics
        )

    def describe_unmet(self, snapshot: GroupSnapshot) -> UnmetCondition:
        actual: dict[str, object] = {"unowned": self._list_names(snapshot.find_unowned)}
        if twice := self._list_names(snapshot.find_owned_twice):
            actual["owned_twice"] = twice
        unknown = [topic for topic in self._topics if snapshot.cluster.count_partitions(topic) is None]
        if unknown:
            actual["no_such_topic"] = unknown
        if not snapshot.is_settled:
            actual["rebalancing"] = snapshot.view is not None and snapshot.view.rebalance is not None
        return UnmetCondition(condition="owned", wanted=self._topics, actual=actual)

    def explain_unmet(self, snapshot: GroupSnapshot) -> str:
        if snapshot.unavailable is not None:
            return ""
        return "; ".join(
            filter(None, [self._explain_topic(snapshot, topic) for topic in self._topics[:_MAX_PARTS]])
        )

    def _explain_topic(self, snapshot: GroupSnapshot, topic: str) -> str:
        if snapshot.cluster.count_partitions(topic) is None:
            return f"Topic {format_name(topic)} does not exist{_format_similar(snapshot, topic)}"
        if snapshot.members and snapshot.are_consumers and topic not in snapshot.subscribed:
            return f"No member subscribes to {format_name(topic)} ({_format_subscriptions(snapshot)})"
        if snapshot.is_stable and not snapshot.are_assignments_read:
            return "Its assignments cannot be read, because they are not in the consumer protocol"
        parts = []
        unowned = snapshot.find_unowned(topic)
        if unowned and snapshot.view is not None:
            until = " until then" if snapshot.view.rebalance is not None and not snapshot.is_stable else ""
            parts.append(
                f"{format_ranges(topic, unowned)} {'has' if len(unowned) == 1 else 'have'} no owner{until}"
            )
        for partition in snapshot.find_owned_twice(topic)[:_MAX_PARTS]:
            owners = snapshot.labels.format_labels(
                member.name for member in snapshot.owners[topic, partition]
            )
            parts.append(f"{format_name(topic)}-{partition} was assigned to several members: {owners}")
        return "; ".join(parts)

    def describe_met(self, snapshot: GroupSnapshot) -> str:
        counts = [(topic, snapshot.cluster.count_partitions(topic) or 0) for topic in self._topics]
        return ", ".join(
            f"{count} of {count} partitions of {format_name(topic)} owned" for topic, count in counts
        )

    def list_topics(self, snapshot: GroupSnapshot) -> frozenset[str]:
        return frozenset(self._topics)


class PartitionOwnersCondition(BaseCondition):
    """The named partitions have the named owners."""

    def __init__(self, owners: Mapping[tuple[str, int], str]) -> None:
        self._owners = owners

    def _find_wrong_owners(self, snapshot: GroupSnapshot) -> dict[tuple[str, int], list[str]]:
        """Return the partitions without the wanted owner, with the names of their actual owners."""
        wrong = {}
        for partition, reference in self._owners.items():
            owners = snapshot.owners.get(partition, [])
            if len(owners) != 1 or not matches_reference(owners[0].name, reference):
                wrong[partition] = [snapshot.labels.find_label(owner.name) for owner in owners]
        return wrong

    def is_met(self, snapshot: GroupSnapshot) -> bool:
        return snapshot.is_settled and not self._find_wrong_owners(snapshot)

    def describe_unmet(self, snapshot: GroupSnapshot) -> UnmetCondition:
        actual = {
            f"{topic}-{partition}": owners[0] if len(owners) == 1 else owners or None
            for (topic, partition), owners in self._find_wrong_owners(snapshot).items()
        }
        wanted = {f"{topic}-{partition}": reference for (topic, partition), reference in self._owners.items()}
        return UnmetCondition(condition="owner", wanted=wanted, actual=actual)

    def explain_unmet(self, snapshot: GroupSnapshot) -> str:
        if snapshot.view is None:
            return ""
        parts = []
        for (topic, partition), owners in self._find_wrong_owners(snapshot).items():
            wanted = format_name(self._owners[topic, partition])
            whose = f"belongs to {format_list(owners)}" if owners else "has no owner"
            exists = partition < (snapshot.cluster.count_partitions(topic) or 0)
            where = f"{format_name(topic)}-{partition}"
            parts.append(
                f"{where} {whose}, {wanted} wanted" if exists else f"Partition {where} does not exist"
            )
        return "; ".join(parts[:_MAX_PARTS])

    def describe_met(self, snapshot: GroupSnapshot) -> str:
        owners = [
            f"{format_name(topic)}-{partition} {format_name(one)}'s"
            for (topic, partition), one in self._owners.items()
        ]
        return format_list(owners, _MAX_PARTS)

    def list_topics(self, snapshot: GroupSnapshot) -> frozenset[str]:
        return frozenset(topic for topic, _ in self._owners)


def _describe_start(
    snapshot: GroupSnapshot, topic: str, partition: int, offset: int | None, *, is_owned: bool
) -> str:
    """Return the end of a partition's log and the start of its owner's reading, such as `; its log ends at 50,
    ...`."""
    ends = snapshot.cluster.find_log_ends(topic, partition)
    if ends is None:
        return "; its log is not available"
    if offset is not None or not is_owned:
        return f"; its log ends at {ends.end}"
    return (
        f"; its log ends at {ends.end}, and its owner began without a commit: at {ends.start} with "
        f"auto.offset.reset=earliest, at the log end of that time with latest"
    )


class CommittedOffsetsCondition(BaseCondition):
    """The named partitions have committed offsets of at least the given values."""

    reads_offsets = True

    def __init__(self, offsets: Mapping[tuple[str, int], int]) -> None:
        self._offsets = offsets

    def _find_short(self, snapshot: GroupSnapshot) -> dict[tuple[str, int], int | None]:
        committed = snapshot.offsets or {}
        return {
            partition: committed.get(partition)
            for partition, least in self._offsets.items()
            if (found := committed.get(partition)) is None or found < least
        }

    def is_met(self, snapshot: GroupSnapshot) -> bool:
        return snapshot.offsets is not None and not self._find_short(snapshot)

    def describe_unmet(self, snapshot: GroupSnapshot) -> UnmetCondition:
        wanted = {f"{topic}-{partition}": least for (topic, partition), least in self._offsets.items()}
        actual = {
            f"{topic}-{partition}": offset
            for (topic, partition), offset in self._find_short(snapshot).items()
        }
        return UnmetCondition(condition="committed", wanted=wanted, actual=actual)

    def explain_unmet(self, snapshot: GroupSnapshot) -> str:
        if snapshot.unavailable is not None:
            return ""
        if snapshot.offsets is None:
            return _OFFSETS_UNKNOWN
        parts = []
        for (topic, partition), offset in list(self._find_short(snapshot).items())[:_MAX_PARTS]:
            where, least = f"{format_name(topic)}-{partition}", self._offsets[topic, partition]
            owners = [
                snapshot.labels.find_label(member.name)
                for member in snapshot.owners.get((topic, partition), [])
            ]
            whose = f" (its owner is {format_list(owners)})" if owners else " (it has no owner)"
            is_at = "has no commit" if offset is None else f"is committed at {offset}"
            start = _describe_start(snapshot, topic, partition, offset, is_owned=bool(owners))
            parts.append(f"{where} {is_at}, {least} wanted{whose}{start}")
        return "; ".join(parts)

    def describe_met(self, snapshot: GroupSnapshot) -> str:
        committed = snapshot.offsets or {}
        return "committed " + format_list(
            [f"{format_name(topic)}-{part}={committed[topic, part]}" for topic, part in self._offsets],
            _MAX_PARTS,
        )

    def list_topics(self, snapshot: GroupSnapshot) -> frozenset[str]:
        return frozenset(topic for topic, _ in self._offsets)


class MaxLagCondition(BaseCondition):
    """No partition of some topics has a larger lag than a limit.

    Without a commit the lag counts from the log start offset. The default topics are the subscriptions of the
    members. A group without subscriptions uses the topics with committed offsets.
    """

    reads_offsets = True

    def __init__(self, lag_max: int, topics: list[str] | None) -> None:
        self._lag_max = lag_max
        self._topics = topics

    def list_topics(self, snapshot: GroupSnapshot) -> frozenset[str]:
        if self._topics is not None:
            return frozenset(self._topics)
        return snapshot.subscribed or frozenset(topic for topic, _ in snapshot.offsets or {})

    def _compute_lags(self, snapshot: GroupSnapshot) -> dict[tuple[str, int], Lag]:
        topics = sorted(self.list_topics(snapshot))
        return {
            (topic, number): lag
            for topic in topics
            for number, lag in enumerate(snapshot.compute_lags(topic))
        }

    def _is_behind(self, lag: int | None) -> bool:
        return lag is None or lag > self._lag_max

    def _find_unknown_topics(self, snapshot: GroupSnapshot) -> list[str]:
        return [
            topic
            for topic in sorted(self.list_topics(snapshot))
            if snapshot.cluster.count_partitions(topic) is None
        ]

    def is_met(self, snapshot: GroupSnapshot) -> bool:
        if snapshot.offsets is None or not self.list_topics(snapshot) or self._find_unknown_topics(snapshot):
            return False
        return not any(
            self._is_behind(one.lag)
            for topic in self.list_topics(snapshot)
            for one in snapshot.compute_lags(topic)
        )

    def describe_unmet(self, snapshot: GroupSnapshot) -> UnmetCondition:
        lags = self._compute_lags(snapshot)
        behind = {
            f"{topic}-{number}": lag for (topic, number), (lag, _) in lags.items() if self._is_behind(lag)
        }
        actual: dict[str, object] = {
            "lag": dict(list(behind.items())[:MAX_LISTED]),
            "without_commit": _list_without_commit(lags)[:MAX_LISTED],
        }
        if unknown := self._find_unknown_topics(snapshot):
            actual["no_such_topic"] = unknown
        return UnmetCondition(condition="lag_max", wanted=self._lag_max, actual=actual)

    def explain_unmet(self, snapshot: GroupSnapshot) -> str:
        if snapshot.unavailable is not None:
            return ""
        if snapshot.offsets is None:
            return _OFFSETS_UNKNOWN
        if not self.list_topics(snapshot):
            return "It has no lag, because it has no subscriptions and no committed offsets"
        unknown = self._find_unknown_topics(snapshot)
        parts = [f"Topic {format_name(topic)} does not exist" for topic in unknown]
        for (topic, number), (lag, has_commit) in self._compute_lags(snapshot).items():
            if self._is_behind(lag) and len(parts) < _MAX_PARTS:
                where = f"{format_name(topic)}-{number}"
                owners = [
                    snapshot.labels.find_label(member.name)
                    for member in snapshot.owners.get((topic, number), [])
                ]
                whose = format_list(owners) if owners else "without an owner"
                counts = "" if has_commit else "; it has no commit and counts from its log start"
                lags = (
                    "has an unknown log end offset"
                    if lag is None
                    else f"lags {lag} behind, {self._lag_max} wanted"
                )
                parts.append(f"{where} ({whose}) {lags}{counts}")
        return "; ".join(parts)

    def describe_met(self, snapshot: GroupSnapshot) -> str:
        lags = self._compute_lags(snapshot)
        without = _list_without_commit(lags)
        note = (
            f" ({format_list(without, _MAX_PARTS)} without a commit, from the log start)" if without else ""
        )
        return f"lag at most {max((lag or 0 for lag, _ in lags.values()), default=0)}{note}"


def _format_similar(snapshot: GroupSnapshot, topic: str) -> str:
    similar = snapshot.cluster.find_similar_topics(topic)
    return f" (there is {format_list([format_name(one) for one in similar])})" if similar else ""


def _format_subscriptions(snapshot: GroupSnapshot) -> str:
    parts = [
        f"{snapshot.labels.find_label(member.name)}: "
        f"{format_list([format_name(one) for one in sorted(snapshot.subscriptions[member_id])], 5)}"
        for member_id, member in snapshot.by_id.items()
        if member_id in snapshot.subscriptions
    ]
    return format_list(parts, _MAX_PARTS)


def _list_without_commit(lags: Mapping[tuple[str, int], Lag]) -> list[str]:
    return [
        f"{format_name(topic)}-{number}"
        for (topic, number), (_, has_commit) in lags.items()
        if not has_commit
    ]
