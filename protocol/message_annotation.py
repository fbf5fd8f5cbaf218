"""The position of each field of a message in its bytes, for people that inspect requests.

A wrapper around the construct of a message notes start, end and value of every field, in the order of the bytes.
After an error the notes of the earlier fields remain.
"""

from dataclasses import dataclass
from typing import Any, Final

from construct import Construct, ConstructError, Int16sb, Int32sb, Subconstruct

from protocol.apis import APIS, Api, ApiKey
from protocol.framing import has_flexible_response_header
from protocol.primitives import Malformed, read_uvarint, skip_tagged_fields
from protocol.reference_codec import ELEMENT, create_wrapped_construct, parse_all
from protocol.schema import FieldType

UNFINISHED: Final = -1


@dataclass(slots=True)
class FieldNote:
    """One field. `depth` is the number of enclosing fields; `name` of an element is its number in brackets;
    `kind` is Kafka's name of its type. If its bytes are invalid, `end` is UNFINISHED and `value` has no
    meaning. The value of an array or struct is None: its parts follow."""

    offset: int
    depth: int
    name: str
    kind: str
    end: int = UNFINISHED
    value: Any = None
    count: int | None = None
    """The number of elements of an array; None for other types and for null."""


@dataclass(slots=True)
class AnnotatedMessage:
    """The notes of a message, and its error (None for a valid message)."""

    notes: list[FieldNote]
    problem: str | None = None


class _NotingConstruct(Subconstruct):  # type: ignore[misc]
    """Records the fields that its construct parses in the parameter `notes`."""

    def __init__(self, name: str, field_type: FieldType, construct: Construct) -> None:
        super().__init__(construct)
        self._name = name
        self._type = field_type

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        notes: _NoteCollector = context._params["notes"]
        name = f"[{context._index}]" if self._name == ELEMENT else self._name
        note = notes.begin_field(stream.tell(), name, format_type(self._type))
        value = self.subcon._parsereport(stream, context, path)
        notes.end_field(note, stream.tell(), value, self._type)
        return value


class _NoteCollector:
    """Collects the notes of a message during its parsing."""

    def __init__(self) -> None:
        self.collected: list[FieldNote] = []
        self._depth = 0

    def begin_field(self, offset: int, name: str, kind: str) -> FieldNote:
        note = FieldNote(offset, self._depth, name, kind)
        self.collected.append(note)
        self._depth += 1
        return note

    def end_field(self, note: FieldNote, end: int, value: Any, field_type: FieldType) -> None:
        self._depth -= 1
        note.end = end
        if value is None or (field_type.element is None and field_type.struct_class is None):
            note.value = value
        elif field_type.element is not None:
            note.count = len(value)


def format_type(field_type: FieldType) -> str:
    """Return the text of a type: int32, string?, [int32]; a struct by its name."""
    if field_type.element is not None:
        kind = f"[{format_type(field_type.element)}]"
    elif field_type.struct_class is not None:
        kind = field_type.struct_class.__name__
    else:
        kind = field_type.kind.name
    return f"{kind}?" if field_type.nullable else kind


def annotate(cls: type[Any], version: int, data: bytes, begins_at: int = 0) -> AnnotatedMessage:
    """Return the notes of a message from the position `begins_at` of `data` to its end. Raises ValueError for
    a version that the message does not have."""
    notes = _NoteCollector()
    construct = create_wrapped_construct(cls, version, _NotingConstruct)
    try:
        parse_all(construct, data, begins_at, notes=notes)
    except (ConstructError, Malformed, UnicodeDecodeError) as problem:
        return AnnotatedMessage(notes.collected, " ".join(str(problem).split()))
    return AnnotatedMessage(notes.collected)


def annotate_request(frame: bytes) -> tuple[Api, int, AnnotatedMessage]:
    """Return the API, the version and the notes of a request frame without its size. The header fields come
    first. Raises Malformed for an invalid header."""
    if len(frame) < 8:
        raise Malformed(f"a request of {len(frame)} bytes has no header")
    key, version = Int16sb.parse(frame[:2]), Int16sb.parse(frame[2:4])
    api = APIS.get(key)
    if api is None or version not in api.versions:
        raise Malformed(f"api key {key} has no version {version} here")
    notes = [
        FieldNote(0, 0, "api_key", "int16", 2, key),
        FieldNote(2, 0, "api_version", "int16", 4, version),
        FieldNote(4, 0, "correlation_id", "int32", 8, Int32sb.parse(frame[4:8])),
    ]
    try:
        length = Int16sb.parse(frame[8:10])
        end = 10 + max(length, 0)
        client_id = None if length < 0 else frame[10:end].decode()
        if end > len(frame):
            raise Malformed(f"the client id ends {end - len(frame)} bytes past the frame")
        notes.append(FieldNote(8, 0, "client_id", "string?", end, client_id))
        end = _annotate_tags(frame, end, version in api.flexible, notes)
    except (ConstructError, UnicodeDecodeError, IndexError) as problem:
        raise Malformed(f"request header: {problem}") from None
    body = annotate(api.request, version, frame, end)
    return api, version, AnnotatedMessage([*notes, *body.notes], body.problem)


def annotate_response(api_key: ApiKey, version: int, frame: bytes) -> AnnotatedMessage:
    """Return the notes of a response frame without its size. The header fields come first. Raises Malformed if
    the header is incomplete."""
    api = APIS[api_key]
    if len(frame) < 4:
        raise Malformed(f"a response of {len(frame)} bytes has no header")
    notes = [FieldNote(0, 0, "correlation_id", "int32", 4, Int32sb.parse(frame[:4]))]
    try:
        end = _annotate_tags(frame, 4, has_flexible_response_header(api, version), notes)
    except IndexError:
        raise Malformed("the response ends within its header") from None
    body = annotate(api.response, version, frame, end)
    return AnnotatedMessage([*notes, *body.notes], body.problem)


def _annotate_tags(frame: bytes, position: int, has_tags: bool, notes: list[FieldNote]) -> int:
    if not has_tags:
        return position
    count, end = read_uvarint(frame, position)
    end = skip_tagged_fields(frame, end, count)
    notes.append(FieldNote(position, 0, "tagged_fields", "tags", end, count))
    return end
