"""API models of clocks and of the results of clock and member operations, and their text for a terminal."""

from typing import Literal

from msgspec import Struct, field

from coordinator.core.message_text import format_count, format_duration, printable
from coordinator.core.wire_name import wire_name

ClockOwner = Literal["group", "default", "process"]


@wire_name("NextDeadline")
class NextDeadline(Struct, frozen=True, kw_only=True):
    """The next deadline of a group, in `in_ms` milliseconds of group time. `member` is null for a deadline of the
    group.

    - `timer` of a classic group: "session", "pending" (a client has a member id and has not joined), "join",
      "sync".
    - `timer` of a member of a consumer group: "session", "revocation" (it must revoke partitions), "rejoin" and
      "resync" (a classic member must send that request).
    """

    timer: str
    member: str | None
    member_id: str | None
    group_id: str
    in_ms: int


@wire_name("ClockState")
class ClockState(Struct, frozen=True, kw_only=True):
    """A clock. `clock` is the owner: the group, the default of all groups, or the process, which never
    changes. `except` is "gone" if disconnected members expire although the clock is frozen. `ahead_ms` is the
    difference to the process (negative: behind). Times are Unix time. `next` is the next deadline of this group,
    null for the default."""

    group_id: str | None
    clock: ClockOwner
    frozen: bool
    except_: Literal["gone"] | None = field(default=None, name="except")
    group_time_ms: int
    real_time_ms: int
    ahead_ms: int
    next: NextDeadline | None = None


@wire_name("Fired")
class FiredDeadline(Struct, frozen=True, kw_only=True):
    """A deadline that passed, with its Unix group time and its effect. `timer` is as in NextDeadline, or
    "retention"."""

    timer: str
    group_id: str
    member: str | None
    member_id: str | None
    at_ms: int
    events: list[str]


@wire_name("Advanced")
class ClockAdvanceResult(Struct, frozen=True, kw_only=True):
    """An advance of a clock by `by_ms`. `silent` are the client ids of silent members. `waited_ms` is the real
    time for which the advance waited for members."""

    by_ms: int
    fired: list[FiredDeadline]
    silent: list[str]
    waited_ms: int
    clock: ClockState


@wire_name("MemberExpired")
class MemberExpiryResult(Struct, frozen=True, kw_only=True):
    """The expiry of a member. `expired` is the member id. `rebalance` is the generation that the current
    rebalance leads to, null without a rebalance. `seq` is the number of the last event of the expiry."""

    expired: str
    client_id: str
    rebalance: int | None
    seq: int | None


@wire_name("MemberRemoved")
class MemberRemovalResult(Struct, frozen=True, kw_only=True):
    """The removal of a member by an operator. `removed` is the member id. `rebalance` is the generation that the
    current rebalance leads to, null without a rebalance. `seq` is the number of the last event of the removal."""

    removed: str
    client_id: str
    rebalance: int | None
    seq: int | None


@wire_name("MemberDisconnected")
class MemberDisconnectResult(Struct, frozen=True, kw_only=True):
    """The disconnection of a member. `disconnected` is the member id, `connections` the number of closed
    connections."""

    disconnected: str
    client_id: str
    connections: int


@wire_name("OffsetsExpired")
class OffsetExpiryResult(Struct, frozen=True, kw_only=True):
    """The expiry of committed offsets. `expired` are the partitions by topic. `group` says whether the group
    still exists. `as_of_ms` is the Unix time for which the retention was checked. `why_not` is the reason if
    nothing expired."""

    expired: dict[str, list[int]]
    group: Literal["kept", "deleted"]
    as_of_ms: int
    why_not: str | None


def format_clock(state: ClockState) -> str:
    """Describe the state of a clock."""
    who = "The default clock" if state.group_id is None else f"The clock of {printable(state.group_id)}"
    if state.clock == "process":
        return f"{who} is the clock of the process, which always runs." + _format_next(state.next)
    of_default = " (as the default clock)" if state.clock == "default" and state.group_id is not None else ""
    does = "is frozen" if state.frozen else "runs"
    if state.except_ is not None:
        does += ", except for disconnected members"
    if abs(state.ahead_ms) < 1:
        where = "equal to the process's"
    else:
        way = "ahead of" if state.ahead_ms > 0 else "behind"
        where = f"{format_duration(abs(state.ahead_ms))} {way} the process's"
    return f"{who}{of_default} {does}, {where}." + _format_next(state.next)


def _format_next(deadline: NextDeadline | None) -> str:
    if deadline is None:
        return ""
    whose = "" if deadline.member is None else f" of {printable(deadline.member)}"
    return f" Next: {deadline.timer}{whose} in {format_duration(deadline.in_ms)}."


def format_advance(advanced: ClockAdvanceResult) -> str:
    """Return the fired deadlines and their effects as text."""
    lines = [f"{format_duration(advanced.by_ms)} passed. {format_clock(advanced.clock)}"]
    if advanced.silent:
        lines.append(f"  silent: {', '.join(map(printable, advanced.silent))}")
    lines += [_format_fired(fired) for fired in advanced.fired]
    if not advanced.fired:
        lines.append("  no event followed")
    return "\n".join(lines)


def _format_fired(fired: FiredDeadline) -> str:
    whose = "" if fired.member is None else f" of {printable(fired.member)}"
    return f"  {printable(fired.group_id)}: {fired.timer}{whose}: {', '.join(fired.events) or 'nothing'}"


def format_member_expiry(expired: MemberExpiryResult) -> str:
    """Return the expired member as text."""
    return (
        f"The session of {printable(expired.client_id)} ({printable(expired.expired)}) is over."
        + _format_rebalance(expired.rebalance)
    )


def format_member_removal(removed: MemberRemovalResult) -> str:
    """Describe a removed member."""
    return f"{printable(removed.client_id)} ({printable(removed.removed)}) was removed." + _format_rebalance(
        removed.rebalance
    )


def _format_rebalance(rebalance: int | None) -> str:
    return "" if rebalance is None else f" The group rebalances to generation {rebalance}."


def format_disconnect(disconnected: MemberDisconnectResult) -> str:
    """Describe a disconnected member."""
    closed = format_count(disconnected.connections, "connection")
    return f"{closed} of {printable(disconnected.client_id)} ({printable(disconnected.disconnected)}) closed."


def format_offset_expiry(expired: OffsetExpiryResult) -> str:
    """Describe the expired offsets."""
    if expired.why_not is not None:
        return f"Nothing expired. {expired.why_not}"
    lines = [
        f"{printable(topic)}: {', '.join(map(str, partitions))}"
        for topic, partitions in expired.expired.items()
    ]
    if expired.group == "deleted":
        lines.append("The group is deleted.")
    return "\n".join(lines)
