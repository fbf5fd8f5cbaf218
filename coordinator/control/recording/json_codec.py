"""Encodes values of the core as JSON and decodes them: requests, outcomes, and the state of a group.

Decoding restores the types: tuples, bytes and members of an enumeration keep their type. An object that
occurs twice (such as the last joined member of a rebalance) is one object again. All classes use the same
forms:

    text, numbers, true, null, list     as JSON has them; text that begins with $ has one more
    bytes, member of an enumeration     "$b:AAEC", "$e:errors.ErrorCode.NONE"
    tuple, set, frozen set, Counter     {"$t": […]}, {"$s": […]}, {"$f": […]}, {"$c": [[key, value], …]}
    dict                                an object, or {"$d": [[key, value], …]} if a key is not plain text
    object                              {"$": "member.Member", field: value, …}, without default values
    object with an identity             the same with "$id": 3; {"$ref": 3} for further occurrences

The members of a set are sorted by their JSON, because the order of a set in memory differs between processes.
Functions are null: the caller of the core takes their decisions.

Tags of classes, and the only classes that a recording can create, are in `recorded_classes`.
"""

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, TypeAlias

from msgspec import NODEFAULT, Struct, json
from msgspec.structs import fields as struct_fields

from coordinator.control.recording.recorded_classes import RECORDED_CLASSES, TAGS
from coordinator.group.consumer.consumer_group import MemberSession
from coordinator.group.group_requests import (
    CommandResult,
    ExpiredOffsets,
    ExpireOffsets,
    FetchOffsets,
    TopicsChanged,
)
from coordinator.group.topics_image import TopicsImage

Json: TypeAlias = Any

_SKIPPED: Final = frozenset({"__dict__", "__weakref__", "_store", "counted_in"})
"""Fields that refer to objects outside a group, such as its shard."""
_FULLY_ENCODED: Final = frozenset(
    {CommandResult, ExpireOffsets, FetchOffsets, ExpiredOffsets, MemberSession, TopicsChanged}
)
"""Classes that are encoded with all fields, as in earlier versions, because a replay compares the encoded
values."""


class UndecodableValue(ValueError):
    """A JSON value does not have a valid form."""


@cache
def list_fields(kind: type[Any]) -> Mapping[str, Callable[[], Any] | None]:
    """Return the fields of a class, each with the factory of its default value, or None for a required field."""
    found: dict[str, Callable[[], Any] | None] = {}
    if kind is TopicsImage:
        return {"topics": None, "version": None}
    if kind in _FULLY_ENCODED:
        found = dict.fromkeys(kind.__struct_fields__)
    elif issubclass(kind, Struct):
        for field in struct_fields(kind):
            if field.default is not NODEFAULT:
                found[field.name] = lambda value=field.default: value  # type: ignore[misc]
            else:
                found[field.name] = None if field.default_factory is NODEFAULT else field.default_factory
    elif is_dataclass(kind):
        found = {one.name: None for one in dataclass_fields(kind)}
    elif issubclass(kind, tuple):
        found = dict.fromkeys(kind._fields)  # type: ignore[attr-defined]
    else:
        for base in reversed(kind.__mro__):
            slots = base.__dict__.get("__slots__", ())
            found.update(dict.fromkeys((slots,) if isinstance(slots, str) else slots))
    return {name: default for name, default in found.items() if name not in _SKIPPED}


