"""What came of moving clocks, as people read it in a terminal."""

from itertools import pairwise
from typing import Final

from coordinator.control.clock.clock_state import (
    Advanced,
    ClockState,
    Fired,
    MemberDisconnected,
    MemberExpired,
    MemberRemoved,
    NextDeadline,
    OffsetsExpired,
)
from coordinator.net.peer import printable

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def duration_text(ms: int) -> str:
    """ "45.0 s", "5 min 3 s", "8 d 2 h": to the nearest of the smaller unit."""
    for (unit_ms, unit), (smaller_ms, smaller) in pairwise(_UNITS):
        whole, rest = divmod(round(ms / smaller_ms), unit_ms // smaller_ms)
        if whole:
            return f"{whole} {unit} {rest} {smaller}" if rest else f"{whole} {unit}"
    return f"{ms / 1000:.1f} s"


def clock_text(state: ClockState) -> str:
    """How a clock stands."""
    who = "The default clock" if state.group_id is None else f"The clock of {printable(state.group_id)}"
    if state.clock == "process":
        return f"{who} is the process's: it runs, and nobody has moved it." + _next_text(state.next)
    of_default = " (that of the default)" if state.clock == "default" and state.group_id is not None else ""
    does = "is frozen" if state.frozen else "runs"
    if state.except_ is not None:
        does += ", but for members that are gone"
    if abs(state.ahead_ms) < 1:
        where = "with the process's"
    else:
        way = "ahead of" if state.ahead_ms > 0 else "behind"
        where = f"{duration_text(abs(state.ahead_ms))} {way} the process's"
    return f"{who}{of_default} {does}, {where}." + _next_text(state.next)


def _next_text(deadline: NextDeadline | None) -> str:
    if deadline is None:
        return ""
    whose = "" if deadline.member is None else f" of {printable(deadline.member)}"
    return f" Next: {deadline.timer}{whose} in {duration_text(deadline.in_ms)}."


def advanced_text(advanced: Advanced) -> str:
    """What passed, and what came of it."""
    lines = [f"{duration_text(advanced.by_ms)} passed. {clock_text(advanced.clock)}"]
    if advanced.silent:
        lines.append(f"  silent: {', '.join(map(printable, advanced.silent))}")
    lines += [_fired_text(fired) for fired in advanced.fired]
    if not advanced.fired:
        lines.append("  nothing came of it")
    return "\n".join(lines)


def _fired_text(fired: Fired) -> str:
    whose = "" if fired.member is None else f" of {printable(fired.member)}"
    return f"  {printable(fired.group_id)}: {fired.timer}{whose}: {', '.join(fired.events) or 'nothing'}"


def expired_text(expired: MemberExpired) -> str:
    """Whose session ended."""
    return f"The session of {printable(expired.client_id)} ({printable(expired.expired)}) is over." + _then(
        expired.rebalance
    )


def removed_text(removed: MemberRemoved) -> str:
    """Who was sent away."""
    return f"{printable(removed.client_id)} ({printable(removed.removed)}) was sent away." + _then(
        removed.rebalance
    )


def _then(rebalance: int | None) -> str:
    return "" if rebalance is None else f" The group rebalances to generation {rebalance}."


def disconnected_text(disconnected: MemberDisconnected) -> str:
    """Whose connections were closed."""
    count = disconnected.connections
    closed = f"{count} connection{'' if count == 1 else 's'} of {printable(disconnected.client_id)}"
    return f"{closed} ({printable(disconnected.disconnected)}) closed."


def offsets_text(expired: OffsetsExpired) -> str:
    """Which offsets are gone."""
    if expired.why_not is not None:
        return f"Nothing expired. {expired.why_not}"
    lines = [
        f"{printable(topic)}: {', '.join(map(str, partitions))}"
        for topic, partitions in expired.expired.items()
    ]
    if expired.group == "deleted":
        lines.append("The group is deleted.")
    return "\n".join(lines)
