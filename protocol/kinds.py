"""The types that fields of Kafka messages have, as annotations.

`Int32` is `int` to a type checker and to the reader; the `Kind` beside it tells the codecs how it travels.
A struct class used as an annotation is a nested struct; `Struct | None` is a nullable struct (an int8 marker
precedes it); `Array[T]` and `NullableArray[T]` hold any of these.

The encodings are those of KIP-482 and of the protocol guide: fixed integers are big-endian; strings, bytes
and arrays carry a length that is int16 or int32 in old ("inflexible") versions and an unsigned varint of
length + 1 in flexible ones.
"""

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind:
    """How a field travels: its name in Kafka's message definitions, and for a fixed-width number its
    `struct` letter. `nullable` says that the Python type admits None; in which versions null may be sent
    is said by the field."""

    name: str
    letter: str = ""
    nullable: bool = False


ZERO_UUID: Final = bytes(16)

Bool: TypeAlias = Annotated[bool, Kind("bool", "?")]
Int8: TypeAlias = Annotated[int, Kind("int8", "b")]
Int16: TypeAlias = Annotated[int, Kind("int16", "h")]
Int32: TypeAlias = Annotated[int, Kind("int32", "i")]
Int64: TypeAlias = Annotated[int, Kind("int64", "q")]
UInt16: TypeAlias = Annotated[int, Kind("uint16", "H")]
Float64: TypeAlias = Annotated[float, Kind("float64", "d")]
Uuid: TypeAlias = Annotated[bytes, Kind("uuid")]
String: TypeAlias = Annotated[str, Kind("string")]
NullableString: TypeAlias = Annotated[str | None, Kind("string", nullable=True)]
Bytes: TypeAlias = Annotated[bytes, Kind("bytes")]
NullableBytes: TypeAlias = Annotated[bytes | None, Kind("bytes", nullable=True)]
# Record batches: on the wire the same as bytes; Kafka's definitions give them a name of their own.
Records: TypeAlias = Annotated[bytes | None, Kind("records", nullable=True)]
Array: TypeAlias = Annotated[list[T], Kind("array")]
NullableArray: TypeAlias = Annotated[list[T] | None, Kind("array", nullable=True)]
