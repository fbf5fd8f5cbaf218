"""A member of a consumer group, as a value: what it said of itself, and where it stands on the way to its target.

Nobody changes one; a heartbeat makes another. Source: Kafka's `ConsumerGroupMember` and `MemberState`.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeAlias

from msgspec import Struct

from coordinator.group.member_name import MemberName
from protocol.records.consumer_group import ClassicMemberMetadata

Assigned: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch of the member at which it became its own. No topic is empty."""
Target: TypeAlias = Mapping[bytes, tuple[int, ...]]
"""Partitions by topic id, in the order of the record. No topic is empty."""

NOTHING_ASSIGNED: Final[Assigned] = {}
NO_TARGET: Final[Target] = {}
NO_TIMEOUT: Final = -1
JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
LEAVING_STATIC_EPOCH: Final = -2
"""Of a static member that left for a while: its partitions are kept for its instance."""


class MemberState(IntEnum):
    """Where a member stands; the value is the byte in the log."""

    STABLE = 0
    """It has all of its target that its epoch knows."""
    UNREVOKED_PARTITIONS = 1
    """It has to confirm that it gave partitions up."""
    UNRELEASED_PARTITIONS = 2
    """Others have not given up what it is to have."""
    UNKNOWN = 127
    """Something that a later version of Kafka wrote."""


class ConsumerMember(Struct, frozen=True):
    """Defaults are those of a new member. `subscribed_topic_regex` is "" for none; `server_assignor` None for no
    preference; `classic` is there for a member of the classic protocol. `assigned` is what it may own, and
    `pending` what it has to give up."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = NO_TIMEOUT
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assigned = NOTHING_ASSIGNED
    pending: Assigned = NOTHING_ASSIGNED

    @property
    def name(self) -> MemberName:
        """Who it is, for people."""
        return MemberName(self.member_id, self.instance_id, self.client_id, self.client_host)

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether it sends JoinGroup, SyncGroup and Heartbeat."""
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has what the target of that epoch gives it."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch
