"""Values of the core as JSON, and back: requests, outcomes, what a group is made of.

A value comes back as what it was: a tuple is no list, bytes are no text, a member of an enumeration is itself,
and an object that is named twice (the member of whom a rebalance knows that it came last) is one object again. So
there is one form for all classes, and no class has to say how it is written:

    text, numbers, true, null, list     as JSON has them; text that begins with $ has one more
    bytes, member of an enumeration     "$b:AAEC", "$e:errors.ErrorCode.NONE"
    tuple, set, frozen set, Counter     {"$t": […]}, {"$s": […]}, {"$f": […]}, {"$c": [[key, value], …]}
    dict                                an object, or {"$d": [[key, value], …]} where a key is no plain text
    object                              {"$": "member.Member", field: value, …}, without what a new one has
    an object with a life of its own    the same with "$id": 3; {"$ref": 3} where it comes again

A set has its members in the order of their own JSON: that of a set in memory is another one in each process. What a
function would decide is decided by whoever asks the core: functions are null.

Only classes of the core and of the wire are made of what a file says: `Forms` knows no other.
"""

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, TypeAlias

from msgspec import NODEFAULT, Struct, json
from msgspec.structs import fields as struct_fields

from coordinator.group.topics_image import TopicsImage

Json: TypeAlias = Any

PACKAGES: Final = (
    "coordinator.control.recording.cut",
    "coordinator.group",
    "coordinator.machine",
    "coordinator.names",
    "protocol.errors",
    "protocol.messages",
    "protocol.records",
)
"""Where the classes are of which values may be made."""
_SKIPPED: Final = frozenset({"__dict__", "__weakref__", "_store", "counted_in"})
"""Fields that lead out of a group: into its shard."""


class BadForm(ValueError):
    """It is no form of a value."""


def tag_of(kind: type[object]) -> str:
    """The name of a class: that of its file, and its own."""
    return f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"


@cache
def fields_of(kind: type[Any]) -> Mapping[str, Callable[[], Any] | None]:
    """The fields of a class, each with what makes the value of a new one; None: it has to be said."""
    found: dict[str, Callable[[], Any] | None] = {}
    if kind is TopicsImage:
        return {"topics": None, "version": None}
    if issubclass(kind, Struct):
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


