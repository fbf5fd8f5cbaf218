"""What is noted of one member while a rebalance goes on. Times are the group's, monotonic."""

from coordinator.group.member_name import MemberName
from coordinator.group.rebalance_facts import Assigned


class MemberTrack:
    """See the top of this file. `was_there`: it was a member when the rebalance began, so that it has to rejoin;
    `is_new`: it was added in this rebalance; `id_given_ms`: when one that had not joined yet was given its id;
    `commits_refused` counts requests."""

    __slots__ = (
        "assigned",
        "commits_refused",
        "gone",
        "gone_ms",
        "had",
        "id_given_ms",
        "is_new",
        "name",
        "rejoined_ms",
        "synced_ms",
        "told_by_heartbeat",
        "told_ms",
        "was_there",
    )

    def __init__(self, name: MemberName, *, was_there: bool) -> None:
        self.name = name
        self.was_there = was_there
        self.is_new = False
        self.id_given_ms: int | None = None
        self.told_ms: int | None = None
        self.told_by_heartbeat = True
        """And not by the answer to another request."""
        self.rejoined_ms: int | None = None
        self.synced_ms: int | None = None
        self.assigned: Assigned | None = None
        """What it had and got; a static member may have been restarted since."""
        self.gone: str | None = None
        self.gone_ms: int | None = None
        self.had = b""
        """Of one that is gone: the assignment of its last Stable generation."""
        self.commits_refused = 0
