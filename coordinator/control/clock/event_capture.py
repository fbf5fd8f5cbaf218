"""Captures group events during an operation, and summarises each in a few words, such as "GroupStabilized 5"."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from coordinator.broker.group_event_log import EventRank, GroupEventBus
from coordinator.core.message_text import printable
from coordinator.core.outcome import Now
from coordinator.core.wire_name import get_wire_name
from coordinator.group.group_event_types import (
    GroupEmptied,
    GroupEvent,
    GroupStabilized,
    MembersEvicted,
    OffsetsExpired,
    RebalanceCompleted,
    RebalanceWaits,
)


class EventCapture:
    """The captured events of one group or of all groups, in their order, and the number of the last one."""

    def __init__(self, group_id: str | None) -> None:
        self.events: list[GroupEvent] = []
        self.last_seq: int | None = None
        self._group_id = group_id

    def on_event(self, partition: int, event: GroupEvent, number: int, now: Now) -> None:
        if self._group_id in (None, event.group_id):
            self.events.append(event)
            self.last_seq = number


@contextmanager
def capture_events(bus: GroupEventBus, group_id: str | None) -> Iterator[EventCapture]:
    """Capture the events of a group, or of all groups, until the block ends."""
    capture = EventCapture(group_id)
    bus.subscribe(EventRank.COMMANDS, capture.on_event)
    try:
        yield capture
    finally:
        bus.unsubscribe(capture.on_event)


_GENERATION_EVENTS: Final = (GroupEmptied, GroupStabilized, RebalanceCompleted)
_REPORT_EVENTS: Final = (RebalanceWaits,)
"""Events of "report" deadlines, which change nothing."""


def summarize_events(events: Iterable[GroupEvent]) -> list[str]:
    """Summarise events, such as "MembersEvicted bob" and "GroupStabilized 5". Reports are left out."""
    return [_summarize_event(event) for event in events if not isinstance(event, _REPORT_EVENTS)]


def _summarize_event(event: GroupEvent) -> str:
    kind = get_wire_name(type(event))
    if isinstance(event, MembersEvicted):
        return f"{kind} {', '.join(printable(member.client_id) for member in event.members)}"
    if isinstance(event, _GENERATION_EVENTS):
        return f"{kind} {event.generation_id}"
    if isinstance(event, OffsetsExpired):
        return f"{kind} {event.partitions}"
    return kind if event.member is None else f"{kind} {printable(event.member.client_id)}"
