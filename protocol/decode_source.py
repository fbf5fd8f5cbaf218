"""Generates the source of a decoder: a function for one version of one message, which has no branches on the
version.

Variables of the generated function: `data` has the bytes, `p` is the position, `n` the number of bytes. A
count of elements is checked against `n` with the minimum size of an element before a list is built. Reading
past the end raises IndexError or struct.error; the function turns these, and bad UTF-8, into Malformed.
"""

from struct import calcsize, unpack_from
from typing import Any

from protocol.primitives import (
    MAX_STRING_BYTES,
    DecodingBudget,
    Malformed,
    TooManyElements,
    read_uvarint,
    skip_tagged_fields,
)
from protocol.python_source import FixedRun, PythonSource
from protocol.schema import FieldLayout, FieldType, layout

_VARIABLE_WIDTH = {"string": 2, "bytes": 4, "records": 4, "array": 4}


def find_minimal_size(field_type: FieldType, version: int, flexible: bool) -> int:
    """Return the size in bytes of the smallest value of this type in this version."""
    kind = field_type.kind
    if kind.letter:
        return calcsize(">" + kind.letter)
    if kind.name == "uuid":
        return 16
    if field_type.struct_class is None:
        return 1 if flexible else _VARIABLE_WIDTH[kind.name]
    if field_type.nullable:
        return 1
    return find_minimal_struct_size(field_type.struct_class, version, flexible)


def find_minimal_struct_size(cls: type[Any], version: int, flexible: bool) -> int:
    """Return the size in bytes of the smallest value of a message or struct in this version."""
    sizes = (
        find_minimal_size(entry.type, version, flexible)
        for entry in layout(cls, version)
        if entry.tag is None
    )
    return sum(sizes) + (1 if flexible else 0)


_LENGTH_LETTER = {"string": "h", "bytes": "i", "records": "i", "array": "i"}


