"""The reference codec: `construct` combinators from the same declarations, for readability instead of speed.

Tests compare it with the generated codec byte for byte, and people inspect bytes with it: the containers of
`construct_for` print one field a line. The daemon never imports it.

A value with a length or a possible null is a pair (marker, value); the encoder computes the marker from the
value. The tagged section is an array of (tag, bytes). The construct of a field parses the bytes of its tag,
and unknown tags are skipped.
"""

import io
from collections.abc import Callable
from typing import Any, Final, TypeVar

from construct import (
    Array,
    Construct,
    ConstructError,
    Container,
    ExprAdapter,
    Flag,
    Float64b,
    GreedyBytes,
    If,
    Int8sb,
    Int8ub,
    Int16sb,
    Int16ub,
    Int32sb,
    Int64sb,
    Prefixed,
    PrefixedArray,
    Rebuild,
    RepeatUntil,
    Struct,
    Tell,
    Terminated,
    this,
)
from construct import Bytes as RawBytes

from protocol.primitives import MAX_STRING_BYTES, MAX_UVARINT_BYTES, Malformed
from protocol.schema import FieldLayout, FieldType, layout, message_info

T = TypeVar("T")
Wrap = Callable[[str, FieldType, Construct], Construct]
"""Takes the name of a field (ELEMENT for an element of an array), its type and its construct. Returns the
construct to use instead."""
ELEMENT: Final = "[]"

_FIXED: Final[dict[str, Construct]] = {
    "bool": Flag,
    "int8": Int8sb,
    "int16": Int16sb,
    "int32": Int32sb,
    "int64": Int64sb,
    "uint16": Int16ub,
    "float64": Float64b,
    "uuid": RawBytes(16),
}


def _join_groups_of_seven(groups: list[int], _: Any) -> int:
    value = sum((group & 0x7F) << (7 * place) for place, group in enumerate(groups))
    if len(groups) > MAX_UVARINT_BYTES or value > 0xFFFFFFFF:
        raise Malformed(f"a varint of {len(groups)} bytes")
    return value


