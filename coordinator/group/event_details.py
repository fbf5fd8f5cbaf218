"""What there is to say of a rebalance, as values: what began it, whom it waits for, who is gone, who got what.

Events are made of these, and from events whatever people read: the core never says it in text alone.
"""

from enum import StrEnum
from typing import NamedTuple

from coordinator.group.member_name import MemberName


class RebalanceCause(StrEnum):
    """Why a rebalance started, as a word; the trigger's `reason` has the whole sentence."""

    MEMBER_JOINED = "member joined"
    LEADER_REJOINED = "leader rejoined"
    METADATA_CHANGED = "metadata changed"
    STATIC_MEMBER_REPLACED = "static member replaced"
    MEMBER_LEFT = "member left"
    SESSION_EXPIRED = "session expired"
    SYNC_EXPIRED = "sync expired"
    OVER_CAPACITY = "over capacity"
    ASSIGNMENT_TOO_LARGE = "assignment too large"


class Trigger(NamedTuple):
    """What began a rebalance. `reason` is Kafka's sentence. `actor` is the member whose doing it is, the first
    of them if there are several, None when it is nobody's; `client_reason` is why, in the client's own words
    (KIP-800), "" when it said nothing."""

    cause: RebalanceCause
    reason: str
    actor: MemberName | None
    client_reason: str = ""


class AwaitedRequest(StrEnum):
    """What a group waits for: a member's JoinGroup, the first one of somebody who has just been given a member
    id (KIP-394), a follower's SyncGroup, or the leader's, which brings the assignment."""

    JOIN = "JoinGroup"
    FIRST_JOIN = "first JoinGroup"
    SYNC = "SyncGroup"
    ASSIGNMENT = "assignment"


class Awaited(NamedTuple):
    """One whom a group waits for. `silent_ms`: since when nothing was heard of it. `session_left_ms`: when its
    session ends unless it is heard before. `left_ms`: how long it is waited for at most if it stays silent."""

    member: MemberName
    request: AwaitedRequest
    silent_ms: int
    session_left_ms: int
    left_ms: int


class DepartureCause(StrEnum):
    """How a member ceased to be one."""

    LEFT = "left"
    SESSION_EXPIRED = "session expired"
    NOT_REJOINED = "did not rejoin"
    NOT_SYNCED = "did not sync"
    NO_ROOM = "no room"


class Departure(NamedTuple):
    """A member that is gone, with the bytes that it was assigned in the last Stable generation."""

    member: MemberName
    cause: DepartureCause
    assignment: bytes


class Assigned(NamedTuple):
    """A member of a Stable generation, with the bytes that the leader assigned to it, and those that it had in the
    Stable generation before this one; None when it was not in that. `metadata` is what it had told the leader, for
    the selected protocol."""

    member: MemberName
    before: bytes | None
    assignment: bytes
    metadata: bytes = b""

    @property
    def is_new(self) -> bool:
        """Whether it was not in the Stable generation before this one."""
        return self.before is None
