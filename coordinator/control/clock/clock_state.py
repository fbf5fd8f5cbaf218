"""What people are told of clocks: how they stand, and what came of moving one."""

from typing import Literal

from msgspec import Struct, field

ClockOf = Literal["group", "default", "process"]


class NextDeadline(Struct, frozen=True, kw_only=True):
    """What time alone will bring about next. `timer`: "session", "pending" (somebody who was given a member id and
    has not joined), "join", "sync"; of members of consumer groups "session", "revocation" (partitions to be given
    up), "rejoin" and "resync" (one of the classic protocol has yet to send that). `member` is whose, null where it
    is the group's; `in_ms` is group time."""

    timer: str
    member: str | None
    member_id: str | None
    group_id: str
    in_ms: int


class ClockState(Struct, frozen=True, kw_only=True):
    """A clock. `clock` says whose it is: the group's own, the default of all groups, or the process's, which nobody
    moves. `except`: "gone" where members that are gone expire all the same. `ahead_ms` is how far it is ahead of
    the process (less than 0: behind); times are Unix time. `next` is of this group, null for the default."""

    group_id: str | None
    clock: ClockOf
    frozen: bool
    except_: Literal["gone"] | None = field(default=None, name="except")
    group_time_ms: int
    real_time_ms: int
    ahead_ms: int
    next: NextDeadline | None = None


class Fired(Struct, frozen=True, kw_only=True):
    """A deadline that passed, at a Unix group time, and what came of it. `timer`: as above, or "retention"."""

    timer: str
    group_id: str
    member: str | None
    member_id: str | None
    at_ms: int
    events: list[str]


class Advanced(Struct, frozen=True, kw_only=True):
    """A clock was moved by `by_ms`. `silent` are the client ids of members that counted as such; `waited_ms` is how
    long members were waited for in reality."""

    by_ms: int
    fired: list[Fired]
    silent: list[str]
    waited_ms: int
    clock: ClockState


class MemberExpired(Struct, frozen=True, kw_only=True):
    """`expired` is the member id. `rebalance` is the generation that the group is on the way to, null where it is
    on the way to none; `seq` is the number of the last event that this made."""

    expired: str
    client_id: str
    rebalance: int | None
    seq: int | None


class MemberRemoved(Struct, frozen=True, kw_only=True):
    """The same of a member that was sent away."""

    removed: str
    client_id: str
    rebalance: int | None
    seq: int | None


class MemberDisconnected(Struct, frozen=True, kw_only=True):
    """`connections` is how many were closed."""

    disconnected: str
    client_id: str
    connections: int


class OffsetsExpired(Struct, frozen=True, kw_only=True):
    """`expired`: partitions by topic. `group` is whether it is left. `as_of_ms`: when retention looked, Unix time.
    `why_not` says why nothing expired."""

    expired: dict[str, list[int]]
    group: Literal["kept", "deleted"]
    as_of_ms: int
    why_not: str | None