def _split_in_groups_of_seven(value: int, _: Any) -> list[int]:
    places = max(1, -(-value.bit_length() // 7))
    groups = [value >> (7 * place) & 0x7F for place in range(places)]
    return [*(group | 0x80 for group in groups[:-1]), groups[-1]]


_UVARINT: Final[Construct] = ExprAdapter(
    RepeatUntil(lambda group, _groups, _context: group < 0x80, Int8ub),
    _join_groups_of_seven,
    _split_in_groups_of_seven,
)
# Flexible versions store length + 1, and 0 for null.
_COMPACT_LENGTH: Final[Construct] = ExprAdapter(
    _UVARINT, lambda stored, _: stored - 1, lambda length, _: length + 1
)


def _optional(
    marker: Construct, content: Construct, nullable: bool, present: Callable[[Any], int]
) -> Construct:
    """Return a construct for `content` after a marker, which is negative for None. `present` returns the marker
    of a value."""

    def unwrap(pair: Any, _: Any) -> Any:
        if pair.value is None and not nullable:
            raise Malformed("null where the version does not allow it")
        return pair.value

    def wrap(value: Any, _: Any) -> dict[str, Any]:
        if value is None and not nullable:
            raise ValueError("null where the version does not allow it")
        return {"value": value}

    def marker_of(context: Any) -> int:
        return -1 if context.value is None else present(context.value)

    pair = Struct("marker" / Rebuild(marker, marker_of), "value" / If(this.marker >= 0, content))
    return ExprAdapter(pair, unwrap, wrap)


def _length(kind: str, flexible: bool) -> Construct:
    def check(length: int, _: Any) -> int:
        if length < -1 or (kind == "string" and length > MAX_STRING_BYTES):
            raise Malformed(f"a length of {length}")
        return length

    if flexible:
        return ExprAdapter(_COMPACT_LENGTH, check, lambda length, _: length)
    return ExprAdapter(Int16sb if kind == "string" else Int32sb, check, lambda length, _: length)


def _text(encoded: Construct) -> Construct:
    def decode(data: bytes | None, _: Any) -> str | None:
        return None if data is None else data.decode()

    def encode(text: str | None, _: Any) -> bytes | None:
        return None if text is None else text.encode()

    return ExprAdapter(encoded, decode, encode)


def _keep_construct(name: str, field_type: FieldType, construct: Construct) -> Construct:
    return construct


def _struct(cls: type[Any], version: int, flexible: bool, wrap: Wrap = _keep_construct) -> Construct:
    fields = layout(cls, version)
    plain = [
        entry.name / wrap(entry.name, entry.type, _type(entry.type, version, flexible, wrap))
        for entry in fields
        if entry.tag is None
    ]
    if not flexible:
        return Struct(*plain)
    in_tags = [entry for entry in fields if entry.tag is not None]

    def flatten(container: Any, _: Any) -> Any:
        container.update(container.pop("tagged_fields"))
        return container

    def gather(container: Any, _: Any) -> Any:
        return {**container, "tagged_fields": container}

    section = _tagged_section(in_tags, version, wrap)
    return ExprAdapter(Struct(*plain, "tagged_fields" / section), flatten, gather)


def _tagged_section(in_tags: list[FieldLayout], version: int, wrap: Wrap) -> Construct:
    item = Struct("tag" / _UVARINT, "data" / Prefixed(_UVARINT, GreedyBytes), "end" / Tell)
    raw = PrefixedArray(_UVARINT, item)
    by_tag = {
        entry.tag: (entry, wrap(entry.name, entry.type, _type_in_tag(entry.type, version, wrap)))
        for entry in in_tags
    }

    def decode(section: Any, context: Any) -> Any:
        values = Container((entry.name, entry.default) for entry in in_tags)
        last = -1
        for item in section:
            if item.tag <= last:
                raise Malformed(f"tag {item.tag} after tag {last}")
            last = item.tag
            if item.tag in by_tag:
                entry, field = by_tag[item.tag]
                values[entry.name] = _parse_all(
                    field, item.data, item.end - len(item.data), **(context._params or {})
                )
        return values

    def encode(values: Any, _: Any) -> list[dict[str, Any]]:
        return [
            {"tag": tag, "data": field.build(values[entry.name])}
            for tag, (entry, field) in by_tag.items()
            if entry.sends_null or values[entry.name] != entry.default
        ]

    return ExprAdapter(raw, decode, encode)


def _type_in_tag(field_type: FieldType, version: int, wrap: Wrap) -> Construct:
    """Return the construct of a type in a tagged field. The marker of a null struct differs there."""
    if field_type.struct_class is None or not field_type.nullable:
        return _type(field_type, version, True, wrap)
    nested = _struct(field_type.struct_class, version, True, wrap)
    return _optional(_COMPACT_LENGTH, nested, True, lambda _: 0)


def _type(field_type: FieldType, version: int, flexible: bool, wrap: Wrap) -> Construct:
    kind = field_type.kind.name
    if kind in _FIXED:
        return _FIXED[kind]
    if field_type.struct_class is not None:
        nested = _struct(field_type.struct_class, version, flexible, wrap)
        return _optional(Int8sb, nested, True, lambda _: 1) if field_type.nullable else nested
    length = _length(kind, flexible)
    if field_type.element is not None:
        element = _type(field_type.element, version, flexible, wrap)
        content = Array(this.marker, wrap(ELEMENT, field_type.element, element))
    else:
        content = RawBytes(this.marker)
    sized = _optional(length, content, field_type.nullable, len)
    return _text(sized) if kind == "string" else sized


def _parse_all(field: Construct, data: bytes, begins_at: int = 0, **parameters: Any) -> Any:
    """Parse all of `data`. Stream positions are reported as if `data` began at `begins_at`. `parameters` are
    passed to the constructs."""
    stream = io.BytesIO(bytes(begins_at) + data)
    stream.seek(begins_at)
    value = field.parse_stream(stream, **parameters)
    Terminated.parse_stream(stream)
    return value


def create_wrapped_construct(cls: type[Any], version: int, wrap: Wrap) -> Construct:
    """Return the construct of a message, with every field and element wrapped by `wrap(name, type,
    construct)`. Raises ValueError for a version that the message does not have."""
    info = message_info(cls)
    if version not in info.versions:
        raise ValueError(f"{cls.__name__} has no version {version}")
    return _struct(cls, version, version in info.flexible, wrap)


def parse_all(construct: Construct, data: bytes, begins_at: int, **parameters: Any) -> Any:
    """Parse `data` from a position to its end, with parameters for the constructs. Raises ConstructError,
    Malformed."""
    return _parse_all(construct, data[begins_at:], begins_at, **parameters)


_CONSTRUCTS: dict[tuple[type[Any], int], Construct] = {}


def construct_for(cls: type[Any], version: int) -> Construct:
    """Return the construct of one version. It parses to a container of the fields, and builds from a mapping
    of them.

    Tagged fields are among the other fields, with their default if they are missing. Raises ValueError for a
    version that the message does not have.
    """
    made = _CONSTRUCTS.get((cls, version))
    if made is None:
        made = _CONSTRUCTS[cls, version] = create_wrapped_construct(cls, version, _keep_construct)
    return made


def to_fields(message: Any, version: int) -> dict[str, Any]:
    """Return the fields of a message or struct in the form that `construct_for` builds."""
    return {
        entry.name: _convert_to_plain(getattr(message, entry.name), entry.type, version)
        for entry in layout(type(message), version)
    }


def from_fields(cls: type[T], fields: Any, version: int) -> T:
    """Return the message or struct of the fields that `construct_for` parsed."""
    values = {
        entry.name: _convert_from_plain(fields[entry.name], entry.type, version)
        for entry in layout(cls, version)
    }
    return cls(**values)


def _convert_to_plain(value: Any, field_type: FieldType, version: int) -> Any:
    if value is None:
        return None
    if field_type.struct_class is not None:
        return to_fields(value, version)
    if field_type.element is not None:
        return [_convert_to_plain(item, field_type.element, version) for item in value]
    return value


def _convert_from_plain(value: Any, field_type: FieldType, version: int) -> Any:
    if value is None:
        return None
    if field_type.struct_class is not None:
        return from_fields(field_type.struct_class, value, version)
    if field_type.element is not None:
        return [_convert_from_plain(item, field_type.element, version) for item in value]
    return value


def encode(message: Any, version: int) -> bytes:
    """Encode a message in one version."""
    built: bytes = construct_for(type(message), version).build(to_fields(message, version))
    return built


def decode(cls: type[T], version: int, data: bytes) -> T:
    """Decode the message in `data`. Raises Malformed."""
    try:
        return from_fields(cls, _parse_all(construct_for(cls, version), data), version)
    except (ConstructError, UnicodeDecodeError) as problem:
        raise Malformed(f"{cls.__name__} v{version}: {problem}") from None
