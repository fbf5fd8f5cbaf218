"""Target assignments: their computation, its input and result, and the requests that wait for it.

A small target is computed in the call. For a larger one the call raises `TargetNotReady` and writes nothing. When
the result arrives, the same request is processed again from the start. If the members name many topics, the thread
that computes the target also puts the topics of each member in order.

Source: Kafka's GroupMetadataManager, maybeUpdateTargetAssignment, and `TargetAssignmentBuilder`.
"""

from collections.abc import Mapping
from itertools import chain, compress
from typing import Any, Final, NamedTuple

from msgspec import Struct

from coordinator.core.outcome import Context
from coordinator.group.consumer.consumer_member import ConsumerMember, TargetPartitions
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup
from coordinator.group.modern.java_order import (
    compute_copy_capacity,
    compute_slots,
    is_table_fixed,
    ordered_names,
)
from coordinator.group.modern.partition_assignors import ASSIGNORS, Assignment, GroupSpec, MemberSpec
from coordinator.group.topics_image import MOST_OF_IMAGE, TopicsImage

TARGET_WORK: Final = "consumer group target"
INLINE_MAX: Final = 20_000
"""Members times partitions up to which a target is computed in the call: some milliseconds."""


MAX_INLINE_NAMES: Final = 10_000
"""Topic names in all different subscriptions up to which the call puts them in order: some milliseconds."""


class MemberInput(Struct, frozen=True, kw_only=True):
    """The subscription of a member, and its previous target as in `MemberSpec`."""

    member_id: str
    names: frozenset[str]
    resolved: frozenset[str] | None
    """The topics of its expression; None without a resolved one."""
    assigned: TargetPartitions
    instance_id: str | None = None

    def count_subscriptions(self) -> int:
        """Return the number of topics that it subscribes to, by name or by its expression."""
        return len(self.names if self.resolved is None else self.names | self.resolved)

    def equals(self, other: "MemberInput") -> bool:
        """Return whether two members are equal; sets of thousands of names mostly are the same objects."""
        return (
            self.instance_id == other.instance_id
            and (self.names is other.names or self.names == other.names)
            and (self.resolved is other.resolved or self.resolved == other.resolved)
            and (self.assigned is other.assigned or self.assigned == other.assigned)
        )


class TargetInput(Struct, frozen=True, kw_only=True):
    """The input of a target, before the topics of the members are in order. Immutable, so any thread may read it.

    `members`: by member id, in the order of the group, then members new in this request. `is_homogeneous`: all
    members have the same subscription.
    """

    members: Mapping[str, MemberInput]
    is_homogeneous: bool
    topics: TopicsImage

    def count_names(self) -> int:
        """Return the number of topic names in all different subscriptions."""
        return sum(len(names) + len(resolved or ()) for names, resolved in self._list_subscriptions())

    def _list_subscriptions(self) -> set[tuple[frozenset[str], frozenset[str] | None]]:
        """Return the different subscriptions of the members."""
        return {(member.names, member.resolved) for member in self.members.values()}

    def equals(self, other: "TargetInput") -> bool:
        """Return whether both give the same `GroupSpec`. Topics without a subscription do not count."""
        return (
            self.is_homogeneous == other.is_homogeneous
            and list(self.members) == list(other.members)
            and all(member.equals(other.members[member_id]) for member_id, member in self.members.items())
            and not self._has_changed_topic(other.topics)
        )

    def _has_changed_topic(self, topics: TopicsImage) -> bool:
        if topics is self.topics:
            return False
        changed = set(self.topics.find_changed(topics))
        return not all(
            changed.isdisjoint(names) and changed.isdisjoint(resolved or ())
            for names, resolved in self._list_subscriptions()
        )


class TargetWork(NamedTuple):
    """The work of computing a target. It has a `TargetInput` if the members name many topics."""

    group_id: str
    assignor: str
    spec: GroupSpec | TargetInput


class ComputedTarget(NamedTuple):
    """The result of a TargetWork. Without an assignment, `error` has the reason."""

    work: TargetWork
    assignment: Assignment | None
    error: str | None = None

    def matches_work(self, work: TargetWork) -> bool:
        """Return whether this is also the result of `work`: the group is unchanged, including the order of
        members.
        """
        mine = self.work
        if mine.assignor != work.assignor:
            return False
        if isinstance(mine.spec, TargetInput) or isinstance(work.spec, TargetInput):
            return (
                isinstance(mine.spec, TargetInput)
                and isinstance(work.spec, TargetInput)
                and mine.spec.equals(work.spec)
            )
        return mine.spec == work.spec and list(mine.spec.members) == list(work.spec.members)


class TargetNotReady(Exception):
    """Raised if a request needs a target that must be computed outside the call."""

    def __init__(self, work: TargetWork) -> None:
        super().__init__(work.group_id)
        self.work = work


class PendingTarget(Struct):
    """A target that is being computed. The first request of `parked` needs it; later requests of the group wait
    behind it."""

    work: TargetWork
    parked: list[tuple[Any, Context]]


class MemberChange(Struct, frozen=True):
    """The member of a request, before (`old`, None for a new member) and after it (`new`). `replaced` is the id of
    a static member that it replaces, if the ids differ.
    """

    old: ConsumerMember | None
    new: ConsumerMember
    replaced: str | None = None


