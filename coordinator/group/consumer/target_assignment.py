"""Who is to have what: when a target is computed, and what goes into that and comes out.

Small ones are computed in the call. For larger ones the call ends in `AwaitsTarget`: nothing was written, and
the same request is looked at again, from the start, when the result is there.

Source: Kafka's GroupMetadataManager, maybeUpdateTargetAssignment, and `TargetAssignmentBuilder`.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.member import ConsumerMember, Target
from coordinator.group.modern.assignors import ASSIGNORS
from coordinator.group.modern.assignors.assignor import Assignment, GroupSpec, MemberSpec
from coordinator.group.modern.java_order import ordered_names
from coordinator.group.topics_image import TopicsImage

TARGET_WORK: Final = "consumer group target"
INLINE_MAX: Final = 20_000
"""Members times partitions up to which a target is computed in the call: some milliseconds."""


class TargetWork(NamedTuple):
    """The computation of a target, as work."""

    group_id: str
    assignor: str
    spec: GroupSpec


class Computed(NamedTuple):
    """What came of it; `error` says why there is none."""

    work: TargetWork
    assignment: Assignment | None
    error: str | None = None

    def is_for(self, work: TargetWork) -> bool:
        """Whether it is what this work would come to: the group is still as it was, the order of members
        included."""
        mine = self.work
        return (
            mine.assignor == work.assignor
            and mine.spec == work.spec
            and list(mine.spec.members) == list(work.spec.members)
        )


class AwaitsTarget(Exception):
    """The request needs a target that is computed elsewhere."""

    def __init__(self, work: TargetWork) -> None:
        super().__init__(work.group_id)
        self.work = work


def compute_target(work: TargetWork) -> Assignment:
    """What whoever does the work has to call; pure, and may take a second."""
    return ASSIGNORS[work.assignor](work.spec)


def may_compute(timestamp_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether the next target may be computed now: at most one an interval."""
    return timestamp_ms == 0 or interval_ms == 0 or now_ms >= timestamp_ms + interval_ms


@dataclass(frozen=True, slots=True)
class Change:
    """The member that a request is about: as the group knows it (`old`, None: it is new), and as it is to be. A
    static member that takes the place of one with another id has that as `replaced`."""

    old: ConsumerMember | None
    new: ConsumerMember
    replaced: str | None = None


def group_spec(
    group: DurableConsumerGroup, change: Change, is_homogeneous: bool, image: TopicsImage
) -> GroupSpec:
    """What an assignor has to know: the members of the group, of which one is changed, in Kafka's order; a new one
    comes last."""
    new = change.new
    partitions: dict[bytes, int] = {}
    topic_ids: dict[tuple[frozenset[str], str], tuple[bytes, ...]] = {}

    def spec_of(member: ConsumerMember, target_id: str) -> MemberSpec:
        subscribed = (member.subscribed_topic_names, member.subscribed_topic_regex)
        ids = topic_ids.get(subscribed)
        if ids is None:
            topics = [image.by_name[name] for name in _in_order(group, member, image)]
            ids = topic_ids[subscribed] = tuple(topic.topic_id for topic in topics)
            partitions.update((topic.topic_id, topic.partitions) for topic in topics)
        return MemberSpec(
            member_id=member.member_id,
            instance_id=member.instance_id,
            topic_ids=ids,
            subscribed=len(subscribed_names(group, member)),
            assigned=group.target_of(target_id),
        )

    members: dict[str, MemberSpec] = {}
    for member_id in group.order:
        if member_id == new.member_id:
            members[member_id] = spec_of(new, change.replaced or member_id)
        elif member_id != change.replaced:
            members[member_id] = spec_of(group.members[member_id], member_id)
    if new.member_id not in members:
        members[new.member_id] = spec_of(new, change.replaced or new.member_id)
    return GroupSpec(members=members, is_homogeneous=is_homogeneous, partitions=partitions)


def subscribed_names(group: DurableConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    """The topics that a member reads, by its own words and by its expression, as far as that was resolved."""
    resolved = group.regexes.get(member.subscribed_topic_regex) if member.subscribed_topic_regex else None
    return (
        member.subscribed_topic_names if resolved is None else member.subscribed_topic_names | resolved.topics
    )


def _in_order(group: DurableConsumerGroup, member: ConsumerMember, image: TopicsImage) -> tuple[str, ...]:
    """Those that are there, in the order in which Kafka goes through them."""
    by_name = ordered_names(sorted(member.subscribed_topic_names), image.by_name)
    resolved = group.regexes.get(member.subscribed_topic_regex) if member.subscribed_topic_regex else None
    if resolved is None:
        return by_name
    matched = ordered_names(sorted(resolved.topics), image.by_name)
    return (*by_name, *(name for name in matched if name not in member.subscribed_topic_names))


def is_small(spec: GroupSpec) -> bool:
    """Whether the target is computed at once."""
    return len(spec.members) * sum(spec.partitions.values()) <= INLINE_MAX


def moved_partitions(target: Target, before: Target) -> int:
    """How many partitions a target has that the one before had not."""
    return sum(
        len(set(partitions).difference(before.get(topic_id, ()))) for topic_id, partitions in target.items()
    )
