"""Values inside group events: who a member is, why a rebalance started, whom it waits for, who got what, and
why a request was refused.
"""

from enum import StrEnum
from typing import NamedTuple, TypeAlias


class MemberName(NamedTuple):
    """A member, or who has been given an id to become one. `client_host` has Java's leading slash
    ("/127.0.0.1"); `group_instance_id` is None unless the member is static."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str


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


class AwaitedMember(NamedTuple):
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


class MemberAssignment(NamedTuple):
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


class SessionTimeoutOutOfRange(NamedTuple):
    """INVALID_SESSION_TIMEOUT: group.min.session.timeout.ms and group.max.session.timeout.ms are the bounds."""

    session_timeout_ms: int
    min_ms: int
    max_ms: int


class GroupFull(NamedTuple):
    """GROUP_MAX_SIZE_REACHED: so many members count, and group.max.size is the bound."""

    members: int
    max_size: int


class ProtocolsDiffer(NamedTuple):
    """INCONSISTENT_GROUP_PROTOCOL: what the request names, and what the group has: in a JoinGroup the
    protocols that all members support, in a SyncGroup the selected one. None: not named."""

    protocol_type: str | None
    names: tuple[str, ...]
    group_protocol_type: str | None
    group_names: tuple[str, ...]


class GenerationDiffers(NamedTuple):
    """ILLEGAL_GENERATION: the generation of the request, and that of the group."""

    sent: int
    current: int


class MetadataTooLong(NamedTuple):
    """OFFSET_METADATA_TOO_LARGE: the longest text that came with an offset, in UTF-16 units, and the bound,
    offset.metadata.max.bytes."""

    length: int
    max_length: int


class RecordsTooLarge(NamedTuple):
    """UNKNOWN_SERVER_ERROR: the log would not take so large a batch; message.max.bytes is the bound."""

    max_bytes: int


class MemberIdTooLong(NamedTuple):
    """UNKNOWN_SERVER_ERROR: the member's id, made of its client id or instance id, would be longer than a
    string of the protocol can be."""

    max_bytes: int


class RefusedOffset(NamedTuple):
    """What a refused commit would have stored, and what was committed there then; None: nothing."""

    topic: str
    partition: int
    offset: int
    committed: int | None


RefusalDetail: TypeAlias = (
    SessionTimeoutOutOfRange
    | GroupFull
    | ProtocolsDiffer
    | GenerationDiffers
    | MetadataTooLong
    | RecordsTooLarge
    | MemberIdTooLong
)
