"""Target assignments: when one is computed, its input and its result, and requests that wait for it.

A small one is computed in the call. For a larger one the call ends in `TargetNotReady`: nothing was written,
and the same request is processed again from the start when the result is there.

Source: Kafka's GroupMetadataManager, maybeUpdateTargetAssignment, and `TargetAssignmentBuilder`.
"""

from typing import Any, Final, NamedTuple

from msgspec import Struct

from coordinator.core.outcome import Context
from coordinator.group.consumer.consumer_member import ConsumerMember, TargetPartitions
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup
from coordinator.group.modern.java_order import is_table_fixed, ordered_names
from coordinator.group.modern.partition_assignors import ASSIGNORS, Assignment, GroupSpec, MemberSpec
from coordinator.group.topics_image import TopicsImage

TARGET_WORK: Final = "consumer group target"
INLINE_MAX: Final = 20_000
"""Members times partitions up to which a target is computed in the call: some milliseconds."""


class TargetWork(NamedTuple):
    """The computation of a target, as work."""

    group_id: str
    assignor: str
    spec: GroupSpec


class ComputedTarget(NamedTuple):
    """The result of a TargetWork; `error` says why there is none."""

    work: TargetWork
    assignment: Assignment | None
    error: str | None = None

    def matches_work(self, work: TargetWork) -> bool:
        """Whether it is what this work would come to: the group is still as it was, the order of members
        included."""
        mine = self.work
        return (
            mine.assignor == work.assignor
            and mine.spec == work.spec
            and list(mine.spec.members) == list(work.spec.members)
        )


class TargetNotReady(Exception):
    """The request needs a target that is computed elsewhere."""

    def __init__(self, work: TargetWork) -> None:
        super().__init__(work.group_id)
        self.work = work


class PendingTarget(Struct):
    """A target that is being computed. The first `parked` request needs it; the others came later."""

    work: TargetWork
    parked: list[tuple[Any, Context]]


class MemberChange(Struct, frozen=True):
    """The member that a request is about: as the group knows it (`old`, None: it is new), and as it is to be. A
    static member that takes the place of one with another id has that as `replaced`."""

    old: ConsumerMember | None
    new: ConsumerMember
    replaced: str | None = None


def is_computation_due(timestamp_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether the next target may be computed now: at most one an interval."""
    return timestamp_ms == 0 or interval_ms == 0 or now_ms >= timestamp_ms + interval_ms


def build_group_spec(
    group: DurableConsumerGroup, change: MemberChange, is_homogeneous: bool, image: TopicsImage
) -> GroupSpec:
    """What an assignor has to know: the members of the group, of which one is changed, in Kafka's order; a new one
    comes last."""
    new = change.new
    partitions: dict[bytes, int] = {}
    topic_ids: dict[tuple[frozenset[str], str], tuple[bytes, ...]] = {}

    def build_member_spec(member: ConsumerMember, target_id: str) -> MemberSpec:
        subscribed = (member.subscribed_topic_names, member.subscribed_topic_regex)
        ids = topic_ids.get(subscribed)
        if ids is None:
            topics = [image.by_name[name] for name in _order_subscribed_names(group, member, image)]
            ids = topic_ids[subscribed] = tuple(topic.topic_id for topic in topics)
            partitions.update((topic.topic_id, topic.partitions) for topic in topics)
        return MemberSpec(
            member_id=member.member_id,
            instance_id=member.instance_id,
            topic_ids=ids,
            subscribed=len(find_subscribed_names(group, member)),
            assigned=group.find_target(target_id),
        )

    members: dict[str, MemberSpec] = {}
    for member_id in group.order:
        if member_id == new.member_id:
            members[member_id] = build_member_spec(new, change.replaced or member_id)
        elif member_id != change.replaced:
            members[member_id] = build_member_spec(group.members[member_id], member_id)
    if new.member_id not in members:
        members[new.member_id] = build_member_spec(new, change.replaced or new.member_id)
    return GroupSpec(members=members, is_homogeneous=is_homogeneous, partitions=partitions)


def _order_subscribed_names(
    group: DurableConsumerGroup, member: ConsumerMember, image: TopicsImage
) -> tuple[str, ...]:
    """The names of the subscribed topics that exist, in the order in which Kafka goes through them."""
    by_name = _order_existing_names(member.subscribed_topic_names, image)
    resolved = group.regexes.get(member.subscribed_topic_regex) if member.subscribed_topic_regex else None
    if resolved is None:
        return by_name
    matched = _order_existing_names(resolved.topics, image)
    return (*by_name, *(name for name in matched if name not in member.subscribed_topic_names))


def _order_existing_names(names: frozenset[str], image: TopicsImage) -> tuple[str, ...]:
    """Order the names of a record, which has them sorted. Of thousands of names few may be topics."""
    relevant = image.find_existing(names) if is_table_fixed(len(names)) else names
    return ordered_names(sorted(relevant), image.by_name, len(names))


def find_subscribed_names(group: DurableConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    """The topics that a member reads, by its own words and by its expression, as far as that was resolved."""
    resolved = group.regexes.get(member.subscribed_topic_regex) if member.subscribed_topic_regex else None
    return (
        member.subscribed_topic_names if resolved is None else member.subscribed_topic_names | resolved.topics
    )


def is_small(spec: GroupSpec) -> bool:
    """Whether the target is computed at once."""
    return len(spec.members) * sum(spec.partitions.values()) <= INLINE_MAX


def compute_target(work: TargetWork) -> Assignment:
    """Do a TargetWork; pure, and may take a second."""
    return ASSIGNORS[work.assignor](work.spec)


def count_moved_partitions(target: TargetPartitions, before: TargetPartitions) -> int:
    """How many partitions a target has that the one before had not."""
    return sum(
        len(set(partitions).difference(before.get(topic_id, ()))) for topic_id, partitions in target.items()
    )
