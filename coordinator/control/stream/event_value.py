"""What happened in a group as a JSON value: fields of the event, and the sentence that the log has of it.

Bytes are left out, and of long lists all but the first; the ledger tells who got what.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from msgspec import structs

from coordinator.group import events
from coordinator.group.member_name import MemberName
from coordinator.group.rebalance_facts import Awaited, Trigger
from coordinator.net.peer import printable
from coordinator.server.log_lines import event_line
from coordinator.server.log_words import member_at, printable_name

MAX_LISTED: Final = 20
MAX_TEXT: Final = 1_000

_SENTENCES: Final[Mapping[type[events.Event], str]] = {
    events.MemberRejoined: "{member} rejoins group {group}.",
    events.MemberToldToRejoin: "{member} learns from an answer that it has to rejoin group {group}.",
    events.SyncReceived: "{member} asks for its assignment in group {group}.",
    events.AssignmentApplied: "Group {group} is Stable in generation {generation}.",
    events.AssignmentFetched: "{member} is told its assignment in generation {generation} of group {group}.",
}
_LEFT_OUT: Final = frozenset({"group_id", "generation_id", "member"})


def event_value(seq: int, event: events.Event, at_ms: int, group_time_ms: int) -> dict[str, object]:
    """An event with its number; `at_ms` is Unix time, `group_time_ms` what the clock of its group said then."""
    value: dict[str, object] = {
        "seq": seq,
        "kind": type(event).__name__,
        "group_id": event.group_id,
        "generation_id": event.generation_id,
        "at_ms": at_ms,
        "group_time_ms": group_time_ms,
        "line": _line(event),
        "member": None if event.member is None else _member(event.member),
    }
    for name in event.__struct_fields__:
        if name not in _LEFT_OUT:
            field = getattr(event, name)
            if _is_told(field):
                value[name] = _plain(field)
    return value


def _line(event: events.Event) -> str:
    if isinstance(event, events.RebalanceStarted):
        event = structs.replace(event, members=())  # its line names none of them
    found = event_line(event)
    if found is not None:
        return found[1]
    sentence = _SENTENCES.get(type(event), "{kind} in group {group}.")
    member = "" if event.member is None else member_at(printable_name(event.member))
    group = printable(event.group_id)
    return sentence.format(
        member=member, group=group, generation=event.generation_id, kind=type(event).__name__
    )


def _is_told(field: object) -> bool:
    if isinstance(field, bytes):
        return False
    if isinstance(field, tuple) and not hasattr(field, "_fields"):
        return all(isinstance(part, (str, int, MemberName, Awaited)) for part in field[:1])
    return True


def _plain(field: object) -> object:
    for kind, made in _MADE.items():
        if isinstance(field, kind):
            return made(field)
    return field


def _member(name: MemberName) -> dict[str, object]:
    instance_id = name.group_instance_id
    return {
        "member_id": printable(name.member_id, MAX_TEXT),
        "group_instance_id": None if instance_id is None else printable(instance_id, MAX_TEXT),
        "client_id": printable(name.client_id, MAX_TEXT),
        "client_host": name.client_host,
    }


def _trigger(trigger: Trigger) -> dict[str, object]:
    return {
        "cause": trigger.cause.value,
        "reason": printable(trigger.reason, MAX_TEXT),
        "actor": None if trigger.actor is None else _member(trigger.actor),
        "client_reason": printable(trigger.client_reason, MAX_TEXT),
    }


def _awaited(one: Awaited) -> dict[str, object]:
    return {
        "member": _member(one.member),
        "request": one.request.value,
        "silent_ms": one.silent_ms,
        "session_left_ms": one.session_left_ms,
        "left_ms": one.left_ms,
    }


def _of_tuple(parts: tuple[Any, ...]) -> object:
    names = getattr(parts, "_fields", None)
    if names is None:
        return [_plain(part) for part in parts[:MAX_LISTED]]
    return {name: _plain(part) for name, part in zip(names, parts, strict=True)}


_MADE: Final[Mapping[type[Any], Callable[[Any], object]]] = {
    MemberName: _member,
    Trigger: _trigger,
    Awaited: _awaited,
    tuple: _of_tuple,
    Enum: lambda word: word.value if isinstance(word.value, str) else word.name,
    str: lambda text: printable(text, MAX_TEXT),
}
"""The first that fits; numbers and what is null stay as they are."""
