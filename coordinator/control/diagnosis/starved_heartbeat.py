"""A connected member with less than a third of its session left, because its heartbeats come late.

This is a notice, because such a member may live for ever. An idle kafkajs consumer, for example, sends a request
every 5 s in a session of 6 s. Each member is reported once.

The oracle reads no heartbeats. A member cannot starve before two thirds of its session are over, so the next
check of a group waits until then. A member without a connection is disconnected rather than starved. A member
with a parked request has nothing to send.
"""

from typing import Final

from coordinator.control.diagnosis.oracle import (
    CHECK_PERIOD_MS,
    EventHandler,
    OracleContext,
    format_member_at,
)
from coordinator.control.diagnosis.violation import OracleFinding, OracleName, Severity
from coordinator.core.message_text import format_seconds
from coordinator.group.group_event_types import (
    ConsumerMemberJoined,
    GroupDeleted,
    GroupEmptied,
    GroupEvent,
    GroupLoaded,
    RebalanceCompleted,
    RebalanceStarted,
)
from coordinator.group.group_view import GroupView, MemberView

SESSION_DIVISOR: Final = 3
"""The reported members have less than one part in `SESSION_DIVISOR` of their session left."""
MAX_CHECK_INTERVAL_MS: Final = 60_000
"""The maximum time between two checks of a group, in milliseconds."""
_CLASSIC_SETTINGS: Final = (
    "session.timeout.ms (in kafkajs sessionTimeout)",
    "heartbeat.interval.ms (in kafkajs heartbeatInterval)",
)
_CONSUMER_SETTINGS: Final = ("group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms")


class StarvedHeartbeat:
    """Checks every group that has members."""

    name: Final = OracleName.STARVED_HEARTBEAT
    severities: Final = frozenset({Severity.NOTICE})

    def __init__(self, context: OracleContext) -> None:
        self._context = context
        self._reported: dict[str, set[str]] = {}
        """The ids of the reported members, by group."""
        self.handlers: dict[type[GroupEvent], EventHandler] = {
            RebalanceStarted: self._on_group_changed,
            RebalanceCompleted: self._on_group_changed,
            GroupLoaded: self._on_group_changed,
            ConsumerMemberJoined: self._on_group_changed,
            GroupEmptied: self._on_group_ended,
            GroupDeleted: self._on_group_ended,
        }

    def _on_group_changed(self, event: GroupEvent) -> None:
        self._context.schedule_check(self.name, event.group_id, CHECK_PERIOD_MS)

    def _on_group_ended(self, event: GroupEvent) -> None:
        self._reported.pop(event.group_id, None)
        self._context.cancel_check(self.name, event.group_id)

    def check_group(self, group_id: str) -> None:
        """Report the members with little time left in their sessions, each member once."""
        view = self._context.find_group(group_id)
        before = self._reported.pop(group_id, set())
        if view is None or not view.members:
            return
        reported = before & {member.name.member_id for member in view.members}
        candidates = [
            member for member in view.members if member.name.member_id not in reported and _may_starve(member)
        ]
        late = [member for member in candidates if _compute_spare_ms(member) < 0]
        if late:
            connections = self._context.find_open_connections()
            late = [member for member in late if member.connection_id in connections]
        for member in late:
            self._report(view, member)
            reported.add(member.name.member_id)
        if reported:
            self._reported[group_id] = reported
        spare_ms = [_compute_spare_ms(member) for member in candidates if member not in late]
        self._context.schedule_check(
            self.name,
            group_id,
            min([MAX_CHECK_INTERVAL_MS, *(max(CHECK_PERIOD_MS, ms + 1) for ms in spare_ms)]),
        )

    def _report(self, view: GroupView, member: MemberView) -> None:
        is_classic = member.consumer is None or member.consumer.uses_classic_protocol
        session, interval = _CLASSIC_SETTINGS if is_classic else _CONSUMER_SETTINGS
        self._context.report_finding(
            OracleFinding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=view.group_id,
                generation_id=view.generation_id,
                identity=member.name.member_id,
                subject=member.name.member_id,
                detail=f"{format_member_at(member.name)} is connected and was not heard for "
                f"{format_seconds(member.silent_ms)}: "
                f"{format_seconds(member.session_left_ms)} are left of its session of "
                f"{format_seconds(member.session_timeout_ms)}. Raise {session} or lower {interval}.",
                members=[member.name],
            )
        )


def _may_starve(member: MemberView) -> bool:
    return not (member.is_new or member.is_awaiting_join or member.is_awaiting_sync)


def _compute_spare_ms(member: MemberView) -> int:
    """Return the milliseconds for which a member may still be silent before it starves; negative if it
    starves."""
    return member.session_left_ms - member.session_timeout_ms // SESSION_DIVISOR
