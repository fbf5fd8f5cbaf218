"""The broker's assignors: range and uniform. Source: Kafka's ConsumerGroupPartitionAssignor, RangeAssignor,
UniformAssignor.
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
"""The partitions of a member by topic id. Topics, and those of each topic, are in the order of Kafka's record."""

Assignment: TypeAlias = dict[str, Partitions]
"""By member id; every member has an entry. That of a member with the same partitions as before is its old one, so
`!=` tells for whom a record is to be written, and the order of an entry is the order of that record."""


class MemberSpec(Struct, frozen=True, kw_only=True):
    """A member as an assignor sees it. (Kafka's assignors are told its rack too; none of them looks at it.)

    `topic_ids`: of the topics it subscribes to that exist, in the order of `java_order.ordered_names` of their
    names.
    `subscribed`: to how many names it subscribes, when some of them do not exist: Kafka's sets are that large.
    `assigned`: its old target as its record has it, order included; nothing for a new member.
    """

    member_id: str
    topic_ids: Sequence[bytes]
    assigned: Partitions
    instance_id: str | None = None
    subscribed: int = 0

    def count_subscriptions(self) -> int:
        """How many topics Kafka's set of them has."""
        return max(self.subscribed, len(self.topic_ids))


class GroupSpec(Struct, frozen=True, kw_only=True):
    """A group as an assignor sees it.

    `members`: by member id, in the order of the group's members (`java_order.TimelineOrder`, then who is new in
    this request). `is_homogeneous`: all of them subscribe to the same topics. `partitions`: how many each topic
    has, by id.
    """

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool
    partitions: Mapping[bytes, int]

    def order_members(self) -> list[MemberSpec]:
        """The members in the order in which an assignor meets them: that of a HashMap of them."""
        return [self.members[member_id] for member_id in HashOrder(mix_string, keys=self.members)]


Assignor: TypeAlias = Callable[[GroupSpec], Assignment]


def prefer_old_assignment(member: MemberSpec, partitions: Partitions) -> Partitions:
    """The old target of a member if it has the same partitions, else the new one."""
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
    """Where a member comes in Java's order of strings, which is that of UTF-16 units."""
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
    """Gives each an equal share, the first ones one more as long as there are."""
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
    """Assign partitions so that members have equally many, and keep what they have. Racks are not looked at."""
    if not any(member.topic_ids for member in group.members.values()):
        return {member_id: prefer_old_assignment(member, {}) for member_id, member in group.members.items()}
    assigned = assign_homogeneous(group) if group.is_homogeneous else assign_heterogeneous(group)
    return {
        member_id: prefer_old_assignment(group.members[member_id], target)
        for member_id, target in assigned.items()
    }


class MutableAssignment:
    """What a member has. Until the first change it is the old target; Kafka copies that then.

    Source: Kafka's `AssignorHelpers.deepCopyAssignment`; an `Assignment` that was read from a record.
    """

    __slots__ = ("_changed", "_old", "_order")

    def __init__(self, old: Partitions) -> None:
        self._old = old
        self._order: HashOrder[bytes] | None = None
        self._changed: dict[bytes, HashOrder[int]] = {}

    def iterate_topics(self) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """The old target, in the order of Kafka's map of it and of its sets."""
        for topic_id in _order_old_topics(self._old):
            yield topic_id, self._old[topic_id]

    def add_partition(self, topic_id: bytes, partition: int, room: int) -> None:
        """Gives it a partition. `room`: the capacity of the set, when it is the first of this topic."""
        order = self._copy()
        partitions = self._find_mutable_partitions(topic_id)
        order.insert_first(topic_id)
        if partitions is None:
            partitions = self._changed[topic_id] = HashOrder(mix_number, room)
        partitions.insert(partition)

    def remove_partition(self, topic_id: bytes, partition: int) -> None:
        """Takes a partition from it, and with the last one the topic."""
        order = self._copy()
        partitions = self._find_mutable_partitions(topic_id)
        if partitions is not None:
            partitions.remove(partition)
            if not partitions:
                order.remove(topic_id)
                del self._changed[topic_id]

    def drop_topic(self, topic_id: bytes) -> None:
        """Takes all partitions of a topic from it."""
        self._copy().remove(topic_id)
        self._changed.pop(topic_id, None)

    def build(self) -> Partitions:
        """What it has now; the old target itself when nothing was changed."""
        if self._order is None:
            return self._old
        return {topic_id: self._order_partitions(topic_id) for topic_id in self._order}

    def _copy(self) -> HashOrder[bytes]:
        if self._order is None:
            self._order = HashOrder(mix_topic_id, len(self._old), _order_old_topics(self._old))
        return self._order

    def _find_mutable_partitions(self, topic_id: bytes) -> HashOrder[int] | None:
        """The set of a topic as one that can be changed; None when the member has none of it."""
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
    """What each member gets: all of them as much, some of them one more. Those that have too much give it up, in
    the order of members; those that have too little get what is free, in the same order."""
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
        # Later members may already have one more: they are left the extras, as long as there are enough members.
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
    """What is in nobody's old target, by topic and number."""
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
    """Leaves a member of its old target what fits into its quota; the rest is free, behind what was. How many the
    quota lacks then."""
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
    """What each member gets: what it has stays where it can, the rest goes to whoever has least, then partitions
    move from those that have most."""
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
        """Members keep what they have of topics to which they still subscribe."""
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
        """Gives what nobody has to the subscribers that have least, topic by topic."""
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
        """Moves partitions, topic by topic, until no topic has any to move, or for so many rounds."""
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
        """What each member has now, by its id."""
        return {
            member.member_id: target.build()
            for member, target in zip(self._members, self._targets, strict=True)
        }

    def _busiest_first(self, topic_ids: Iterable[bytes]) -> list[bytes]:
        """Topics by how many partitions a subscriber gets, the most first; then by subscribers, then by id."""

        def sort_key(topic_id: bytes) -> tuple[float, int, int, int]:
            subscribers = len(self._subscribers[topic_id])
            upper, lower = (int.from_bytes(half, signed=True) for half in (topic_id[:8], topic_id[8:]))
            return -self._partitions[topic_id] / subscribers, subscribers, upper, lower

        return sorted(topic_ids, key=sort_key)

    def _balance_topic(self, topic_id: bytes) -> bool:
        """Moves partitions from the subscribers that have most to those that have least. Whether any moved."""
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
    """Members sorted by how many partitions they have, and two ranges of them: at the lower end those that share
    the smallest load, at the upper end those that share the largest. Each member of a range gets (or gives) one,
    then the load of the range is one more (or less), and the members that have just that many join it.

    In: how many partitions each member has, by its number; the numbers of the members, one at least. Loads are
    read as they are when a range reaches a member: up to then nothing of this topic was moved to it or from it.
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
        """The number of the member that is to get the next partition."""
        if self._next_least >= self._least_end:
            self._least_load += 1
            while self._least_end < len(self._members) and self._load_at(self._least_end) == self._least_load:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._members[self._next_least - 1]

    def next_most_loaded(self) -> int | None:
        """The number of the member that is to give the next partition; None: all are passed over."""
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
        """The member that came last has none to give: it leaves the range."""
        last, members = self._most_end - 1, self._members
        here = self._next_most + 1
        members[here], members[last] = members[last], members[here]
        self._most_end = last

    def are_even(self) -> bool:
        """Whether the loads of both ranges differ by one at most."""
        return self._most_load - self._least_load <= 1

    def _load_at(self, place: int) -> int:
        return self._sizes[self._members[place]]


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_range}
)
"""In the order of Kafka's `group.consumer.assignors`, whose first is the default."""
