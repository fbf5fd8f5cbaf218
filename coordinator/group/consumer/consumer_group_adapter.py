"""What a consumer group is to the rest of the coordinator.

Source: Kafka's ConsumerGroup, which implements Group; `validateOffsetCommit`, `validateOffsetFetch`,
`validateDeleteGroup`, `offsetExpirationCondition`.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from coordinator.core.outcome import Fact, OutcomeBuilder
from coordinator.group.consumer.consumer_group import ConsumerGroup, end_session
from coordinator.group.consumer.consumer_member import ConsumerMember
from coordinator.group.durable_groups import DurableGroups
from coordinator.group.group_interface import ACCEPTED, CommitRequest, CommitValidation
from coordinator.group.group_invariants import check_consumer_group
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import GroupView, view_consumer_group
from coordinator.group.topics_image import TopicsImage
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest

NONE: Final = ErrorCode.NONE
PROTOCOL_TYPE: Final = "consumer"
NO_EPOCH: Final = -1
MEMBER_EPOCH_VERSION: Final = 9
"""Since when an OffsetCommit has a member epoch."""
NEW_ERRORS_VERSION: Final = 6
"""Since when a TxnOffsetCommit knows STALE_MEMBER_EPOCH."""


class ConsumerGroupAdapter:
    """A consumer group as a `Group`."""

    __slots__ = ("_group", "group_id")

    type: Final = GroupType.CONSUMER
    protocol_type: Final = PROTOCOL_TYPE
    offsets_may_expire: Final = True
    idle_since_ms: Final = None

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self.group_id = group.group_id

    @property
    def state_name(self) -> str:
        """One of the five states of a consumer group."""
        return self._group.state_name

    @property
    def is_dead(self) -> bool:
        """Whether it was removed or given up."""
        return self._group.is_dead

    @property
    def generation_id(self) -> int:
        """The epoch of the group."""
        return self._group.durable.epoch

    def find_static_member_id(self, group_instance_id: str) -> str | None:
        """The static member of that instance id."""
        return self._group.find_static_member_id(group_instance_id)

    # Commits

    def validate_commit(self, request: CommitRequest, api_version: int) -> CommitValidation:
        """A member commits in its epoch; in an older one for partitions that it has had since then. A consumer
        without group management commits with epoch -1, while there are no members."""
        group, epoch = self._group, request.generation_id_or_member_epoch
        if group.is_dead:
            return CommitValidation(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        members = group.durable.members
        if epoch < 0 and not members:
            return ACCEPTED
        is_plain = type(request) is OffsetCommitRequest
        member_id = request.member_id
        if not is_plain and epoch == NO_EPOCH and not member_id and request.group_instance_id is None:
            return ACCEPTED
        member = members.get(member_id)
        if member is None:
            return CommitValidation(ErrorCode.UNKNOWN_MEMBER_ID)
        if is_plain and not member.uses_classic_protocol and api_version < MEMBER_EPOCH_VERSION:
            return CommitValidation(ErrorCode.UNSUPPORTED_VERSION)
        if epoch == member.member_epoch:
            return ACCEPTED
        error = stale_epoch(member)
        if not is_plain and api_version < NEW_ERRORS_VERSION:
            error = ErrorCode.ILLEGAL_GENERATION
        if epoch > member.member_epoch:
            return CommitValidation(error)
        return CommitValidation(
            NONE, validate_partition=partial(_validate_partition, self._group, member, epoch, error)
        )

    def validate_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether a member may fetch offsets in its epoch; who names none may."""
        if member_id is None and epoch < 0:
            return NONE
        if member_id is None:
            # Kafka looks for a member without an id, and fails.
            return ErrorCode.UNKNOWN_SERVER_ERROR
        member = self._group.durable.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return NONE if epoch == member.member_epoch else stale_epoch(member)

    def on_commit_accepted(self, member_id: str, builder: OutcomeBuilder) -> None:
        """A commit is no sign of life here."""

    # Offsets and how long they stay

    def validate_offset_delete(self) -> ErrorCode:
        """What its members read is known, so that the rest may go."""
        return ErrorCode.GROUP_ID_NOT_FOUND if self._group.is_dead else NONE

    def is_subscribed_to(self, topic: str) -> bool:
        """By name, or by an expression."""
        return self._group.durable.is_subscribed_to(topic)

    # The end

    def validate_delete(self) -> ErrorCode:
        """A group with members cannot be deleted."""
        if self._group.is_dead:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return NONE if self._group.is_empty else ErrorCode.NON_EMPTY_GROUP

    @property
    def is_abandoned(self) -> bool:
        """Whether it has no members."""
        return self._group.is_empty

    def tombstones(self) -> Iterable[Fact]:
        """Tombstones for all records of the group."""
        return list(self._group.durable.tombstones())

    def retire(self, builder: OutcomeBuilder) -> None:
        """There are no timers left."""
        assert self._group.is_empty, self.group_id
        self._group.is_dead = True

    def unload(self, builder: OutcomeBuilder) -> None:
        """Nobody is parked in the group itself."""
        self._group.is_dead = True
        for member_id in list(self._group.sessions):
            end_session(self._group, member_id, builder)

    def view(self, now_ms: int, topics: TopicsImage) -> GroupView:
        """Describe the group as immutable values."""
        return view_consumer_group(self._group, now_ms, topics)

    @property
    def member_count(self) -> int:
        """The number of members that the log knows."""
        return len(self._group.durable.members)

    def session_margin(self, now_ms: int) -> float | None:
        """The least share of its session that a member has left; None without members."""
        shares = [
            (session.deadline_ms - now_ms) / max(1, session.timeout_ms)
            for session in self._group.sessions.values()
        ]
        return max(0.0, min(shares)) if shares else None

    def check_invariants(self, durable: DurableGroups, waiters: set[int]) -> None:
        """Check the invariants of the group. Raises AssertionError."""
        check_consumer_group(self._group, durable)


def stale_epoch(member: ConsumerMember) -> ErrorCode:
    """What a member is told that names another epoch than its own."""
    return ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH


def _validate_partition(
    group: ConsumerGroup,
    member: ConsumerMember,
    epoch: int,
    error: ErrorCode,
    topic: str,
    topic_id: bytes,
    partition: int,
) -> ErrorCode:
    since = member.assigned.get(topic_id, {}).get(partition)
    if since is None:
        since = member.pending.get(topic_id, {}).get(partition)
    return NONE if since is not None and since <= epoch else error
