"""The least number of bytes that a value takes: what bounds an array's count before memory is set aside."""

from struct import calcsize
from typing import Any

from protocol.schema import FieldType, layout

_VARIABLE_WIDTH = {"string": 2, "bytes": 4, "records": 4, "array": 4}


def minimal_size(field_type: FieldType, version: int, flexible: bool) -> int:
    """The bytes that the smallest value of this type takes in this version."""
    kind = field_type.kind
    if kind.letter:
        return calcsize(">" + kind.letter)
    if kind.name == "uuid":
        return 16
    if field_type.struct_class is None:
        return 1 if flexible else _VARIABLE_WIDTH[kind.name]
    if field_type.nullable:
        return 1
    return minimal_struct_size(field_type.struct_class, version, flexible)


def minimal_struct_size(cls: type[Any], version: int, flexible: bool) -> int:
    """The bytes that the smallest value of a message or struct takes in this version."""
    sizes = (
        minimal_size(entry.type, version, flexible) for entry in layout(cls, version) if entry.tag is None
    )
    return sum(sizes) + (1 if flexible else 0)
