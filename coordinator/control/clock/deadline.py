"""A deadline of a group, as people call it."""

from typing import Final, NamedTuple

from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.group.view import GroupView

REPORT: Final = "report"
_WORDS: Final = {TimerKind.JOIN: "join", TimerKind.SYNC: "sync", TimerKind.REPORT: REPORT}
_OF_MEMBERS: Final = {
    TimerKind.HEARTBEAT: "session",
    TimerKind.CONSUMER_SESSION: "session",
    TimerKind.CONSUMER_REBALANCE: "revocation",
    TimerKind.CLASSIC_MEMBER_JOIN: "rejoin",
    TimerKind.CLASSIC_MEMBER_SYNC: "resync",
}
SESSIONS: Final = (TimerKind.HEARTBEAT, TimerKind.CONSUMER_SESSION)
"""What goes on as long as a member lives."""


class Deadline(NamedTuple):
    """`at_ms` is monotonic group time. A "report" is a line of the log and nothing else."""

    at_ms: int
    key: TimerKey
    timer: str
    client_id: str | None
    """Whose session or pending join it is; None: the group's."""


def deadlines_of(view: GroupView, deadlines: dict[TimerKey, int]) -> list[Deadline]:
    """Those of one group, the earliest first."""
    pending = {one.name.member_id: one.name.client_id for one in view.pending}
    clients = {member.name.member_id: member.name.client_id for member in view.members}
    found = []
    for key, at_ms in deadlines.items():
        if key.kind in _WORDS:
            found.append(Deadline(at_ms, key, _WORDS[key.kind], None))
        elif key.member_id in pending:
            found.append(Deadline(at_ms, key, "pending", pending[key.member_id]))
        else:
            found.append(Deadline(at_ms, key, _OF_MEMBERS[key.kind], clients[key.member_id]))
    return sorted(found, key=lambda deadline: deadline.at_ms)
