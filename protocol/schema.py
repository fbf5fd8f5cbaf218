"""Declarations of Kafka's messages: each field states its type, versions, nullability, tag and default on its
own line.

    @request(ApiKey.HEARTBEAT)
    class HeartbeatRequest:
        group_id: String
        generation_id: Int32
        member_id: String
        group_instance_id: NullableString = since("3+", default=None)

The versions of an API are in its table, `protocol/apis.py`. The decorators turn the class into a keyword-only
`msgspec.Struct`, which the rest of the program uses. `layout(cls, version)` lists the fields of one version in
wire order; the codecs know nothing else about a message.

A type checker sees `Int32` as `int`. Its `FieldKind` gives the codecs the encoding. A struct class as an
annotation is a nested struct; `Struct | None` is a nullable struct (an int8 marker precedes it); `Array[T]`
and `NullableArray[T]` hold any of these.

The encodings are those of KIP-482 and of the protocol guide. Fixed integers are big-endian. Strings, bytes and
arrays carry a length: int16 or int32 in old ("inflexible") versions, an unsigned varint of length + 1 in
flexible ones.
"""

from collections.abc import Callable
from copy import copy
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import NODEFAULT, Struct, defstruct

from protocol.apis import ALL_VERSIONS, APIS, ApiKey, VersionRange

T = TypeVar("T")


class FieldKind(Struct, frozen=True):
    """The encoding of a field: its name in Kafka's message definitions, and the `struct` letter of a
    fixed-width number. `nullable`: the Python type admits None; the field declares the versions in which null
    may be sent."""

    name: str
    letter: str = ""
    nullable: bool = False


ZERO_UUID: Final = bytes(16)

Bool: TypeAlias = Annotated[bool, FieldKind("bool", "?")]
Int8: TypeAlias = Annotated[int, FieldKind("int8", "b")]
Int16: TypeAlias = Annotated[int, FieldKind("int16", "h")]
Int32: TypeAlias = Annotated[int, FieldKind("int32", "i")]
Int64: TypeAlias = Annotated[int, FieldKind("int64", "q")]
UInt16: TypeAlias = Annotated[int, FieldKind("uint16", "H")]
Float64: TypeAlias = Annotated[float, FieldKind("float64", "d")]
Uuid: TypeAlias = Annotated[bytes, FieldKind("uuid")]
String: TypeAlias = Annotated[str, FieldKind("string")]
NullableString: TypeAlias = Annotated[str | None, FieldKind("string", nullable=True)]
Bytes: TypeAlias = Annotated[bytes, FieldKind("bytes")]
NullableBytes: TypeAlias = Annotated[bytes | None, FieldKind("bytes", nullable=True)]
# Record batches have the encoding of bytes, but a type of their own in Kafka's definitions.
Records: TypeAlias = Annotated[bytes | None, FieldKind("records", nullable=True)]
Array: TypeAlias = Annotated[list[T], FieldKind("array")]
NullableArray: TypeAlias = Annotated[list[T] | None, FieldKind("array", nullable=True)]


class FieldDeclaration(Struct, frozen=True):
    """The declaration of a field.

    - `versions`: the versions with the field.
    - `nullable`: the versions in which it may be null; None if its type decides.
    - `tag`: its tag in the tagged section.
    - `default`: its default, or NODEFAULT.
    - `sends_null`: whether a tagged field is sent when it is null.
    """

    versions: VersionRange
    nullable: VersionRange | None
    tag: int | None
    default: Any
    sends_null: bool = False


_PLAIN_FIELD: Final = FieldDeclaration(ALL_VERSIONS, None, None, NODEFAULT)
"""The declaration of a field with only a type."""


def since(versions: str = "0+", *, default: Any = NODEFAULT, nullable: str | None = None) -> Any:
    """Declare a field that exists or is nullable in some versions only, or that has Kafka's default."""
    carried = VersionRange.parse(versions)
    assert default is not NODEFAULT or carried == ALL_VERSIONS, "versions without the field need its default"
    return FieldDeclaration(
        carried, None if nullable is None else VersionRange.parse(nullable), None, default
    )


def tagged(
    tag: int, versions: str, *, default: Any, nullable: str | None = None, sends_null: bool = False
) -> Any:
    """Declare a field of the tagged section. It is not sent if it equals `default`. `sends_null`: a null is
    sent nevertheless, because the default in Kafka's schema is another one, which Kafka never sends."""
    null = None if nullable is None else VersionRange.parse(nullable)
    assert not sends_null or (null is not None and default is None), "a null that is sent"
    return FieldDeclaration(VersionRange.parse(versions), null, tag, default, sends_null)


class MessageInfo(Struct, frozen=True):
    """The API key of a message (-1 for data outside of requests and responses), its versions, its flexible
    versions, and its role: "request", "response" or "data"."""

    api_key: int
    versions: VersionRange
    flexible: VersionRange
    role: str