class ValueEncoder:
    """Encodes values. One encoder numbers the objects of all values that belong together."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []
        """References to encoded objects, so that no other object gets the id of one of them."""

    def encode(self, value: Any) -> Json:
        """Encode a value as JSON values. Raises TypeError for a value of an unsupported class."""
        if value is None or type(value) in (bool, int, float):
            return value
        if type(value) is str:
            return f"${value}" if value.startswith("$") else value
        if type(value) is list:
            return [self.encode(one) for one in value]
        if isinstance(value, bytes | bytearray | memoryview):
            return f"$b:{b64encode(value).decode()}"
        if isinstance(value, Enum):
            return f"$e:{_find_tag(type(value))}.{value.name}"
        if type(value) is tuple:
            return {"$t": [self.encode(one) for one in value]}
        if isinstance(value, set | frozenset):
            sign = "$s" if isinstance(value, set) else "$f"
            return {sign: sorted((self.encode(one) for one in value), key=json.encode)}
        if isinstance(value, Counter):
            return {"$c": [[self.encode(key), self.encode(one)] for key, one in value.items()]}
        if isinstance(value, Mapping):
            return self._encode_mapping(value)
        if callable(value):
            return None
        return self._encode_object(value)

    def _encode_mapping(self, value: Mapping[Any, Any]) -> Json:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.encode(one) for key, one in value.items()}
        return {"$d": [[self.encode(key), self.encode(one)] for key, one in value.items()]}

    def _encode_object(self, value: Any) -> Json:
        kind = type(value)
        fields: dict[str, Json] = {"$": _find_tag(kind)}
        if _has_identity(value):
            number = self._numbers.get(id(value))
            if number is not None:
                return {"$ref": number}
            fields["$id"] = self._numbers[id(value)] = len(self._kept)
            self._kept.append(value)
        for name, default in list_fields(kind).items():  # type: ignore[arg-type]
            own = (
                list(value.by_name.values())
                if name == "topics" and kind is TopicsImage
                else getattr(value, name)
            )
            if default is None or own != default():
                fields[name] = self.encode(own)
        return fields


def _find_tag(kind: type[Any]) -> str:
    tag = TAGS.get(kind)
    if tag is None:
        raise TypeError(f"{kind} is not a recorded class")
    return tag


def _has_identity(value: object) -> bool:
    """Return whether an object can change, so that its occurrences must stay one object."""
    return not (isinstance(value, Struct | tuple | TopicsImage) or is_dataclass(value))


class ValueDecoder:
    """Decodes values. One decoder restores the objects of all values that belong together."""

    def __init__(self) -> None:
        self._objects: dict[int, object] = {}

    def decode(self, encoded: Json) -> Any:
        """Decode a value. Raises UndecodableValue."""
        if type(encoded) is str:
            return self._decode_text(encoded)
        if type(encoded) is list:
            return [self.decode(one) for one in encoded]
        if type(encoded) is not dict:
            return encoded
        if "$" in encoded:
            return self._decode_object(encoded)
        if not any(key.startswith("$") for key in encoded):
            return {key: self.decode(one) for key, one in encoded.items()}
        if len(encoded) != 1:
            raise UndecodableValue(f"{', '.join(encoded)} exclude each other")
        ((sign, inner),) = encoded.items()
        return self._decode_collection(sign, inner)

    def _decode_collection(self, sign: str, inner: Json) -> Any:
        try:
            match sign:
                case "$t":
                    return tuple(self.decode(one) for one in inner)
                case "$s":
                    return {self.decode(one) for one in inner}
                case "$f":
                    return frozenset(self.decode(one) for one in inner)
                case "$d":
                    return {self.decode(key): self.decode(one) for key, one in inner}
                case "$c":
                    return Counter({self.decode(key): self.decode(one) for key, one in inner})
                case "$ref":
                    return self._objects[inner]
        except (TypeError, ValueError, KeyError) as error:
            raise UndecodableValue(f"{sign}: {error}") from error
        raise UndecodableValue(f"the sign {sign} is unknown")

    def _decode_text(self, encoded: str) -> Any:
        if not encoded.startswith("$"):
            return encoded
        try:
            if encoded.startswith("$b:"):
                return b64decode(encoded[3:], validate=True)
            if encoded.startswith("$e:"):
                tag, _, name = encoded[3:].rpartition(".")
                return RECORDED_CLASSES[tag][name]
        except (KeyError, ValueError, TypeError) as error:
            raise UndecodableValue(f"{encoded[:80]}: the value is unknown to this groupd") from error
        return encoded[1:]

    def _decode_object(self, encoded: dict[str, Json]) -> Any:
        fields = dict(encoded)
        tag, number = fields.pop("$"), fields.pop("$id", None)
        kind = RECORDED_CLASSES.get(tag) if type(tag) is str else None
        if kind is None:
            raise UndecodableValue(f"{tag}: the class is unknown to this groupd")
        known = list_fields(kind)  # type: ignore[arg-type]
        if fields.keys() - known.keys():
            raise UndecodableValue(
                f"{tag} has no field {', '.join(sorted(fields.keys() - known.keys()))} in this groupd"
            )
        values = {name: self.decode(one) for name, one in fields.items()}
        if number is None:
            try:
                return kind(**values)
            except TypeError as error:
                raise UndecodableValue(f"{tag}: {error}") from error
        decoded = self._objects[number] = object.__new__(kind)
        if values.keys() != known.keys():
            raise UndecodableValue(f"{tag} has no {', '.join(sorted(known.keys() - values.keys()))}")
        for name, value in values.items():
            setattr(decoded, name, value)
        return decoded
