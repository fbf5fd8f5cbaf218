"""The broker's assignors: range and uniform.

Source: Kafka's ConsumerGroupPartitionAssignor, RangeAssignor, UniformAssignor.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct

from coordinator.group.modern.java_order import (
    SMALLEST_TABLE,
    HashOrder,
    compute_capacity,
    compute_copy_capacity,
    mix_number,
    mix_string,
    mix_topic_id,
    ordered_partitions,
)

Partitions: TypeAlias = Mapping[bytes, tuple[int, ...]]
"""The partitions of a member by topic id. Topics and partitions keep the order of Kafka's record."""

Assignment: TypeAlias = dict[str, Partitions]
"""Partitions by member id; every member has an entry. An unchanged entry is the same object as before, so `!=`
finds the members that need a record. The order of an entry is the order of its record.
"""


class MemberSpec(Struct, frozen=True, kw_only=True):
    """The input of an assignor about one member. (Kafka's assignors also get its rack; none of them uses it.)

    `topic_ids`: its existing subscribed topics, in the order of `java_order.ordered_names` of their names.
    `subscribed`: the number of its subscribed names if some do not exist, because Kafka's sets have that size.
    `assigned`: its previous target in the order of its record; empty for a new member.
    """

    member_id: str
    topic_ids: Sequence[bytes]
    assigned: Partitions
    instance_id: str | None = None
    subscribed: int = 0

    def count_subscriptions(self) -> int:
        """Return the size of Kafka's set of its topics."""
        return max(self.subscribed, len(self.topic_ids))


class GroupSpec(Struct, frozen=True, kw_only=True):
    """The input of an assignor about a group.

    `members`: by member id, in the order of the group (`java_order.TimelineOrder`, then members new in this
    request). `is_homogeneous`: all members have the same subscription. `partitions`: partition counts by topic id.
    """

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool
    partitions: Mapping[bytes, int]

    def order_members(self) -> list[MemberSpec]:
        """Return the members in the order of Kafka's HashMap, in which assignors iterate them."""
        return [self.members[member_id] for member_id in HashOrder(mix_string, keys=self.members)]


Assignor: TypeAlias = Callable[[GroupSpec], Assignment]


def prefer_old_assignment(member: MemberSpec, partitions: Partitions) -> Partitions:
    """Return the old target of a member if it has the same partitions, else the new one."""
    old = member.assigned
    if old is partitions or old.keys() != partitions.keys():
        return partitions
    same = all(
        len(old[topic_id]) == len(new) and set(old[topic_id]) == set(new)
        for topic_id, new in partitions.items()
    )
    return old if same else partitions


def assign_range(group: GroupSpec) -> Assignment:
    """Assign each topic in ranges: its subscribers get equal shares of consecutive partitions."""
    members = sorted(group.members.values(), key=_find_sort_key)
    if not members:
        return {}
    assigned: dict[str, dict[bytes, tuple[int, ...]]] = {member.member_id: {} for member in members}
    for topic_id, subscribers in _group_subscribers(group, members).items():
        _divide_partitions(topic_id, group.partitions[topic_id], subscribers, assigned)
    return {
        member.member_id: prefer_old_assignment(
            member, _order_topics(group, member, members[0], assigned[member.member_id])
        )
        for member in members
    }


def _find_sort_key(member: MemberSpec) -> tuple[bool, bytes]:
    """Return a key that sorts member ids as Java sorts strings, by UTF-16 units."""
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")


def _group_subscribers(group: GroupSpec, members: list[MemberSpec]) -> dict[bytes, list[MemberSpec]]:
    if group.is_homogeneous:
        return dict.fromkeys(members[0].topic_ids, members)
    subscribers: dict[bytes, list[MemberSpec]] = {}
    for member in members:
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(member)
    return subscribers


def _divide_partitions(
    topic_id: bytes,
    partitions: int,
    subscribers: list[MemberSpec],
    assigned: dict[str, dict[bytes, tuple[int, ...]]],
) -> None:
    """Assign equal shares to the subscribers; the first ones get the remainder, one partition each."""
    share, more = divmod(partitions, len(subscribers))
    start = 0
    for member in subscribers[:partitions]:
        end = start + share + (more > 0)
        more -= 1
        assigned[member.member_id][topic_id] = tuple(range(start, end))
        start = end