class DecoderSource:
    """Writes the decoder of `cls` at `version` to `source`, as a function named `decode`."""

    def __init__(
        self,
        source: PythonSource,
        cls: type[Any],
        version: int,
        flexible: bool,
        whole: bool = True,
        budget: DecodingBudget | None = None,
    ) -> None:
        """Write the function.

        `whole`: the message must end with the data. `budget` limits the number of its elements; None for no
        limit.
        """
        self._source = source
        self._version = version
        self._flexible = flexible
        self._budget = budget
        self._whole = whole
        self._run = FixedRun()
        for value in (Malformed, TooManyElements, read_uvarint, skip_tagged_fields):
            source.constant(value.__name__, value)
        with source.block("def decode(data, p=0):"):
            source.line("n = len(data)")
            if budget is not None:
                source.line(f"elements_left, tags_left = {budget.elements}, {budget.unknown_tags}")
            with source.block("try:"):
                message = self._struct(cls)
            with source.block("except (IndexError, struct_error, UnicodeDecodeError) as problem:"):
                source.line(f'raise Malformed(f"{cls.__name__} v{version}: {{problem}}") from None')
            if whole:
                with source.block("if p != n:"):
                    left = f'f"{cls.__name__} v{version}: {{n - p}} bytes are left over"'
                    missing = f'f"{cls.__name__} v{version} ends {{p - n}} bytes past the end"'
                    source.line(f"raise Malformed({left} if p < n else {missing})")
            source.line(f"return {message}")

    def _struct(self, cls: type[Any]) -> str:
        """Write lines that read a struct. Return the variable of the struct."""
        fields = layout(cls, self._version)
        values = {entry.name: self._value(entry.name, entry.type) for entry in fields if entry.tag is None}
        self._flush()
        in_tags = [entry for entry in fields if entry.tag is not None]
        for entry in in_tags:
            values[entry.name] = self._source.variable(entry.name)
            self._source.line(f"{values[entry.name]} = {entry.default!r}")
        if self._flexible:
            self._tagged_section(in_tags, values)
        message = self._source.variable(cls.__name__)
        given = ", ".join(f"{name}={value}" for name, value in values.items())
        self._source.line(f"{message} = {self._source.constant(cls.__name__, cls)}({given})")
        return message

    def _value(self, name: str, field_type: FieldType) -> str:
        """Write lines that read one value, or add it to the run of fixed-width values. Return its variable."""
        variable = self._source.variable(name)
        kind = field_type.kind
        if kind.letter or kind.name == "uuid":
            self._run.add(kind.letter or "16s", variable)
        elif field_type.struct_class is not None:
            self._flush()
            self._nested(variable, field_type)
        else:
            self._sized(variable, field_type)
        return variable

    def _flush(self) -> None:
        """Write lines that read the run of fixed-width values."""
        letters, names = self._run.take_values()
        if not names:
            return
        unpack = self._source.struct(letters, "unpack_from")
        self._source.line(f"{', '.join(names)}, = {unpack}(data, p)")
        self._source.line(f"p += {calcsize('>' + letters)}")

    def _nested(self, variable: str, field_type: FieldType, is_there: str = "data[p] < 0x80") -> None:
        assert field_type.struct_class is not None
        if not field_type.nullable:
            self._source.line(f"{variable} = {self._struct(field_type.struct_class)}")
            return
        self._source.line(f"{variable} = None")
        with self._source.block(f"if {is_there}:"):
            self._source.line("p += 1")
            self._source.line(f"{variable} = {self._struct(field_type.struct_class)}")
        with self._source.block("else:"):
            self._source.line("p += 1")

    def _length(self, field_type: FieldType) -> str:
        """Write lines that read the length of a string, bytes or array in an inflexible version (-1: null).
        Return the variable of the length."""
        length = self._source.variable("length")
        self._run.add(_LENGTH_LETTER[field_type.kind.name], length)
        self._flush()
        return length

    def _compact_count(self, variable: str, element: FieldType) -> str:
        """Write lines that read the number of elements of a compact array (-1: null). Return the variable of
        the number.

        A number up to 126 is not compared with the length of the data, because the loop ends soon anyway.
        """
        self._flush()
        source, count = self._source, self._source.variable("count")
        source.line(f"{count} = data[p] - 1")
        source.line("p += 1")
        with source.block(f"if {count} > 126:"):
            source.line(f"{count}, p = read_uvarint(data, p - 1)")
            source.line(f"{count} -= 1")
            self._check_fits(variable, count, element)
        return count

    def _check_fits(self, variable: str, count: str, element: FieldType) -> None:
        least = find_minimal_size(element, self._version, self._flexible)
        assert least > 0, "an element without bytes could be counted without bound"
        with self._source.block(f"if {count} * {least} > n - p:"):
            self._source.line(f'raise Malformed(f"{{{count}}} elements of {variable} do not fit")')

    def _sized(self, variable: str, field_type: FieldType) -> None:
        """Write lines that read a string, bytes or array: its length, null if the version allows it, then its
        content."""
        if self._flexible and field_type.kind.name != "array":
            self._compact(variable, field_type)
            return
        is_array, is_compact = field_type.kind.name == "array", self._flexible
        if is_compact:
            assert field_type.element is not None
            length = self._compact_count(variable, field_type.element)
        else:
            length = self._length(field_type)
        with self._source.block(f"if {length} < 0:"):
            if field_type.nullable:
                if not is_compact:
                    self._source.line(
                        f'if {length} != -1: raise Malformed(f"length {{{length}}} before byte {{p}}")'
                    )
                self._source.line(f"{variable} = None")
            else:
                self._source.line(f'raise Malformed(f"length {{{length}}} of {variable} before byte {{p}}")')
        with self._source.block("else:"):
            if is_array:
                self._array(variable, length, field_type)
            else:
                end = self._end(variable, f"p + {length}")
                self._slice(variable, f"p:{end}", end, field_type)

    def _compact(self, variable: str, field_type: FieldType) -> None:
        """Write lines that read a string or bytes in a flexible version.

        The encoded length is one more than the number of bytes, and 0 is null. The lines keep `p` at the last
        byte of the length, so that `p + length` is the end of the value. Nearly all lengths have one byte.
        """
        self._flush()
        source, length = self._source, self._source.variable("length")
        source.line(f"{length} = data[p]")
        with source.block(f"if {length} > 127:"):
            source.line(f"{length}, p = read_uvarint(data, p)")
            source.line("p -= 1")
            if field_type.kind.name == "string":
                with source.block(f"if {length} > {MAX_STRING_BYTES + 1}:"):
                    source.line(f'raise Malformed(f"{variable} has {{{length} - 1}} bytes")')
        with source.block(f"if {length}:"):
            end = self._end(variable, f"p + {length}")
            self._slice(variable, f"p + 1:{end}", end, field_type)
        with source.block("else:"):
            if field_type.nullable:
                source.line(f"{variable} = None")
                source.line("p += 1")
            else:
                source.line(f'raise Malformed(f"{variable} is null before byte {{p}}")')

    def _end(self, variable: str, expression: str) -> str:
        """Write lines that compute the end of a string or bytes. Return the variable of the end.

        The decoder of a whole message compares its last position with the length of the data, and so needs no
        check of each value.
        """
        end = self._source.variable("end")
        self._source.line(f"{end} = {expression}")
        if not self._whole:
            with self._source.block(f"if {end} > n:"):
                self._source.line(f'raise Malformed(f"{variable} ends {{{end} - n}} bytes past the end")')
        return end

    def _slice(self, variable: str, positions: str, end: str, field_type: FieldType) -> None:
        decode = ".decode()" if field_type.kind.name == "string" else ""
        self._source.line(f"{variable} = data[{positions}]{decode}")
        self._source.line(f"p = {end}")

    def _array(self, variable: str, count: str, field_type: FieldType) -> None:
        element = field_type.element
        assert element is not None
        if not self._flexible:
            self._check_fits(variable, count, element)
        if self._budget is not None:
            self._spend(
                "elements_left",
                count,
                f"{self._budget.elements} elements",
                self._budget.too_many_error.__name__,
            )
        if element.kind.letter:
            unpack = self._source.constant("unpack_many", _unpack_many)
            self._source.line(f"{variable} = {unpack}({element.kind.letter!r}, {count}, data, p)")
            self._source.line(f"p += {count} * {calcsize('>' + element.kind.letter)}")
            return
        self._source.line(f"{variable} = []")
        append = self._source.variable("append")
        self._source.line(f"{append} = {variable}.append")
        with self._source.block(f"for _ in range({count}):"):
            one = self._value("element", element)
            self._flush()
            self._source.line(f"{append}({one})")

    def _tagged_section(self, in_tags: list[FieldLayout], values: dict[str, str]) -> None:
        """Write lines that read the tagged fields at the end of a struct in a flexible version."""
        count = self._source.variable("count")
        self._source.line(f"{count} = data[p]")
        self._source.line("p += 1")
        with self._source.block(f"if {count}:"):
            with self._source.block(f"if {count} >= 0x80:"):
                self._source.line(f"{count}, p = read_uvarint(data, p - 1)")
            if not in_tags:
                self._spend_tags(count)
                self._source.line(f"p = skip_tagged_fields(data, p, {count})")
                return
            last, tag, size, end = (self._source.variable(name) for name in ("last", "tag", "size", "end"))
            self._source.line(f"{last} = -1")
            with self._source.block(f"for _ in range({count}):"):
                self._source.line(f"{tag}, p = read_uvarint(data, p)")
                self._source.line(f"{size}, p = read_uvarint(data, p)")
                self._source.line(f"{end} = p + {size}")
                with self._source.block(f"if {end} > n or {tag} <= {last}:"):
                    self._source.line(f'raise Malformed(f"tagged field {{{tag}}} of {{{size}}} bytes")')
                self._source.line(f"{last} = {tag}")
                for entry in in_tags:
                    with self._source.block(f"if {tag} == {entry.tag}:"):
                        read = self._tagged(entry)
                        self._flush()
                        self._source.line(f"{values[entry.name]} = {read}")
                known = ", ".join(str(entry.tag) for entry in in_tags)
                with self._source.block(f"if {tag} not in ({known},):"):
                    self._spend_tags("1")
                    self._source.line(f"p = {end}")
                with self._source.block(f"if p != {end}:"):
                    self._source.line(f'raise Malformed(f"tagged field {{{tag}}} has another size")')

    def _tagged(self, entry: FieldLayout) -> str:
        """Write lines that read a tagged field. Return its variable. For a null struct the marker is 0 there."""
        if entry.type.struct_class is None:
            return self._value(entry.name, entry.type)
        variable = self._source.variable(entry.name)
        self._flush()
        self._nested(variable, entry.type, is_there="data[p]")
        return variable

    def _spend_tags(self, count: str) -> None:
        if self._budget is not None:
            self._spend("tags_left", count, f"{self._budget.unknown_tags} unknown tagged fields")

    def _spend(self, left: str, count: str, most: str, error: str = "Malformed") -> None:
        self._source.line(f"{left} -= {count}")
        with self._source.block(f"if {left} < 0:"):
            self._source.line(f'raise {error}("there are more than {most}")')


def _unpack_many(letter: str, count: int, data: bytes, position: int) -> list[int]:
    return list(unpack_from(f">{count}{letter}", data, position))