def is_computation_due(timestamp_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Return whether the next target may be computed now: at most one in an interval."""
    return timestamp_ms == 0 or interval_ms == 0 or now_ms >= timestamp_ms + interval_ms


def collect_target_input(
    group: DurableConsumerGroup, change: MemberChange, is_homogeneous: bool, image: TopicsImage
) -> TargetInput:
    """Collect the members of a group with one changed, in Kafka's order; a new member comes last."""
    new = change.new

    def build_member(member: ConsumerMember, target_id: str) -> MemberInput:
        regex = member.subscribed_topic_regex
        resolved = group.regexes.get(regex) if regex else None
        return MemberInput(
            member_id=member.member_id,
            names=member.subscribed_topic_names,
            resolved=None if resolved is None else resolved.topics,
            assigned=group.find_target(target_id),
            instance_id=member.instance_id,
        )

    members: dict[str, MemberInput] = {}
    for member_id in group.order:
        if member_id == new.member_id:
            members[member_id] = build_member(new, change.replaced or member_id)
        elif member_id != change.replaced:
            members[member_id] = build_member(group.members[member_id], member_id)
    if new.member_id not in members:
        members[new.member_id] = build_member(new, change.replaced or new.member_id)
    return TargetInput(members=members, is_homogeneous=is_homogeneous, topics=image)


def build_small_spec(target_input: TargetInput) -> GroupSpec | TargetInput:
    """Build the input of an assignor if the members name few topics; otherwise return the input unchanged."""
    return target_input if target_input.count_names() > MAX_INLINE_NAMES else build_group_spec(target_input)


def build_group_spec(target_input: TargetInput) -> GroupSpec:
    """Build the input of an assignor: put the topics of each member in order. Pure; may take a second."""
    image = target_input.topics
    topic_ids: dict[tuple[frozenset[str], frozenset[str] | None], tuple[bytes, ...]] = {}
    members: dict[str, MemberSpec] = {}
    for member_id, member in target_input.members.items():
        subscribed = (member.names, member.resolved)
        ids = topic_ids.get(subscribed)
        if ids is None:
            ids = topic_ids[subscribed] = _order_subscribed_topics(*subscribed, image)
        members[member_id] = MemberSpec(
            member_id=member_id,
            instance_id=member.instance_id,
            topic_ids=ids,
            subscribed=member.count_subscriptions(),
            assigned=member.assigned,
        )
    by_id = image.by_id
    partitions = {
        topic_id: by_id[topic_id].partitions
        for topic_id in dict.fromkeys(chain.from_iterable(topic_ids.values()))
    }
    return GroupSpec(members=members, is_homogeneous=target_input.is_homogeneous, partitions=partitions)


def _order_subscribed_topics(
    names: frozenset[str], resolved: frozenset[str] | None, image: TopicsImage
) -> tuple[bytes, ...]:
    """Return the ids of the existing subscribed topics, in the order in which Kafka iterates over them."""
    named = _order_existing_topics(names, names, image)
    if resolved is None:
        return named
    return named + _order_existing_topics(resolved, resolved - names, image)


def _order_existing_topics(
    names: frozenset[str], chosen: frozenset[str], image: TopicsImage
) -> tuple[bytes, ...]:
    """Return the ids of `chosen` topics, in the order of all `names`; a record has names sorted.

    Of thousands of names, few may exist. If many exist, they are selected from the order of all topics, which the
    image caches.
    """
    by_name = image.by_name
    if not is_table_fixed(len(names)):
        ordered = ordered_names(sorted(names), by_name)
        return tuple(by_name[name].topic_id for name in ordered if name in chosen)
    if len(by_name) <= len(names) * MOST_OF_IMAGE:
        in_slots = image.order_by_slot(compute_slots(compute_copy_capacity(len(names))))
        return tuple(compress(in_slots.topic_ids, map(chosen.__contains__, in_slots.names)))
    existing = ordered_names(sorted(image.find_existing(chosen)), by_name, len(names))
    return tuple(by_name[name].topic_id for name in existing)


def find_subscribed_names(group: DurableConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    """Return the topics that a member subscribes to by name and by its resolved expression."""
    resolved = group.regexes.get(member.subscribed_topic_regex) if member.subscribed_topic_regex else None
    return (
        member.subscribed_topic_names if resolved is None else member.subscribed_topic_names | resolved.topics
    )


def is_small(spec: GroupSpec) -> bool:
    """Return whether the target is computed in the call."""
    return len(spec.members) * sum(spec.partitions.values()) <= INLINE_MAX


def compute_target(work: TargetWork) -> Assignment:
    """Compute a target. Pure; may take a second."""
    spec = work.spec
    return ASSIGNORS[work.assignor](build_group_spec(spec) if isinstance(spec, TargetInput) else spec)


def count_moved_partitions(target: TargetPartitions, before: TargetPartitions) -> int:
    """Return the number of partitions in a target that the previous one did not have."""
    moved = 0
    for topic_id, partitions in target.items():
        old = before.get(topic_id)
        if old is None:
            moved += len(partitions)
        elif old != partitions:
            moved += len(set(partitions).difference(old))
    return moved