def _order_topics(
    group: GroupSpec, member: MemberSpec, first: MemberSpec, assigned: dict[bytes, tuple[int, ...]]
) -> dict[bytes, tuple[int, ...]]:
    if len(assigned) < 2:
        return assigned
    if group.is_homogeneous:
        topic_ids, room = first.topic_ids, compute_capacity(len(first.topic_ids))
    else:
        topic_ids, room = member.topic_ids, compute_capacity(member.count_subscriptions())
    return {
        topic_id: assigned[topic_id]
        for topic_id in HashOrder(
            mix_topic_id, room, (topic_id for topic_id in topic_ids if topic_id in assigned)
        )
    }


def assign_uniformly(group: GroupSpec) -> Assignment:
    """Assign equal numbers of partitions to members, and keep owned ones. Ignores racks."""
    if not any(member.topic_ids for member in group.members.values()):
        return {member_id: prefer_old_assignment(member, {}) for member_id, member in group.members.items()}
    assigned = assign_homogeneous(group) if group.is_homogeneous else assign_heterogeneous(group)
    return {
        member_id: prefer_old_assignment(group.members[member_id], target)
        for member_id, target in assigned.items()
    }


class MutableAssignment:
    """The partitions of a member under assignment. Before the first change it is the old target, which is then
    copied, as in Kafka.

    Source: Kafka's `AssignorHelpers.deepCopyAssignment`, and the order of an `Assignment` that Kafka read from a
    record.
    """

    __slots__ = ("_changed", "_old", "_order")

    def __init__(self, old: Partitions) -> None:
        self._old = old
        self._order: HashOrder[bytes] | None = None
        self._changed: dict[bytes, HashOrder[int]] = {}

    def iterate_topics(self) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """Iterate over the old target in the order of Kafka's map and sets."""
        for topic_id in _order_old_topics(self._old):
            yield topic_id, self._old[topic_id]

    def add_partition(self, topic_id: bytes, partition: int, room: int) -> None:
        """Add a partition. `room` is the capacity of the set if the partition is the first of its topic."""
        order = self._copy()
        partitions = self._find_mutable_partitions(topic_id)
        order.insert_first(topic_id)
        if partitions is None:
            partitions = self._changed[topic_id] = HashOrder(mix_number, room)
        partitions.insert(partition)

    def remove_partition(self, topic_id: bytes, partition: int) -> None:
        """Remove a partition, and the topic with its last partition."""
        order = self._copy()
        partitions = self._find_mutable_partitions(topic_id)
        if partitions is not None:
            partitions.remove(partition)
            if not partitions:
                order.remove(topic_id)
                del self._changed[topic_id]

    def drop_topic(self, topic_id: bytes) -> None:
        """Remove all partitions of a topic."""
        self._copy().remove(topic_id)
        self._changed.pop(topic_id, None)

    def build(self) -> Partitions:
        """Return the current partitions; the same object as the old target if unchanged."""
        if self._order is None:
            return self._old
        return {topic_id: self._order_partitions(topic_id) for topic_id in self._order}

    def _copy(self) -> HashOrder[bytes]:
        if self._order is None:
            self._order = HashOrder(mix_topic_id, len(self._old), _order_old_topics(self._old))
        return self._order

    def _find_mutable_partitions(self, topic_id: bytes) -> HashOrder[int] | None:
        """Return a mutable set of the topic's partitions, None if the member has none."""
        found = self._changed.get(topic_id)
        if found is None and self._order is not None and topic_id in self._order:
            old = ordered_partitions(self._old[topic_id])
            found = self._changed[topic_id] = HashOrder(mix_number, compute_copy_capacity(len(old)), old)
        return found

    def _order_partitions(self, topic_id: bytes) -> tuple[int, ...]:
        changed = self._changed.get(topic_id)
        return ordered_partitions(self._old[topic_id]) if changed is None else tuple(changed)


def _order_old_topics(old: Partitions) -> HashOrder[bytes]:
    return HashOrder(mix_topic_id, keys=old)


FreePartitions: TypeAlias = deque[tuple[bytes, int]]


