"""Values inside group events: names of members, triggers of rebalances, awaited requests, assignments and the
details of refusals.
"""

from enum import StrEnum
from typing import NamedTuple, TypeAlias


class MemberName(NamedTuple):
    """A member, or a client with a pending member id. `client_host` has Java's leading slash ("/127.0.0.1");
    `group_instance_id` is None for dynamic members.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str


class RebalanceCause(StrEnum):
    """The cause of a rebalance as a keyword; the trigger's `reason` has the sentence."""

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
    """The trigger of a rebalance.

    `reason` is Kafka's sentence. `actor` is the member that caused the rebalance (the first of several members);
    None if no member did. `client_reason` is the reason that the client sent (KIP-800), "" if it sent none.
    """

    cause: RebalanceCause
    reason: str
    actor: MemberName | None
    client_reason: str = ""


class AwaitedRequest(StrEnum):
    """The request that a group waits for: a member's JoinGroup, the second JoinGroup of a client with a pending
    member id (KIP-394), a follower's SyncGroup, or the leader's SyncGroup with the assignment.
    """

    JOIN = "JoinGroup"
    FIRST_JOIN = "first JoinGroup"
    SYNC = "SyncGroup"
    ASSIGNMENT = "assignment"


class AwaitedMember(NamedTuple):
    """A member that a group waits for. `silent_ms` is the time since its last request, `session_left_ms` the rest
    of its session, and `left_ms` the longest time that the group still waits for it. All are in milliseconds.
    """

    member: MemberName
    request: AwaitedRequest
    silent_ms: int
    session_left_ms: int
    left_ms: int


class DepartureCause(StrEnum):
    """How a member departed."""

    LEFT = "left"
    SESSION_EXPIRED = "session expired"
    NOT_REJOINED = "did not rejoin"
    NOT_SYNCED = "did not sync"
    NO_ROOM = "no room"


class Departure(NamedTuple):
    """A departed member, with its assignment (raw bytes) in the last Stable generation."""

    member: MemberName
    cause: DepartureCause
    assignment: bytes


class MemberAssignment(NamedTuple):
    """A member of a Stable generation. `assignment` has the bytes from the leader. `before` has its bytes in the
    previous Stable generation, None if it was not a member then. `metadata` is its subscription for the selected
    protocol.
    """

    member: MemberName
    before: bytes | None
    assignment: bytes
    metadata: bytes = b""

    @property
    def is_new(self) -> bool:
        """Return whether the member was absent from the previous Stable generation."""
        return self.before is None


class SessionTimeoutOutOfRange(NamedTuple):
    """INVALID_SESSION_TIMEOUT: group.min.session.timeout.ms and group.max.session.timeout.ms are the bounds."""

    session_timeout_ms: int
    min_ms: int
    max_ms: int


class GroupFull(NamedTuple):
    """GROUP_MAX_SIZE_REACHED: `members` members count towards the bound group.max.size."""

    members: int
    max_size: int


class ProtocolsDiffer(NamedTuple):
    """INCONSISTENT_GROUP_PROTOCOL: the protocols of the request and of the group. In a JoinGroup the group's are
    those that all members support, in a SyncGroup the selected one. None if the request does not name them.
    """

    protocol_type: str | None
    names: tuple[str, ...]
    group_protocol_type: str | None
    group_names: tuple[str, ...]


class GenerationDiffers(NamedTuple):
    """ILLEGAL_GENERATION: the generations of the request and of the group."""

    sent: int
    current: int


class MetadataTooLong(NamedTuple):
    """OFFSET_METADATA_TOO_LARGE: the longest metadata of the commit in UTF-16 units, and the bound
    offset.metadata.max.bytes.
    """

    length: int
    max_length: int


class RecordsTooLarge(NamedTuple):
    """UNKNOWN_SERVER_ERROR: the batch exceeds message.max.bytes, the bound of the log."""

    max_bytes: int


class MemberIdTooLong(NamedTuple):
    """UNKNOWN_SERVER_ERROR: the member id, built from the client id or instance id, would exceed the longest string
    of the protocol.
    """

    max_bytes: int


class RefusedOffset(NamedTuple):
    """An offset of a refused commit, and the offset committed at that time, or None."""

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
