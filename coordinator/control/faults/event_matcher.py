"""Whether something that happened in a group is what a rule waits for."""

from collections.abc import Iterator
from typing import Final

from coordinator.control.faults.patterns import (
    any_fits,
    impossible,
    known_names,
    names_pattern,
    number_pattern,
)
from coordinator.control.faults.rule import OnEvent
from coordinator.group import events
from coordinator.group.events import Event
from coordinator.server.log_lines import SILENT

_ABSTRACT: Final = {
    events.GroupEvent,
    events.Event,
    events.GenerationEvent,
    events.MemberEvent,
    events.Refused,
}


def _all_below(base: type[Event]) -> Iterator[type[Event]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _all_below(kind)


KINDS: Final = {kind.__name__: kind for kind in _all_below(Event) if kind not in _ABSTRACT}


class EventMatcher:
    """What is awaited, made ready. Raises Problem where it could never come."""

    def __init__(self, on: OnEvent) -> None:
        names = known_names(on.event, KINDS, "/on/event", "an event of a group")
        self._kinds = frozenset(KINDS[name] for name in names)
        if self._kinds <= set(SILENT):
            raise impossible("/on/event", f"Nobody is told of {on.event}")
        self._group = None if on.group is None else names_pattern(on.group, "/on/group")
        self._generation = None if on.generation is None else number_pattern(on.generation, "/on/generation")
        self._client_id = None if on.client_id is None else names_pattern(on.client_id, "/on/client_id")
        self._member_id = None if on.member_id is None else names_pattern(on.member_id, "/on/member_id")
        self._instance_id = (
            None
            if on.group_instance_id is None
            else names_pattern(on.group_instance_id, "/on/group_instance_id")
        )

    def fits(self, event: Event) -> bool:
        """Whether it is what is awaited."""
        if type(event) not in self._kinds or not any_fits(self._group, (event.group_id,)):
            return False
        if self._generation is not None and (
            event.generation_id is None or not self._generation(event.generation_id)
        ):
            return False
        member = event.member
        if member is None:
            return self._client_id is self._member_id is self._instance_id is None
        return (
            any_fits(self._client_id, (member.client_id,))
            and any_fits(self._member_id, (member.member_id,))
            and any_fits(
                self._instance_id, () if member.group_instance_id is None else (member.group_instance_id,)
            )
        )