def assign_homogeneous(group: GroupSpec) -> dict[str, Partitions]:
    """Compute the targets of members with equal subscriptions.

    All members get the same number of partitions, give or take one. Members above their quota give partitions up in
    the order of members; members below it get the free ones in the same order.
    """
    members = group.order_members()
    topic_ids = _order_subscribed_topics(members[0])
    share, extras = divmod(sum(group.partitions[topic_id] for topic_id in topic_ids), len(members))
    free = _find_free_partitions(group, topic_ids)
    targets: dict[str, MutableAssignment] = {}
    unfilled: list[tuple[MutableAssignment, int]] = []
    for index, member in enumerate(members):
        target = targets[member.member_id] = MutableAssignment(member.assigned)
        extra = extras > 0
        lacking = _keep_quota(target, share + extra, topic_ids, free)
        # Later members may already have one more: they keep the extras as long as there are enough members.
        if lacking and extra and len(members) - index > extras:
            lacking, extra = lacking - 1, False
        extras -= extra
        if lacking:
            unfilled.append((target, lacking))
    for target, lacking in unfilled:
        for _ in range(min(lacking, len(free))):
            topic_id, partition = free.popleft()
            target.add_partition(topic_id, partition, SMALLEST_TABLE)
    return {member_id: target.build() for member_id, target in targets.items()}


def _order_subscribed_topics(member: MemberSpec) -> HashOrder[bytes]:
    return HashOrder(mix_topic_id, compute_copy_capacity(member.count_subscriptions()), member.topic_ids)


def _find_free_partitions(group: GroupSpec, topic_ids: HashOrder[bytes]) -> FreePartitions:
    """Return the partitions that are in no old target, by topic id."""
    taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in topic_ids}
    for member in group.members.values():
        for topic_id, partitions in member.assigned.items():
            if topic_id in taken:
                taken[topic_id].update(partitions)
    return deque(
        (topic_id, partition)
        for topic_id in topic_ids
        for partition in range(group.partitions[topic_id])
        if partition not in taken[topic_id]
    )


def _keep_quota(
    target: MutableAssignment, quota: int, topic_ids: HashOrder[bytes], free: FreePartitions
) -> int:
    """Keep the partitions of a member's old target up to its quota and append the rest to `free`.

    Returns:
        The number of partitions that the member lacks to its quota.
    """
    for topic_id, partitions in target.iterate_topics():
        if topic_id not in topic_ids:
            target.drop_topic(topic_id)
        elif len(partitions) <= quota:
            quota -= len(partitions)
        else:
            for partition in ordered_partitions(partitions)[quota:]:
                target.remove_partition(topic_id, partition)
                free.append((topic_id, partition))
            quota = 0
    return quota


NO_OWNER: Final = -1
_MAX_ROUNDS: Final = 16


def assign_heterogeneous(group: GroupSpec) -> dict[str, Partitions]:
    """Compute the targets of members with different subscriptions: keep old targets where possible, assign free
    partitions to the least loaded member, then move partitions from the most loaded members.
    """
    balancing = _HeterogeneousBalancer(group)
    balancing.keep_old_targets()
    balancing.assign_unowned()
    balancing.balance_load()
    return balancing.result()


