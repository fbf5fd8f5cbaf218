"""Conditions on who has which partition: in the assignment that holds, and that all have fetched."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from coordinator.control.waits.condition import BaseCondition, Unmet
from coordinator.control.waits.labels import goes_by, named, partition_names, ranges, some
from coordinator.control.waits.sight import GroupSight

MOST_LISTED = 1_000
"""Partitions in a list of an answer."""
_MOST_SAID = 5


class Owned(BaseCondition):
    """Every partition of some topics, as they are now, has exactly one owner."""

    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def _named(self, partitions_of: Callable[[str], Sequence[int]]) -> list[str]:
        names = (name for topic in self._topics for name in partition_names(topic, partitions_of(topic)))
        return list(islice(names, MOST_LISTED))

    def holds(self, sight: GroupSight) -> bool:
        """See `Condition`."""
        return sight.is_settled and all(
            sight.around.partitions_of(topic) is not None
            and not sight.unowned(topic)
            and not sight.owned_twice(topic)
            for topic in self._topics
        )

    def unmet(self, sight: GroupSight) -> Unmet:
        """See `Condition`."""
        is_: dict[str, object] = {"unowned": self._named(sight.unowned)}
        if twice := self._named(sight.owned_twice):
            is_["owned_twice"] = twice
        unknown = [topic for topic in self._topics if sight.around.partitions_of(topic) is None]
        if unknown:
            is_["no_such_topic"] = unknown
        if not sight.is_settled:
            is_["rebalancing"] = sight.view is not None and sight.view.rebalance is not None
        return Unmet(condition="owned", wanted=self._topics, is_=is_)

    def why(self, sight: GroupSight) -> str:
        """See `Condition`."""
        if sight.unavailable is not None:
            return ""
        return "; ".join(filter(None, [self._why(sight, topic) for topic in self._topics[:_MOST_SAID]]))

    def _why(self, sight: GroupSight, topic: str) -> str:
        if sight.around.partitions_of(topic) is None:
            return f"There is no topic {named(topic)}{_similar(sight, topic)}"
        if sight.members and sight.are_consumers and topic not in sight.subscribed:
            return f"Nobody is subscribed to {named(topic)} ({_subscriptions(sight)})"
        if sight.is_stable and not sight.are_assignments_read:
            return "Its assignments cannot be read: they are not those of the consumer protocol"
        said = []
        unowned = sight.unowned(topic)
        if unowned and sight.view is not None:
            until = " until then" if sight.view.rebalance is not None and not sight.is_stable else ""
            said.append(f"{ranges(topic, unowned)} {'has' if len(unowned) == 1 else 'have'} no owner{until}")
        for partition in sight.owned_twice(topic)[:_MOST_SAID]:
            owners = sight.labels.all(member.name for member in sight.owners[topic, partition])
            said.append(f"{named(topic)}-{partition} was assigned to several members: {owners}")
        return "; ".join(said)

    def achieved(self, sight: GroupSight) -> str:
        """See `Condition`."""
        counts = [(topic, sight.around.partitions_of(topic) or 0) for topic in self._topics]
        return ", ".join(f"{count} of {count} partitions of {named(topic)} owned" for topic, count in counts)

    def topics(self, sight: GroupSight) -> frozenset[str]:
        """See `Condition`."""
        return frozenset(self._topics)


class OwnedBy(BaseCondition):
    """Partitions have these owners."""

    def __init__(self, owners: Mapping[tuple[str, int], str]) -> None:
        self._owners = owners

    def _wrong(self, sight: GroupSight) -> dict[tuple[str, int], list[str]]:
        """The partitions that somebody else has, or nobody, or several: what those are called."""
        wrong = {}
        for partition, reference in self._owners.items():
            owners = sight.owners.get(partition, [])
            if len(owners) != 1 or not goes_by(owners[0].name, reference):
                wrong[partition] = [sight.labels.of(owner.name) for owner in owners]
        return wrong

    def holds(self, sight: GroupSight) -> bool:
        """See `Condition`."""
        return sight.is_settled and not self._wrong(sight)

    def unmet(self, sight: GroupSight) -> Unmet:
        """See `Condition`."""
        is_ = {
            f"{topic}-{partition}": owners[0] if len(owners) == 1 else owners or None
            for (topic, partition), owners in self._wrong(sight).items()
        }
        wanted = {f"{topic}-{partition}": reference for (topic, partition), reference in self._owners.items()}
        return Unmet(condition="owner", wanted=wanted, is_=is_)

    def why(self, sight: GroupSight) -> str:
        """See `Condition`."""
        if sight.view is None:
            return ""
        said = []
        for (topic, partition), owners in self._wrong(sight).items():
            wanted = named(self._owners[topic, partition])
            whose = f"belongs to {some(owners)}" if owners else "has no owner"
            exists = partition < (sight.around.partitions_of(topic) or 0)
            where = f"{named(topic)}-{partition}"
            said.append(f"{where} {whose}, {wanted} wanted" if exists else f"There is no partition {where}")
        return "; ".join(said[:_MOST_SAID])

    def achieved(self, sight: GroupSight) -> str:
        """See `Condition`."""
        owners = [
            f"{named(topic)}-{partition} {named(one)}'s" for (topic, partition), one in self._owners.items()
        ]
        return some(owners, _MOST_SAID)

    def topics(self, sight: GroupSight) -> frozenset[str]:
        """See `Condition`."""
        return frozenset(topic for topic, _ in self._owners)


def _similar(sight: GroupSight, topic: str) -> str:
    similar = sight.around.similar_topics(topic)
    return f" (there is {some([named(one) for one in similar])})" if similar else ""


def _subscriptions(sight: GroupSight) -> str:
    said = [
        f"{sight.labels.of(member.name)}: {some([named(one) for one in sorted(sight.subscriptions[member_id])], 5)}"
        for member_id, member in sight.by_id.items()
        if member_id in sight.subscriptions
    ]
    return some(said, _MOST_SAID)
