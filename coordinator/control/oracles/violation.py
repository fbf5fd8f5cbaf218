"""Something that must not happen, and did. Text of clients in `detail` is printable; elsewhere it is as it came."""

from enum import StrEnum

from msgspec import Struct, field


class Level(StrEnum):
    """An error is wrong whatever the application wants; a warning may be what somebody does on purpose."""

    ERROR = "error"
    WARNING = "warning"


class OracleName(StrEnum):
    """The rules."""

    DOUBLE_OWNER = "double_owner"
    ORPHAN_PARTITION = "orphan_partition"
    COMMIT_WENT_BACK = "commit_went_back"
    ZOMBIE_COMMIT = "zombie_commit"
    STUCK_REBALANCE = "stuck_rebalance"
    STARVED_HEARTBEAT = "starved_heartbeat"
    FLAPPING = "flapping"
    COMMIT_BEYOND_END = "commit_beyond_end"
    ASSIGNMENT_OF_NOBODY = "assignment_of_nobody"


class InvolvedMember(Struct, frozen=True, kw_only=True):
    """A member, or who took itself for one."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str


class WrittenOffset(Struct, frozen=True, kw_only=True):
    """An offset, and who wrote it, or tried to; null where that is not known, or nobody did."""

    offset: int | None
    member_id: str | None
    client_id: str | None
    generation_id: int | None


class Violation(Struct, frozen=True, kw_only=True):
    """See the top of this file. `seq` counts up from 1; `at_ms` is Unix time, `last_at_ms` that of the last of
    `times` that the same was found. `partitions` ("orders-3") are those that it is about, the first of them also as
    `topic` and `partition`; of many only some are named. `members`: whose doing it is, first, and whom it concerns.
    `from` and `to`, of commits: what was committed before, and what was written over it, or was to be."""

    seq: int
    at_ms: int
    last_at_ms: int
    times: int
    oracle: OracleName
    level: Level
    group_id: str
    generation_id: int | None
    topic: str | None
    partition: int | None
    partitions: list[str]
    members: list[InvolvedMember]
    detail: str
    from_: WrittenOffset | None = field(name="from")
    to: WrittenOffset | None