class Writer:
    """Makes forms. One writer for all that goes together: what it has written before is named by its number."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []
        """So that no other object gets the id of one that was written."""

    def form(self, value: Any) -> Json:
        """A value as JSON values. TypeError for one that has no form."""
        if value is None or type(value) in (bool, int, float):
            return value
        if type(value) is str:
            return f"${value}" if value.startswith("$") else value
        if type(value) is list:
            return [self.form(one) for one in value]
        if isinstance(value, bytes | bytearray | memoryview):
            return f"$b:{b64encode(value).decode()}"
        if isinstance(value, Enum):
            return f"$e:{tag_of(type(value))}.{value.name}"
        if type(value) is tuple:
            return {"$t": [self.form(one) for one in value]}
        if isinstance(value, set | frozenset):
            sign = "$s" if isinstance(value, set) else "$f"
            return {sign: sorted((self.form(one) for one in value), key=json.encode)}
        if isinstance(value, Counter):
            return {"$c": [[self.form(key), self.form(one)] for key, one in value.items()]}
        if isinstance(value, Mapping):
            return self._mapping(value)
        if callable(value):
            return None
        return self._object(value)

    def _mapping(self, value: Mapping[Any, Any]) -> Json:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.form(one) for key, one in value.items()}
        return {"$d": [[self.form(key), self.form(one)] for key, one in value.items()]}

    def _object(self, value: Any) -> Json:
        kind = type(value)
        if not kind.__module__.startswith(PACKAGES):
            raise TypeError(f"{kind.__module__}.{kind.__qualname__} has no form")
        said: dict[str, Json] = {"$": tag_of(kind)}
        if _has_life(value):
            number = self._numbers.get(id(value))
            if number is not None:
                return {"$ref": number}
            said["$id"] = self._numbers[id(value)] = len(self._kept)
            self._kept.append(value)
        for name, default in fields_of(kind).items():  # type: ignore[arg-type]
            own = (
                list(value.by_name.values())
                if name == "topics" and kind is TopicsImage
                else getattr(value, name)
            )
            if default is None or own != default():
                said[name] = self.form(own)
        return said


def _has_life(value: object) -> bool:
    """Whether somebody may change it, who then means this one."""
    return not (isinstance(value, Struct | tuple | TopicsImage) or is_dataclass(value))


class Forms:
    """Makes values of forms. One for all that goes together, as with `Writer`."""

    def __init__(self) -> None:
        self._made: dict[int, object] = {}

    def value(self, form: Json) -> Any:
        """The value of a form. Raises BadForm."""
        if type(form) is str:
            return self._text(form)
        if type(form) is list:
            return [self.value(one) for one in form]
        if type(form) is not dict:
            return form
        if "$" in form:
            return self._object(form)
        if not any(key.startswith("$") for key in form):
            return {key: self.value(one) for key, one in form.items()}
        if len(form) != 1:
            raise BadForm(f"{', '.join(form)}: these do not go together")
        ((sign, inner),) = form.items()
        return self._collection(sign, inner)

    def _collection(self, sign: str, inner: Json) -> Any:
        try:
            match sign:
                case "$t":
                    return tuple(self.value(one) for one in inner)
                case "$s":
                    return {self.value(one) for one in inner}
                case "$f":
                    return frozenset(self.value(one) for one in inner)
                case "$d":
                    return {self.value(key): self.value(one) for key, one in inner}
                case "$c":
                    return Counter({self.value(key): self.value(one) for key, one in inner})
                case "$ref":
                    return self._made[inner]
        except (TypeError, ValueError, KeyError) as error:
            raise BadForm(f"{sign}: {error}") from error
        raise BadForm(f"{sign} is the sign of nothing")

    def _text(self, form: str) -> Any:
        if not form.startswith("$"):
            return form
        try:
            if form.startswith("$b:"):
                return b64decode(form[3:], validate=True)
            if form.startswith("$e:"):
                tag, _, name = form[3:].rpartition(".")
                return classes()[tag][name]
        except (KeyError, ValueError, TypeError) as error:
            raise BadForm(f"{form[:80]}: this groupd knows no such value") from error
        return form[1:]

    def _object(self, form: dict[str, Json]) -> Any:
        said = dict(form)
        tag, number = said.pop("$"), said.pop("$id", None)
        kind = classes().get(tag) if type(tag) is str else None
        if kind is None:
            raise BadForm(f"{tag}: this groupd knows no such class")
        known = fields_of(kind)  # type: ignore[arg-type]
        if said.keys() - known.keys():
            raise BadForm(
                f"{tag} has no field {', '.join(sorted(said.keys() - known.keys()))} in this groupd"
            )
        values = {name: self.value(one) for name, one in said.items()}
        if number is None:
            try:
                return kind(**values)
            except TypeError as error:
                raise BadForm(f"{tag}: {error}") from error
        made = self._made[number] = object.__new__(kind)
        if values.keys() != known.keys():
            raise BadForm(f"{tag} has no {', '.join(sorted(known.keys() - values.keys()))}")
        for name, value in values.items():
            setattr(made, name, value)
        return made


@cache
def classes() -> Mapping[str, type[Any]]:
    """Every class of which values may be made, by its tag."""
    found: dict[str, type[Any]] = {}
    for package in PACKAGES:
        for module in _modules(package):
            for kind in vars(import_module(module)).values():
                if isinstance(kind, type) and kind.__module__ == module:
                    other = found.setdefault(tag_of(kind), kind)
                    assert other is kind, f"{tag_of(kind)} is the name of two classes"
    return found


def _modules(name: str) -> list[str]:
    path = getattr(import_module(name), "__path__", None)
    inner = [] if path is None else [f"{name}.{one.name}" for one in iter_modules(path)]
    return [name, *(module for one in inner for module in _modules(one))]
