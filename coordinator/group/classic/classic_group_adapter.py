"""What a classic group is to the rest of the coordinator.

Source: Kafka's ClassicGroup, which implements Group; `validateOffsetCommit`, `validateOffsetDelete`,
`validateDeleteGroup`, `offsetExpirationCondition`.
"""

from typing import Final

from coordinator.core.outcome import Fact, OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_records import group_tombstone
from coordinator.group.classic.classic_session import answer_parked, forget_pending, restart_classic_session
from coordinator.group.classic.classic_state_machine import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from coordinator.group.durable_groups import DurableGroups
from coordinator.group.group_interface import ACCEPTED, CommitRequest, CommitValidation
from coordinator.group.group_invariants import check_classic_group
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import GroupView, view_classic_group
from coordinator.group.topics_image import TopicsImage
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest

# Looking a member of an enumeration up costs more than the rest of a check.
NONE: Final = ErrorCode.NONE


class ClassicGroupAdapter:
    """A classic group as a `Group`."""

    __slots__ = ("_group", "group_id")

    type: Final = GroupType.CLASSIC

    def __init__(self, group: ClassicGroup) -> None:
        self._group = group
        self.group_id = group.group_id

    @property
    def protocol_type(self) -> str | None:
        """None before the first member, and of a group that only holds offsets."""
        return self._group.protocol_type

    @property
    def state_name(self) -> str:
        """One of the five states of a classic group."""
        return self._group.state_name

    @property
    def is_dead(self) -> bool:
        """Whether it was removed or given up."""
        return self._group.state is DEAD

    @property
    def generation_id(self) -> int:
        """0 before the first one."""
        return self._group.generation_id

    def find_static_member_id(self, group_instance_id: str) -> str | None:
        """The static member of that instance id."""
        return self._group.find_static_member_id(group_instance_id)

    # Commits

    def validate_commit(self, request: CommitRequest, api_version: int) -> CommitValidation:
        """One for all partitions. A member may commit in its current generation, also while the next one is being
        prepared: what it has read is read. It may not while the group completes a rebalance, since its partitions
        may be another's by then. A consumer without group management commits with generation -1, while there are no
        members.

        In a transaction it may do both: whoever takes the partitions over waits for the end of that, and a producer
        from before KIP-447 names no member."""
        group, generation_id = self._group, request.generation_id_or_member_epoch
        if generation_id < 0 and group.state is EMPTY:
            return ACCEPTED
        member_id, instance_id = request.member_id, request.group_instance_id
        is_plain = type(request) is OffsetCommitRequest
        if generation_id < 0 and not member_id and instance_id is None and group.state is not DEAD:
            return CommitValidation(ErrorCode.UNKNOWN_MEMBER_ID) if is_plain else ACCEPTED
        error = group.check_sender(member_id, instance_id, generation_id)
        if error is not NONE:
            return CommitValidation(error)
        if group.state is COMPLETING_REBALANCE and is_plain:
            return CommitValidation(ErrorCode.REBALANCE_IN_PROGRESS)
        return ACCEPTED

    def validate_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """NONE: anyone may fetch the offsets of a classic group."""
        return NONE

    def on_commit_accepted(self, member_id: str, builder: OutcomeBuilder) -> None:
        """A member's session starts anew."""
        group = self._group
        if group.state in (STABLE, PREPARING_REBALANCE):
            restart_classic_session(group, group.members[member_id], builder)

    # Offsets and how long they stay

    def validate_offset_delete(self) -> ErrorCode:
        """What others than consumers read cannot be known, so nothing goes while they are there."""
        if self._group.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self._group.state is not EMPTY and not self._group.uses_consumer_protocol:
            return ErrorCode.NON_EMPTY_GROUP
        return NONE

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic, as far as is known. When it is not known, consumers may read it."""
        return self._group.is_subscribed_to(topic)

    @property
    def offsets_may_expire(self) -> bool:
        """While there are members, only where it is known what they read."""
        group = self._group
        if group.protocol_type is None or group.state is EMPTY:
            return True
        known = group.uses_consumer_protocol and group.subscribed_topics is not None
        return known and group.state is STABLE

    @property
    def idle_since_ms(self) -> int | None:
        """The moment when it became empty; None for a simple group, and where the log does not say."""
        group = self._group
        is_idle = group.state is EMPTY and group.protocol_type is not None
        return group.state_timestamp_ms if is_idle else None

    # The end

    def validate_delete(self) -> ErrorCode:
        """Members that are pending do not keep it."""
        if self._group.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return NONE if self._group.state is EMPTY else ErrorCode.NON_EMPTY_GROUP

    @property
    def is_abandoned(self) -> bool:
        """A pending member is about to join. Kafka removes its group all the same; it then has to begin anew."""
        return self._group.state is EMPTY and not self._group.pending_members

    def tombstones(self) -> list[Fact]:
        """One, also where there was no metadata."""
        return [group_tombstone(self._group)]

    def retire(self, builder: OutcomeBuilder) -> None:
        """Whoever was pending has to begin anew."""
        group = self._group
        assert not group.members, list(group.members)
        for member_id in list(group.pending_members):
            forget_pending(group, member_id, builder)
        group.transition_to(DEAD, builder.now.wall_ms)

    def unload(self, builder: OutcomeBuilder) -> None:
        """Parked JoinGroups and SyncGroups are answered."""
        group = self._group
        for member in group.members.values():
            answer_parked(group, member, ErrorCode.NOT_COORDINATOR, member.member_id, builder)
        group.pending_members.clear()
        group.pending_sync.clear()
        group.join_deadline_ms = group.sync_deadline_ms = group.rebalance = None
        group.transition_to(DEAD, group.state_timestamp_ms or 0)

    def view(self, now_ms: int, topics: TopicsImage) -> GroupView:
        """Describe the group as immutable values."""
        return view_classic_group(self._group, now_ms)

    @property
    def member_count(self) -> int:
        """The number of members, without those that are pending."""
        return len(self._group.members)

    def session_margin(self, now_ms: int) -> float | None:
        """A member whose request is parked has a session that does not run."""
        shares = [
            (member.session_deadline_ms - now_ms) / max(1, member.session_timeout_ms)
            for member in self._group.members.values()
            if not (member.is_new or member.is_awaiting_join or member.is_awaiting_sync)
        ]
        return max(0.0, min(shares)) if shares else None

    def check_invariants(self, durable: DurableGroups, waiters: set[int]) -> None:
        """Check the invariants of the group. Raises AssertionError."""
        check_classic_group(self._group, durable, waiters)
