"""Findings of the oracles: as an oracle reports them, and as the API lists them after repetitions are merged.

Text of clients in `detail` is printable; in other fields it is unchanged.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from coordinator.control.consumer_protocol_payloads import PartitionKey
from coordinator.core.wire_name import wire_name
from coordinator.group.event_details import MemberName


@wire_name("Severity")
class Severity(StrEnum):
    """The severity of a finding.

    A violation is wrong for every possible application: it is logged as an error, counts in
    `groupd_violations_total` and fails tests. A notice is unusual, but some applications do it on purpose: it is
    logged once at INFO, counts in `groupd_notices_total` only, and is listed.
    """

    VIOLATION = "violation"
    NOTICE = "notice"


@wire_name("Level")
class Level(StrEnum):
    """The severity under an older name, for clients that do not know `severity`: a violation is an error, a
    notice a warning."""

    ERROR = "error"
    WARNING = "warning"


LEVELS: Final[Mapping[Severity, Level]] = {
    Severity.VIOLATION: Level.ERROR,
    Severity.NOTICE: Level.WARNING,
}


@wire_name("OracleName")
class OracleName(StrEnum):
    """The names of the oracles."""

    DOUBLE_OWNER = "double_owner"
    ORPHAN_PARTITION = "orphan_partition"
    COMMIT_WENT_BACK = "commit_went_back"
    ZOMBIE_COMMIT = "zombie_commit"
    STUCK_REBALANCE = "stuck_rebalance"
    STARVED_HEARTBEAT = "starved_heartbeat"
    FLAPPING = "flapping"
    COMMIT_BEYOND_END = "commit_beyond_end"
    ASSIGNMENT_OF_NOBODY = "assignment_of_nobody"


@wire_name("InvolvedMember")
class InvolvedMember(Struct, frozen=True, kw_only=True):
    """A member, or a client that sends requests as one."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str


@wire_name("WrittenOffset")
class WrittenOffset(Struct, frozen=True, kw_only=True):
    """An offset and its writer, which is null if unknown."""

    offset: int | None
    member_id: str | None
    client_id: str | None
    generation_id: int | None


@wire_name("Violation")
class Violation(Struct, frozen=True, kw_only=True):
    """A violation or a notice, as `severity` says; `level` follows from `severity`. `seq` counts up from 1. A
    repeated finding is one entry with its first time (`at_ms`, Unix), its last time (`last_at_ms`) and its count
    (`times`). `partitions` ("orders-3") are the affected partitions. The first one is also in `topic` and
    `partition`; a long list is cut. `members` has the cause first, then the affected members. For commits, `from`
    is the previous offset and `to` the new one."""

    seq: int
    at_ms: int
    last_at_ms: int
    times: int
    oracle: OracleName
    severity: Severity
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleFinding:
    """A finding of an oracle. Findings with the same oracle, group and `identity` are one entry of the list. A
    notice is logged once for each oracle, group and `subject`: a member, or "" for the whole group. `Violation`
    describes the other fields."""

    oracle: OracleName
    severity: Severity
    group_id: str
    generation_id: int | None
    identity: Hashable
    detail: str
    members: Sequence[MemberName] = ()
    partitions: Sequence[PartitionKey] = ()
    before: WrittenOffset | None = None
    after: WrittenOffset | None = None
    subject: Hashable = ""

    @property
    def key(self) -> Hashable:
        """The key that repetitions of a finding share."""
        return self.oracle, self.group_id, self.identity

    @property
    def notice_key(self) -> Hashable:
        """The key that notices with one common log line share."""
        return self.oracle, self.group_id, self.subject
