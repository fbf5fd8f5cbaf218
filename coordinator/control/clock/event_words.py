"""What happened, in two or three words, for whoever moved a clock."""

from collections.abc import Iterable
from typing import Final

from coordinator.group.events import (
    Event,
    GroupEmptied,
    GroupStabilized,
    MembersEvicted,
    OffsetsExpired,
    RebalanceCompleted,
    RebalanceWaits,
)
from coordinator.net.peer import printable

_OF_A_GENERATION: Final = (GroupEmptied, GroupStabilized, RebalanceCompleted)
_LINES_ALONE: Final = (RebalanceWaits,)
"""Made by a "report", which changes nothing."""


def event_words(events: Iterable[Event]) -> list[str]:
    """ "MembersEvicted bob", "GroupStabilized 5"."""
    return [_words(event) for event in events if not isinstance(event, _LINES_ALONE)]


def _words(event: Event) -> str:
    kind = type(event).__name__
    if isinstance(event, MembersEvicted):
        return f"{kind} {', '.join(printable(member.client_id) for member in event.members)}"
    if isinstance(event, _OF_A_GENERATION):
        return f"{kind} {event.generation_id}"
    if isinstance(event, OffsetsExpired):
        return f"{kind} {event.partitions}"
    return kind if event.member is None else f"{kind} {printable(event.member.client_id)}"
