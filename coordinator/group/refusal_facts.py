"""What a refused request offered, against what the group has or the configuration allows."""

from typing import NamedTuple, TypeAlias


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
    """ILLEGAL_GENERATION."""

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
