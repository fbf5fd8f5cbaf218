"""A leader assigns partitions to ids that are no members': it works on an old list, and they are lost."""

from typing import Final

from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.oracle import Hear
from coordinator.control.oracles.violation import OracleName, Severity
from coordinator.control.oracles.watch import Watch
from coordinator.control.oracles.words import who
from coordinator.group.events import AssignmentReceived, Event
from coordinator.net.peer import printable
from coordinator.server.log_words import listed, short_id
from protocol.consumer_protocol import PROTOCOL_TYPE

_MOST_NAMED: Final = 5


class AssignmentOfNobody:
    """Hears of each assignment that a leader hands in."""

    name: Final = OracleName.ASSIGNMENT_OF_NOBODY
    severities: Final = frozenset({Severity.NOTICE})

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.hears: dict[type[Event], Hear] = {AssignmentReceived: self._received}

    def look(self, group_id: str) -> None:
        """It never asks for one."""

    def _received(self, event: AssignmentReceived) -> None:
        if not event.strangers:
            return
        view = self._watch.view(event.group_id)
        if view is None or view.protocol_type != PROTOCOL_TYPE:
            return
        ids = [printable(short_id(member_id)) for member_id in event.strangers[:_MOST_NAMED]]
        self._watch.found(
            Finding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=event.group_id,
                generation_id=event.generation_id,
                about=event.generation_id,
                detail=f"{who(event.member)}, the leader, assigns partitions to "
                f"{listed(ids, len(event.strangers))} in generation {event.generation_id}: there is no such "
                f"member.",
                members=[event.member],
                subject=event.member.member_id,
            )
        )