_FIELDS: dict[type[Any], dict[str, FieldDeclaration]] = {}


def _define(cls: type[T]) -> type[T]:
    """Return the Struct that a class declares."""
    types = cls.__annotations__
    declared: dict[str, FieldDeclaration] = {name: getattr(cls, name, _PLAIN_FIELD) for name in types}
    made = defstruct(
        cls.__name__,
        [(name, types[name], declared[name].default) for name in types],
        namespace={"__doc__": cls.__doc__, "__qualname__": cls.__qualname__},
        module=cls.__module__,
        kw_only=True,
        # A message has no reference back to its holder and so no cycles. Reference counts free it.
        gc=False,
    )
    _FIELDS[made] = declared
    return cast("type[T]", made)


@dataclass_transform(kw_only_default=True, field_specifiers=(since, tagged))
def struct(cls: type[T]) -> type[T]:
    """Declare a struct nested in messages. The versions of its fields are those of the message."""
    return _define(cls)


_INFO: dict[type[Any], MessageInfo] = {}


def _define_message(info: MessageInfo) -> Callable[[type[T]], type[T]]:
    def decorate(cls: type[T]) -> type[T]:
        message = _define(cls)
        _INFO[message] = info
        return message

    return decorate


@dataclass_transform(kw_only_default=True, field_specifiers=(since, tagged))
def request(key: ApiKey) -> Callable[[type[T]], type[T]]:
    """Declare the request of an API, in the versions of the table `APIS`."""
    return _define_message(MessageInfo(key, APIS[key].versions, APIS[key].flexible, "request"))


@dataclass_transform(kw_only_default=True, field_specifiers=(since, tagged))
def response(key: ApiKey) -> Callable[[type[T]], type[T]]:
    """Declare the response of an API, in the versions of the table `APIS`."""
    return _define_message(MessageInfo(key, APIS[key].versions, APIS[key].flexible, "response"))


@dataclass_transform(kw_only_default=True, field_specifiers=(since, tagged))
def data(versions: str, flexible: str = "none") -> Callable[[type[T]], type[T]]:
    """Declare data in Kafka's encoding outside of messages: log records, the consumer protocol."""
    return _define_message(
        MessageInfo(-1, VersionRange.parse(versions), VersionRange.parse(flexible), "data")
    )


def message_info(cls: type[Any]) -> MessageInfo:
    """Return the facts of a declared message class. Raises KeyError for other classes."""
    return _INFO[cls]


class FieldType(Struct, frozen=True):
    """The type of a field or of an array's element in one version: a primitive `kind`, an array (`element`) or
    a struct (`struct_class`). `nullable`: whether null is allowed in that version."""

    kind: FieldKind
    nullable: bool = False
    element: "FieldType | None" = None
    struct_class: type[Any] | None = None


class FieldLayout(Struct, frozen=True):
    """One field of one version: its Python name, its type, its tag (None for an untagged field), its default
    (NODEFAULT if it is required), and whether a tagged field is sent when it is null."""

    name: str
    type: FieldType
    tag: int | None
    default: Any
    sends_null: bool


_STRUCT: Final = FieldKind("struct")


def _field_type(hint: Any, nullable: bool) -> FieldType:
    if get_origin(hint) is Annotated:
        inner, kind = get_args(hint)
        assert isinstance(kind, FieldKind), hint
        if kind.name != "array":
            return FieldType(kind, kind.nullable and nullable)
        if kind.nullable:
            inner = next(option for option in get_args(inner) if option is not NoneType)
        (element,) = get_args(inner)
        return FieldType(kind, kind.nullable and nullable, _field_type(element, True))
    if get_origin(hint) in (Union, UnionType):
        inner = next(option for option in get_args(hint) if option is not NoneType)
        return FieldType(_STRUCT, nullable, None, inner)
    return FieldType(_STRUCT, False, None, hint)


def _is_struct(hint: Any) -> bool:
    return get_origin(hint) is not Annotated


def layout(cls: type[Any], version: int) -> tuple[FieldLayout, ...]:
    """Return the fields of one version of a message or struct in wire order. Tagged fields are at the end, by
    tag."""
    hints = get_type_hints(cls, include_extras=True)
    plain: list[FieldLayout] = []
    in_tags: list[FieldLayout] = []
    for name, declared in _FIELDS[cls].items():
        if version not in declared.versions:
            continue
        # A tagged struct that is None is omitted from the section and has no null marker, unless its
        # declaration has `nullable`.
        # line says that it is nullable.
        by_type = declared.tag is None or not _is_struct(hints[name])
        nullable = by_type if declared.nullable is None else version in declared.nullable
        entry = FieldLayout(
            name,
            _field_type(hints[name], nullable),
            declared.tag,
            copy(declared.default),
            declared.sends_null,
        )
        (plain if declared.tag is None else in_tags).append(entry)
    in_tags.sort(key=lambda entry: cast("int", entry.tag))
    return (*plain, *in_tags)
