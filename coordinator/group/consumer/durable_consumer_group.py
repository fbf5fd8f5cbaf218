"""The durable state of one consumer group, and the state derived from it.

Only `replay` of the store writes it. Members are immutable values: a record replaces one. Derived state
(subscriptions, owners of partitions, counts, the state of the group) follows at once, live as on load. Source:
Kafka's `ModernGroup`, `ConsumerGroup`, `ConsumerGroupState`.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, TypeVar

from coordinator.core.outcome import Fact
from coordinator.group.consumer.consumer_member import (
    NO_TARGET,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
    TargetPartitions,
    assignment_epoch_record,
    assignment_epoch_tombstone,
    current_record,
    current_tombstone,
    epoch_record,
    epoch_tombstone,
    member_record,
    member_tombstone,
    partition_metadata_tombstone,
    read_regex,
    read_target,
    regex_record,
    regex_tombstone,
    target_record,
    target_tombstone,
    with_current,
    with_metadata,
)
from coordinator.group.modern.java_order import TimelineOrder
from protocol.records.group_record_schemas import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)

NO_SUCCESSORS: Final[Mapping[str, str]] = {}
NO_HOLDERS: Final[Mapping[int, str]] = {}
FIRST_EPOCH: Final = 1
"""The first epoch of a group and of its target."""

INITIAL_ASSIGNMENT: Final = ConsumerGroupCurrentMemberAssignmentValue(
    member_epoch=0,
    previous_member_epoch=0,
    state=MemberState.STABLE,
    assigned_partitions=[],
    partitions_pending_revocation=[],
)
"""The assignment of a new member."""


class DurableConsumerGroup:
    """The state of a consumer group.

    From records (type in parentheses): `epoch` and `metadata_hash` (3), `partition_metadata` (4), `members` (5 and
    8), `assignment_epoch` and `assignment_timestamp_ms` (6), `targets` by member (7), `regexes` (16).

    Derived:
    - `names` counts the members that subscribe to a topic by name; `regex_topics` counts the resolved expressions
      that match it.
    - `regex_members` counts the members of an expression.
    - `assignors` counts the members that prefer an assignor.
    - `classic_protocols` counts the members of the classic protocol that support a protocol.
    - `static_members` are member ids by instance id.
    - `holders` has the member that owns a partition or must still revoke it, by topic id.
    - `stable` counts the stable members by their epoch.
    - `order` and `assignor_order` are the orders in which Kafka iterates over the members and over `assignors`.
    """

    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp_ms",
        "assignor_order",
        "assignors",
        "classic_members",
        "classic_protocols",
        "epoch",
        "group_id",
        "has_assignment_epoch",
        "has_epoch",
        "holders",
        "members",
        "metadata_hash",
        "names",
        "order",
        "partition_metadata",
        "regex_members",
        "regex_topics",
        "regexes",
        "stable",
        "static_members",
        "targets",
        "without_current",
        "without_metadata",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.has_epoch = self.has_assignment_epoch = False
        self.epoch = self.assignment_epoch = FIRST_EPOCH
        self.metadata_hash = self.assignment_timestamp_ms = 0
        self.partition_metadata: ConsumerGroupPartitionMetadataValue | None = None
        self.members: dict[str, ConsumerMember] = {}
        self.without_metadata: set[str] = set()
        self.without_current: set[str] = set()
        self.targets: dict[str, TargetPartitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.order = TimelineOrder()
        self.static_members: dict[str, str] = {}
        self.names: dict[str, int] = {}
        self.regex_topics: dict[str, int] = {}
        self.regex_members: dict[str, int] = {}
        self.assignors: dict[str, int] = {}
        self.assignor_order = TimelineOrder()
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}
        self.holders: dict[bytes, dict[int, str]] = {}
        self.stable: dict[int, int] = {}

    # Queries

    @property
    def is_blank(self) -> bool:
        """Return whether the log has no records of the group."""
        return not (
            self.has_epoch
            or self.has_assignment_epoch
            or self.members
            or self.targets
            or self.regexes
            or self.partition_metadata is not None
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic by name or by a resolved expression."""
        return topic in self.names or topic in self.regex_topics

    def subscribed_topics(self) -> set[str]:
        """Return the names of all subscribed topics, including topics that do not exist."""
        return {*self.names, *self.regex_topics}

    def find_member_topics(self, member_id: str) -> frozenset[str]:
        """Return the topics that a member subscribes to by name; empty for an unknown member."""
        member = self.members.get(member_id)
        return frozenset() if member is None else member.subscribed_topic_names

    def find_regex_topics(self, regex: str) -> frozenset[str]:
        """Return the topics that an expression matches; empty for an unresolved expression."""
        resolved = self.regexes.get(regex)
        return frozenset() if resolved is None else resolved.topics

    def find_holders(self, topic_id: bytes) -> Mapping[int, str]:
        """Return the members that own partitions of a topic or must still revoke them, by partition."""
        return self.holders.get(topic_id, NO_HOLDERS)

    def find_static_member(self, instance_id: str) -> ConsumerMember | None:
        """Return the static member of an instance id, None without one."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def find_target(self, member_id: str) -> TargetPartitions:
        """Return the target assignment of a member."""
        return self.targets.get(member_id, NO_TARGET)

    @property
    def is_reconciled(self) -> bool:
        """Return whether every member has reached its target."""
        return self.stable.get(self.assignment_epoch, 0) == len(self.members)

    def __len__(self) -> int:
        """Return the number of keys that have a value."""
        return (
            self.has_epoch
            + self.has_assignment_epoch
            + (self.partition_metadata is not None)
            + 2 * len(self.members)
            - len(self.without_metadata)
            - len(self.without_current)
            + len(self.targets)
            + len(self.regexes)
        )

    def facts(self) -> Iterator[Fact]:
        """Yield records that restore the group from an empty state, members in their order."""
        group_id = self.group_id
        if self.has_epoch:
            yield epoch_record(group_id, self.epoch, self.metadata_hash)
        if self.partition_metadata is not None:
            yield Fact(ConsumerGroupPartitionMetadataKey(group_id=group_id), self.partition_metadata)
        for member_id, member in self.members.items():
            if member_id not in self.without_metadata:
                yield member_record(group_id, member)
            if member_id not in self.without_current:
                yield current_record(group_id, member)
        for member_id, target in self.targets.items():
            yield target_record(group_id, member_id, target)
        for regex, resolved in self.regexes.items():
            yield regex_record(group_id, regex, resolved)
        if self.has_assignment_epoch:
            yield assignment_epoch_record(group_id, self.assignment_epoch, self.assignment_timestamp_ms)

    def tombstones(self, successors: Mapping[str, str] = NO_SUCCESSORS) -> Iterator[Fact]:
        """Yield the tombstones of the group, in Kafka's order. `successors` has replacing member ids by replaced
        member id.
        """
        group_id = self.group_id
        member_ids = [successors.get(member_id, member_id) for member_id in self.order]
        for member_id in member_ids:
            yield current_tombstone(group_id, member_id)
        for member_id in member_ids:
            yield target_tombstone(group_id, member_id)
        for member_id in self.targets.keys() - self.members.keys():
            yield target_tombstone(group_id, member_id)
        yield assignment_epoch_tombstone(group_id)
        for member_id in member_ids:
            yield member_tombstone(group_id, member_id)
        for regex in self.regexes:
            yield regex_tombstone(group_id, regex)
        yield partition_metadata_tombstone(group_id)
        yield epoch_tombstone(group_id)

    # Replay of records

    def put_epoch(self, value: ConsumerGroupMetadataValue | None) -> None:
        """Apply a record of type 3."""
        self.has_epoch = value is not None
        self.epoch = FIRST_EPOCH if value is None else value.epoch
        self.metadata_hash = 0 if value is None else value.metadata_hash

    def put_assignment_epoch(self, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        """Apply a record of type 6."""
        self.has_assignment_epoch = value is not None
        self.assignment_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def put_metadata(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        """Apply a record of type 5."""
        member = self.members.get(member_id)
        if value is not None:
            if member is None:
                self.without_current.add(member_id)
            self.without_metadata.discard(member_id)
            self._put_member(member, with_metadata(member or ConsumerMember(member_id), value))
        elif member is not None and member_id not in self.without_metadata:
            if member_id in self.without_current:
                self._remove_member(member)
            else:
                self.without_metadata.add(member_id)
                bare = ConsumerMember(
                    member_id,
                    member_epoch=member.member_epoch,
                    previous_member_epoch=member.previous_member_epoch,
                    state=member.state,
                    assigned=member.assigned,
                    pending=member.pending,
                )
                self._put_member(member, bare)

    def put_current(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        """Apply a record of type 8."""
        member = self.members.get(member_id)
        if value is not None:
            if member is None:
                self.without_metadata.add(member_id)
            self.without_current.discard(member_id)
            self._put_member(member, with_current(member or ConsumerMember(member_id), value))
        elif member is not None and member_id not in self.without_current:
            if member_id in self.without_metadata:
                self._remove_member(member)
            else:
                self.without_current.add(member_id)
                self._put_member(member, with_current(member, INITIAL_ASSIGNMENT))

    def put_target(self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None) -> None:
        """Apply a record of type 7."""
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = read_target(value)

    def put_regex(self, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        """Apply a record of type 16."""
        old = self.regexes.pop(regex, None) if value is None else self.regexes.get(regex)
        if old is not None:
            add_to_counts(self.regex_topics, old.topics, -1)
        if value is not None:
            resolved = self.regexes[regex] = read_regex(value)
            add_to_counts(self.regex_topics, resolved.topics, 1)

    # Derived state

    def _put_member(self, old: ConsumerMember | None, new: ConsumerMember) -> None:
        self.members[new.member_id] = new
        self.order.insert(new.member_id)
        names = frozenset[str]() if old is None else old.subscribed_topic_names
        if names is not new.subscribed_topic_names:
            add_to_counts(self.names, names - new.subscribed_topic_names, -1)
            add_to_counts(self.names, new.subscribed_topic_names - names, 1)
        if old is not None:
            self._count_member(old, -1)
            self._remove_holder(old)
            if old.instance_id is not None and self.static_members.get(old.instance_id) == old.member_id:
                del self.static_members[old.instance_id]
        self._count_member(new, 1)
        self._add_holder(new)
        if new.instance_id is not None:
            self.static_members[new.instance_id] = new.member_id

    def _remove_member(self, member: ConsumerMember) -> None:
        del self.members[member.member_id]
        self.order.remove(member.member_id)
        self.without_current.discard(member.member_id)
        self.without_metadata.discard(member.member_id)
        add_to_counts(self.names, member.subscribed_topic_names, -1)
        self._count_member(member, -1)
        self._remove_holder(member)
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _count_member(self, member: ConsumerMember, change: int) -> None:
        if member.subscribed_topic_regex:
            add_to_counts(self.regex_members, (member.subscribed_topic_regex,), change)
        if member.server_assignor is not None:
            add_to_counts(self.assignors, (member.server_assignor,), change)
            if member.server_assignor in self.assignors:
                self.assignor_order.insert(member.server_assignor)
            else:
                self.assignor_order.remove(member.server_assignor)
        if member.classic is not None:
            self.classic_members += change
            supported = dict.fromkeys(protocol.name for protocol in member.classic.supported_protocols)
            add_to_counts(self.classic_protocols, supported, change)
        if member.state is MemberState.STABLE:
            add_to_counts(self.stable, (member.member_epoch,), change)

    def _add_holder(self, member: ConsumerMember) -> None:
        for partitions in (member.assigned, member.pending):
            for topic_id, of_topic in partitions.items():
                self.holders.setdefault(topic_id, {}).update(dict.fromkeys(of_topic, member.member_id))

    def _remove_holder(self, member: ConsumerMember) -> None:
        for partitions in (member.assigned, member.pending):
            for topic_id, of_topic in partitions.items():
                holders = self.holders.get(topic_id)
                if holders is None:
                    continue
                for partition in of_topic:
                    if holders.get(partition) == member.member_id:
                        del holders[partition]
                if not holders:
                    del self.holders[topic_id]

    def adopt_orders(self, other: "DurableConsumerGroup") -> None:
        """Take the orders of members and assignors from the same group in another shard. They depend on members
        that the records do not have any more. Raises ValueError if the keys differ.
        """
        self.order.adopt_history(other.order)
        self.assignor_order.adopt_history(other.assignor_order)

    def copy(self) -> "DurableConsumerGroup":
        """Return a copy that later records do not change. Copies serve to write the group and therefore omit
        derived state.
        """
        copied = DurableConsumerGroup(self.group_id)
        copied.has_epoch, copied.has_assignment_epoch = self.has_epoch, self.has_assignment_epoch
        copied.epoch, copied.metadata_hash = self.epoch, self.metadata_hash
        copied.assignment_epoch = self.assignment_epoch
        copied.assignment_timestamp_ms = self.assignment_timestamp_ms
        copied.partition_metadata = self.partition_metadata
        copied.members, copied.targets = dict(self.members), dict(self.targets)
        copied.without_metadata = set(self.without_metadata)
        copied.without_current = set(self.without_current)
        copied.regexes = dict(self.regexes)
        return copied


class ConsumerGroupState(Enum):
    """The state of a consumer group. The value is its name in ListGroups and ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The group epoch is ahead of the target's epoch."""
    RECONCILING = "Reconciling"
    """Members are moving to the target."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Moved to another coordinator, or removed; no response shows this state."""


def compute_group_state(group: DurableConsumerGroup) -> ConsumerGroupState:
    """Return the state of an active group."""
    if not group.members:
        return ConsumerGroupState.EMPTY
    if group.epoch > group.assignment_epoch:
        return ConsumerGroupState.ASSIGNING
    return ConsumerGroupState.STABLE if group.is_reconciled else ConsumerGroupState.RECONCILING


K = TypeVar("K", bound=Hashable)


def add_to_counts(counts: dict[K, int], keys: Iterable[K], change: int) -> None:
    """Add `change` (1 or -1) to the count of each key; remove keys that reach 0."""
    for key in keys:
        total = counts.get(key, 0) + change
        assert total >= 0, key
        if total:
            counts[key] = total
        else:
            del counts[key]
