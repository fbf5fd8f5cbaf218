"""What goes into the core besides the request, and what comes out of it.

The contract of an `Outcome`, for whoever runs the core:

1. append `records`, atomically and in order; they are applied to memory already;
2. send `replies` once the log is durable to this point (a heartbeat's need not wait);
3. set or cancel `timers`; call `Shard.fire` with the key when its deadline has passed;
4. number the `events` and hand them to whoever wants to know.

When the append fails, the shard is thrown away and loaded again from disk: there is no undo.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from coordinator.group.events import Event
from protocol.records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

CURRENT_VALUE_VERSION: Final = 3
"""The version in which Kafka 4 writes the values of group metadata, and of offset commits for topics whose
id is not known."""

TOPIC_ID_VALUE_VERSION: Final = 4
"""The version of an offset commit's value that has the topic's id."""

EXPIRING_OFFSET_VALUE_VERSION: Final = 1
"""The version of an offset commit's value that has an explicit expire timestamp."""


class Now(NamedTuple):
    """The time of a call: `monotonic_ms` for timers, `wall_ms` (since the epoch) for records."""

    monotonic_ms: int
    wall_ms: int


@dataclass(slots=True)
class Context:
    """Who asks. `waiter` is where the reply goes; `client_host` has Java's leading slash ("/127.0.0.1");
    `new_member_uuid` is the text of a fresh random UUID, needed when a JoinGroup has no member id."""

    waiter: int
    api_version: int
    client_id: str
    client_host: str
    new_member_uuid: str = ""


@dataclass(slots=True)
class Record:
    """A durable fact for `__consumer_offsets`; a value of None is a tombstone."""

    key: OffsetCommitKey | GroupMetadataKey
    value: OffsetCommitValue | GroupMetadataValue | None
    value_version: int = CURRENT_VALUE_VERSION


class TimerKind(IntEnum):
    """What a timer is for."""

    HEARTBEAT = 0
    JOIN = 1
    SYNC = 2
    EXPIRE_OFFSETS = 3
    REPORT = 4


class TimerKey(NamedTuple):
    """Names a timer: HEARTBEAT per member (pending ones too), JOIN, SYNC and REPORT per group, EXPIRE_OFFSETS
    per shard. What the kind does not need is ""."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""

    def __str__(self) -> str:
        return "-".join([self.kind.name.lower(), *(part for part in self[1:] if part)])


NO_TIMERS: Final[Mapping[TimerKey, int | None]] = MappingProxyType({})


@dataclass(slots=True)
class Outcome:
    """The result of one call. `replies` pairs waiters with response messages; `timers` maps keys to
    absolute deadlines in monotonic milliseconds, None cancels. See the module's text for the contract."""

    records: Sequence[Record] = ()
    replies: Sequence[tuple[int, object]] = ()
    timers: Mapping[TimerKey, int | None] = field(default_factory=lambda: NO_TIMERS)
    events: Sequence[Event] = ()
