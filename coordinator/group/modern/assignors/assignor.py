"""What an assignor is given and what it answers. Source: Kafka's `ConsumerGroupPartitionAssignor`, `GroupSpecImpl`.

Everything here has Kafka's orders (`java_order`), which are part of the result: they decide who gives up what the
next time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from coordinator.group.modern.java_order import HashOrder, mixed_string

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

    def subscriptions(self) -> int:
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

    def in_order(self) -> list[MemberSpec]:
        """The members in the order in which an assignor meets them: that of a HashMap of them."""
        return [self.members[member_id] for member_id in HashOrder(mixed_string, keys=self.members)]


Assignor: TypeAlias = Callable[[GroupSpec], Assignment]


def old_where_equal(member: MemberSpec, partitions: Partitions) -> Partitions:
    """The old target of a member if it has the same partitions, else the new one."""
    old = member.assigned
    if old is partitions or old.keys() != partitions.keys():
        return partitions
    same = all(
        len(old[topic_id]) == len(given) and set(old[topic_id]) == set(given)
        for topic_id, given in partitions.items()
    )
    return old if same else partitions
