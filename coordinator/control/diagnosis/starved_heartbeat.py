"""A connected member with less than a third of its session left, because its heartbeats come late.

This is a notice: such a member may live for ever. An idle kafkajs consumer, for example, sends something every 5 s,
in a session of 6 s. Each member is reported once.

The oracle looks at no heartbeat. A member cannot starve before two thirds of its session are over, so the oracle
looks at a group again no earlier than that. A member without a connection is gone rather than starved, and one with
a parked request has nothing to send.
"""

from typing import Final

from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.oracle import Hear
from coordinator.control.oracles.violation import OracleName, Severity
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
_CLASSIC_SETTINGS: Final = (
    "session.timeout.ms (in kafkajs sessionTimeout)",
    "heartbeat.interval.ms (in kafkajs heartbeatInterval)",
)
_CONSUMER_SETTINGS: Final = ("group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms")


class StarvedHeartbeat:
    """Looks at every group that has members."""

    name: Final = OracleName.STARVED_HEARTBEAT
    severities: Final = frozenset({Severity.NOTICE})

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._reported: dict[str, set[str]] = {}
        """The ids of the members that were reported, by group."""
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
        self._reported.pop(event.group_id, None)
        self._watch.look_no_more(self.name, event.group_id)

    def look(self, group_id: str) -> None:
        """Report the members that have little of their session left, and have not been reported before."""
        view = self._watch.view(group_id)
        before = self._reported.pop(group_id, set())
        if view is None or not view.members:
            return
        reported = before & {member.name.member_id for member in view.members}
        candidates = [
            member for member in view.members if member.name.member_id not in reported and _may_starve(member)
        ]
        late = [member for member in candidates if _spare_ms(member) < 0]
        if late:
            connections = self._watch.open_connections()
            late = [member for member in late if member.connection_id in connections]
        for member in late:
            self._report(view, member)
            reported.add(member.name.member_id)
        if reported:
            self._reported[group_id] = reported
        spare_ms = [_spare_ms(member) for member in candidates if member not in late]
        self._watch.look_in(
            self.name, group_id, min([LONGEST_MS, *(max(SAMPLE_MS, ms + 1) for ms in spare_ms)])
        )

    def _report(self, view: GroupView, member: MemberView) -> None:
        is_classic = member.consumer is None or member.consumer.uses_classic_protocol
        session, interval = _CLASSIC_SETTINGS if is_classic else _CONSUMER_SETTINGS
        self._watch.found(
            Finding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=view.group_id,
                generation_id=view.generation_id,
                about=member.name.member_id,
                subject=member.name.member_id,
                detail=f"{who_at(member.name)} is connected and was not heard for {seconds(member.silent_ms)}: "
                f"{seconds(member.session_left_ms)} are left of its session of "
                f"{seconds(member.session_timeout_ms)}. Raise {session} or lower {interval}.",
                members=[member.name],
            )
        )


def _may_starve(member: MemberView) -> bool:
    return not (member.is_new or member.is_awaiting_join or member.is_awaiting_sync)


def _spare_ms(member: MemberView) -> int:
    """For how long it may be silent before it starves; below 0 when it does."""
    return member.session_left_ms - member.session_timeout_ms // PART
