"""Annotated fields as lines: offset, length, name, type, value; or as JSON, one object a field."""

import json
from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from coordinator.net.peer import printable
from protocol.annotated import UNFINISHED, Annotated, Note, annotate
from protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.schema import message_info

_MOST_HEX: Final = 32
_MOST_TEXT: Final = 200
_INDENT: Final = "  "
_INNER: Final[dict[str, type[Any]]] = {
    "metadata": ConsumerProtocolSubscription,
    "subscription": ConsumerProtocolSubscription,
    "assignment": ConsumerProtocolAssignment,
}
"""What bytes of a field of this name hold, where the group is one of consumers."""


def with_inner(annotated: Annotated, data: bytes) -> Annotated:
    """The same with the fields of consumer protocol bytes below the field that holds them, where they are such."""
    notes: list[Note] = []
    for note in annotated.notes:
        notes.append(note)
        inner = _INNER.get(note.name)
        if inner is not None and isinstance(note.value, bytes) and len(note.value) > 2:
            notes += _inner_notes(inner, note, data)
    return Annotated(notes, annotated.problem)


def _inner_notes(cls: type[Any], note: Note, data: bytes) -> list[Note]:
    # The field of a tagged or flexible message may end with a section of tags; its bytes are found by their value.
    start = data.find(note.value, note.offset)
    version = int.from_bytes(note.value[:2], "big", signed=True)
    if start < 0 or version not in message_info(cls).versions:
        return []
    found = annotate(cls, version, data[: start + len(note.value)], start + 2)
    if found.problem is not None:
        return []
    head = Note(start, 0, "version", "int16", start + 2, version)
    inner = [head, *found.notes]
    for each in inner:
        each.depth += note.depth + 1
    return inner


def as_lines(annotated: Annotated) -> Iterator[str]:
    """One line a field, aligned; the problem last."""
    notes = annotated.notes
    name_width = max((len(_name(note)) for note in notes), default=0)
    kind_width = max((len(note.kind) for note in notes), default=0)
    for note in notes:
        length = "" if note.end == UNFINISHED else str(note.end - note.offset)
        where = f"{note.offset:>6} {length:>5}"
        yield f"{where}  {_name(note):<{name_width}}  {note.kind:<{kind_width}}  {words(note)}".rstrip()
    if annotated.problem is not None:
        yield f"not sound: {printable(annotated.problem, 500)}"


def as_json(annotated: Annotated, **more: object) -> Iterator[str]:
    """One JSON object a field, with whatever else is said of the message; the problem last."""
    path: list[str] = []
    for note in annotated.notes:
        del path[note.depth :]
        path.append(note.name)
        said: dict[str, object] = {**more, "offset": note.offset, "field": _joined(path), "type": note.kind}
        if note.end == UNFINISHED:
            said["unfinished"] = True
        else:
            said["length"] = note.end - note.offset
            said["elements" if note.count is not None else "value"] = (
                note.count if note.count is not None else _plain(note)
            )
        yield json.dumps(said)
    if annotated.problem is not None:
        yield json.dumps({**more, "problem": annotated.problem})


def words(note: Note) -> str:
    """The value of a field for people."""
    value = note.value
    if note.end == UNFINISHED:
        return "…"
    if note.count is not None:
        return f"{note.count} element{'' if note.count == 1 else 's'}"
    if value is None:
        return "null" if note.kind.endswith("?") else ""
    if note.kind.startswith("uuid"):
        return str(UUID(bytes=value))
    if isinstance(value, bytes):
        shown = value[:_MOST_HEX].hex(" ", 4)
        return f"{shown}{' …' if len(value) > _MOST_HEX else ''} ({len(value)} bytes)"
    if isinstance(value, str):
        return f'"{printable(value, _MOST_TEXT)}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(note: Note) -> object:
    value = note.value
    if isinstance(value, bytes):
        return str(UUID(bytes=value)) if note.kind.startswith("uuid") else value.hex()
    return value


def _name(note: Note) -> str:
    return _INDENT * note.depth + note.name


def _joined(path: list[str]) -> str:
    return ".".join(path).replace(".[", "[")