class _HeterogeneousBalancer:
    """The owner of each partition by topic, and how many partitions each member has."""

    def __init__(self, group: GroupSpec) -> None:
        self._members = group.order_members()
        self._partitions = group.partitions
        self._subscribers: dict[bytes, list[int]] = {}
        for number, member in enumerate(self._members):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)
        self._owners = {topic_id: [NO_OWNER] * group.partitions[topic_id] for topic_id in self._subscribers}
        self._sizes = [0] * len(self._members)
        self._targets = [MutableAssignment(member.assigned) for member in self._members]

    def keep_old_targets(self) -> None:
        """Keep the partitions of old targets in topics that the member still subscribes to."""
        for number, member in enumerate(self._members):
            subscribed = frozenset(member.topic_ids)
            for topic_id, partitions in member.assigned.items():
                if topic_id not in subscribed:
                    self._targets[number].drop_topic(topic_id)
                    continue
                self._sizes[number] += len(partitions)
                owners = self._owners[topic_id]
                for partition in partitions:
                    owners[partition] = number

    def assign_unowned(self) -> None:
        """Assign the partitions without an owner to the least loaded subscribers, topic by topic."""
        unowned = {
            topic_id: [partition for partition, owner in enumerate(owners) if owner == NO_OWNER]
            for topic_id, owners in self._owners.items()
        }
        for topic_id in self._busiest_first(
            topic_id for topic_id, partitions in unowned.items() if partitions
        ):
            ranges = LoadRanges(self._sizes, self._subscribers[topic_id])
            for partition in unowned[topic_id]:
                self._move_partition(topic_id, partition, ranges.next_least_loaded())

    def balance_load(self) -> None:
        """Move partitions, topic by topic, until no topic changes or the limit of rounds is reached."""
        topics = self._busiest_first(
            topic_id for topic_id, subscribers in self._subscribers.items() if len(subscribers) > 1
        )
        since_a_move = 0
        for _ in range(_MAX_ROUNDS):
            for topic_id in topics:
                since_a_move = 1 if self._balance_topic(topic_id) else since_a_move + 1
                if since_a_move >= len(topics):
                    return

    def result(self) -> dict[str, Partitions]:
        """Return the partitions by member id."""
        return {
            member.member_id: target.build()
            for member, target in zip(self._members, self._targets, strict=True)
        }

    def _busiest_first(self, topic_ids: Iterable[bytes]) -> list[bytes]:
        """Sort topics by partitions for each subscriber (most first), then by number of subscribers, then by id."""

        def sort_key(topic_id: bytes) -> tuple[float, int, int, int]:
            subscribers = len(self._subscribers[topic_id])
            upper, lower = (int.from_bytes(half, signed=True) for half in (topic_id[:8], topic_id[8:]))
            return -self._partitions[topic_id] / subscribers, subscribers, upper, lower

        return sorted(topic_ids, key=sort_key)

    def _balance_topic(self, topic_id: bytes) -> bool:
        """Move partitions of a topic from the most to the least loaded subscribers; return whether any moved."""
        subscribers = self._subscribers[topic_id]
        loads = [self._sizes[number] for number in subscribers]
        if max(loads) - min(loads) <= 1:
            return False
        ranges = LoadRanges(self._sizes, subscribers)
        movable: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            movable.setdefault(owner, []).append(partition)
        moved = False
        while not ranges.are_even():
            giver = ranges.next_most_loaded()
            while giver is not None and not movable.get(giver):
                ranges.pass_over_most_loaded()
                giver = ranges.next_most_loaded()
            if giver is None:
                break
            partition, taker = movable[giver].pop(), ranges.next_least_loaded()
            if ranges.are_even():
                break
            self._move_partition(topic_id, partition, taker)
            moved = True
        return moved

    def _move_partition(self, topic_id: bytes, partition: int, taker: int) -> None:
        owners = self._owners[topic_id]
        owner = owners[partition]
        if owner != NO_OWNER:
            self._targets[owner].remove_partition(topic_id, partition)
            self._sizes[owner] -= 1
        expected = -(-self._partitions[topic_id] // len(self._subscribers[topic_id]))
        self._targets[taker].add_partition(topic_id, partition, compute_capacity(expected))
        self._sizes[taker] += 1
        owners[partition] = taker


class LoadRanges:
    """Members sorted by load, with a range at each end: the members with the smallest load and those with the
    largest.

    Each member of a range gets (or gives) one partition. Then the load of the range is one more (or less), and
    members with exactly that load join it. Loads are read when a range reaches a member: before that, no partition
    of this topic has moved to or from it.

    Args:
        sizes: numbers of partitions by member number.
        members: member numbers, at least one.
    """

    __slots__ = (
        "_least_end",
        "_least_load",
        "_members",
        "_most_end",
        "_most_load",
        "_most_start",
        "_next_least",
        "_next_most",
        "_sizes",
    )

    def __init__(self, sizes: Sequence[int], members: Iterable[int]) -> None:
        self._sizes = sizes
        self._members = sorted(members, key=lambda number: (sizes[number], number))
        self._least_end = self._next_least = 0
        self._least_load = sizes[self._members[0]] - 1
        self._most_start = self._most_end = len(self._members)
        self._next_most = self._most_end - 1
        self._most_load = sizes[self._members[-1]] + 1

    def next_least_loaded(self) -> int:
        """Return the number of the member that gets the next partition."""
        if self._next_least >= self._least_end:
            self._least_load += 1
            while self._least_end < len(self._members) and self._load_at(self._least_end) == self._least_load:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._members[self._next_least - 1]

    def next_most_loaded(self) -> int | None:
        """Return the number of the member that gives the next partition; None if all are passed over."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_load = self._load_at(self._most_start - 1)
            else:
                self._most_load -= 1
            while self._most_start > 0 and self._load_at(self._most_start - 1) == self._most_load:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._members[self._next_most + 1]

    def pass_over_most_loaded(self) -> None:
        """Remove the last returned member from its range: it has no partition to give."""
        last, members = self._most_end - 1, self._members
        here = self._next_most + 1
        members[here], members[last] = members[last], members[here]
        self._most_end = last

    def are_even(self) -> bool:
        """Return whether the loads of both ranges differ by at most one."""
        return self._most_load - self._least_load <= 1

    def _load_at(self, place: int) -> int:
        return self._sizes[self._members[place]]


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_range}
)
"""In the order of Kafka's `group.consumer.assignors`; the first one is the default."""
