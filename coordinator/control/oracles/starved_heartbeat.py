"""A member that is there sends no heartbeat for so long that less than a third of its session is left.

No heartbeat is looked at. Who was heard at some time cannot starve before two thirds of its session are over, so
that a group is looked at again no earlier than that. A member without a connection is not starved but gone, and one
whose request is parked has nothing to send.
"""

from typing import Final

from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.oracle import Hear
from coordinator.control.oracles.violation import Level, OracleName
from coordinator.control.oracles.watch import SAMPLE_MS, Watch
from coordinator.control.oracles.words import who_at
from coordinator.group.consumer.events import ConsumerMemberJoined
from coordinator.group.events import (
    Event,
    GroupDeleted,
    GroupEmptied,
    GroupLoaded,
    RebalanceCompleted,
    RebalanceStarted,
)
from coordinator.group.view import GroupView, MemberView
from coordinator.server.log_words import seconds

PART: Final = 3
"""The share of the session that has to be left."""
LONGEST_MS: Final = 60_000
"""Without a member that could starve before, a group is looked at this often."""


class StarvedHeartbeat:
    """Looks at every group that has members."""

    name: Final = OracleName.STARVED_HEARTBEAT

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._starved: dict[str, set[str]] = {}
        """The ids of those who are just now, by group."""
        self.hears: dict[type[Event], Hear] = {
            RebalanceStarted: self._changed,
            RebalanceCompleted: self._changed,
            GroupLoaded: self._changed,
            ConsumerMemberJoined: self._changed,
            GroupEmptied: self._ended,
            GroupDeleted: self._ended,
        }

    def _changed(self, event: Event) -> None:
        self._watch.look_in(self.name, event.group_id, SAMPLE_MS)

    def _ended(self, event: Event) -> None:
        self._starved.pop(event.group_id, None)
        self._watch.look_no_more(self.name, event.group_id)

    def look(self, group_id: str) -> None:
        """Who has little left now."""
        view = self._watch.view(group_id)
        before = self._starved.pop(group_id, set())
        if view is None or not view.members:
            return
        late = [member for member in view.members if _may_starve(member) and _spare_ms(member) < 0]
        if late:
            connections = self._watch.open_connections()
            late = [member for member in late if member.connection_id in connections]
        for member in late:
            if member.name.member_id not in before:
                self._found(view, member)
        if late:
            self._starved[group_id] = {member.name.member_id for member in late}
        spare_ms = [_spare_ms(member) for member in view.members if _may_starve(member)]
        self._watch.look_in(
            self.name, group_id, min([LONGEST_MS, *(max(SAMPLE_MS, ms + 1) for ms in spare_ms)])
        )

    def _found(self, view: GroupView, member: MemberView) -> None:
        self._watch.found(
            Finding(
                oracle=self.name,
                level=Level.WARNING,
                group_id=view.group_id,
                generation_id=view.generation_id,
                about=member.name.member_id,
                detail=f"{who_at(member.name)} is connected and was not heard for {seconds(member.silent_ms)}: "
                f"{seconds(member.session_left_ms)} are left of its session of "
                f"{seconds(member.session_timeout_ms)}.",
                members=[member.name],
            )
        )


def _may_starve(member: MemberView) -> bool:
    return not (member.is_new or member.is_awaiting_join or member.is_awaiting_sync)


def _spare_ms(member: MemberView) -> int:
    """For how long it may be silent before it starves; below 0 when it does."""
    return member.session_left_ms - member.session_timeout_ms // PART
