"""Answers of a daemon as values. What an answer has beside them is left alone: the daemon may be a newer one."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from coordinator.cli.control.failure import Unreachable
from coordinator.control.groups.description import GroupDescription, GroupSummary
from coordinator.control.groups.offset_description import GroupOffsets, OffsetChanges

Value = TypeVar("Value")


def groups_of(answered: Any) -> list[GroupSummary]:
    """What GET /groups answers. These functions raise Unreachable where it is not that."""
    return _value(_value(answered, dict[str, Any]).get("groups"), list[GroupSummary])


def description_of(answered: Any) -> GroupDescription:
    """What GET /groups/{group} answers."""
    return _value(answered, GroupDescription)


def offsets_of(answered: Any) -> GroupOffsets:
    """What GET /groups/{group}/offsets answers."""
    return _value(answered, GroupOffsets)


def changes_of(answered: Any) -> OffsetChanges:
    """What PUT /groups/{group}/offsets answers."""
    return _value(answered, OffsetChanges)


class NamedNamespace(Struct, frozen=True):
    """A broker of the daemon; `created_ms` is None for its own."""

    name: str
    created_ms: int | None


def removable_names(answered: Any) -> list[str]:
    """What of GET /namespaces can be removed."""
    found = _value(_value(answered, dict[str, Any]).get("namespaces"), list[NamedNamespace])
    return [namespace.name for namespace in found if namespace.created_ms is not None]


class Ledger(Struct, frozen=True):
    """Entries, open ones last, and the number to ask after for those that are closed from then on."""

    entries: list[dict[str, Any]]
    next: int


def ledger_of(answered: Any) -> Ledger:
    """What GET /ledger and GET /groups/{group}/ledger answer."""
    return _value(answered, Ledger)


def _value(answered: Any, kind: type[Value]) -> Value:
    try:
        return msgspec.convert(answered, kind)
    except msgspec.ValidationError as error:
        why = f"this groupd does not understand the daemon's answer ({error}): are both the same version?"
        raise Unreachable(why) from error
