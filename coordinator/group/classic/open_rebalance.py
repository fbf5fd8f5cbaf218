"""What is known of the rebalance that a group is in."""

from typing import Final

from coordinator.group.classic.member import Member
from coordinator.group.rebalance_facts import Trigger
from coordinator.group.state import ClassicGroupState

FIRST_REPORT_MS: Final = 10_000
"""So long a group has to wait before it says whom for. It says so again each time that has doubled,"""
LONGEST_SILENCE_MS: Final = 300_000
"""and at least this often."""


class OpenRebalance:
    """Why, since when and how often begun, and where its time went. It is there from the moment that a rebalance
    starts until every member has asked for its assignment, or none is left; soft, as who waits is.

    `trigger` began it, `latest` began the last of `attempts`; `from_state` is the group's before. Times are
    monotonic. `phase_started_ms` is when the present phase began, or the group became Stable; `join_ms` and
    `sync_ms` are what earlier phases took; `last_joined` came last to the join phase, at `last_joined_ms`.
    `report_deadline_ms` is when it says again whom it waits for."""

    __slots__ = (
        "attempts",
        "from_state",
        "join_ms",
        "last_joined",
        "last_joined_ms",
        "latest",
        "phase_started_ms",
        "report_deadline_ms",
        "started_ms",
        "sync_ms",
        "trigger",
    )

    def __init__(self, trigger: Trigger, from_state: ClassicGroupState, now_ms: int) -> None:
        self.trigger = trigger
        self.latest = trigger
        self.attempts = 1
        self.from_state = from_state
        self.started_ms = now_ms
        self.phase_started_ms = now_ms
        self.join_ms = 0
        self.sync_ms = 0
        self.last_joined: Member | None = None
        self.last_joined_ms = now_ms
        self.report_deadline_ms = now_ms + FIRST_REPORT_MS

    def begin_again(self, trigger: Trigger, now_ms: int) -> None:
        """The sync phase was broken off; a join phase begins."""
        self.latest = trigger
        self.attempts += 1
        self.end_sync_phase(now_ms)

    def end_join_phase(self, now_ms: int) -> None:
        """All who will join have joined."""
        self.join_ms += now_ms - self.phase_started_ms
        self.phase_started_ms = now_ms
        if self.last_joined_ms != now_ms:
            self.last_joined = None  # something else ended it, later

    def end_sync_phase(self, now_ms: int) -> None:
        """The assignment is there, or will not come."""
        self.sync_ms += now_ms - self.phase_started_ms
        self.phase_started_ms = now_ms

    def note_join(self, member: Member, now_ms: int) -> None:
        """A member came to the join phase."""
        self.last_joined = member
        self.last_joined_ms = now_ms

    def move(self, by_ms: int) -> None:
        """The clock was set by so much."""
        self.started_ms += by_ms
        self.phase_started_ms += by_ms
        self.last_joined_ms += by_ms
        self.report_deadline_ms += by_ms
