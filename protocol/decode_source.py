"""The source of a decoder: one function for one version of one message, no branch that the version decides.

Variables of the generated function: `data` the bytes, `p` the position, `n` their length. Lengths are checked
against `n` before anything is sliced, counts before a list grows. Reading past the end raises IndexError or
struct.error; the function turns these, and bad UTF-8, into Malformed.
"""

from struct import calcsize, unpack_from
from typing import Any

from protocol.budget import Budget
from protocol.malformed import Malformed, TooManyElements
from protocol.minimal_size import minimal_size
from protocol.primitives import MAX_STRING_BYTES, read_uvarint, skip_tagged_fields
from protocol.schema import FieldLayout, FieldType, layout
from protocol.source import FixedRun, Source

_LENGTH_LETTER = {"string": "h", "bytes": "i", "records": "i", "array": "i"}


class DecoderSource:
    """Writes the decoder of `cls` at `version` to `source` as a function named `decode`."""

    def __init__(
        self,
        source: Source,
        cls: type[Any],
        version: int,
        flexible: bool,
        whole: bool = True,
        budget: Budget | None = None,
    ) -> None:
        """In: whether the message must reach to the end of the data; what it may hold, None for anything."""
        self._source = source
        self._version = version
        self._flexible = flexible
        self._budget = budget
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
                    source.line(
                        f'raise Malformed(f"{cls.__name__} v{version}: {{n - p}} bytes are left over")'
                    )
            source.line(f"return {message}")

    def _struct(self, cls: type[Any]) -> str:
        """Lines that read a struct; the variable that holds it."""
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
        """Lines that read one value, or its place in the run of fixed-width ones; its variable."""
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
        """Read the run of fixed-width values."""
        letters, names = self._run.take()
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
        """Lines that read the length of a string, bytes or array (-1: null); its variable."""
        length = self._source.variable("length")
        if not self._flexible:
            self._run.add(_LENGTH_LETTER[field_type.kind.name], length)
            self._flush()
            return length
        self._flush()
        self._source.line(f"{length} = data[p] - 1")
        with self._source.block(f"if {length} < 127:"):
            self._source.line("p += 1")
        with self._source.block("else:"):
            self._source.line(f"{length}, p = read_uvarint(data, p)")
            self._source.line(f"{length} -= 1")
        return length

    def _sized(self, variable: str, field_type: FieldType) -> None:
        """A string, bytes or array: its length, null if the version allows it, then what it holds."""
        length = self._length(field_type)
        with self._source.block(f"if {length} < 0:"):
            if field_type.nullable:
                bad = f"if {length} != -1: " if not self._flexible else ""
                if bad:
                    self._source.line(f'{bad}raise Malformed(f"length {{{length}}} before byte {{p}}")')
                self._source.line(f"{variable} = None")
            else:
                self._source.line(f'raise Malformed(f"length {{{length}}} of {variable} before byte {{p}}")')
        with self._source.block("else:"):
            if field_type.kind.name == "array":
                self._array(variable, length, field_type)
            else:
                self._slice(variable, length, field_type)

    def _slice(self, variable: str, length: str, field_type: FieldType) -> None:
        is_string = field_type.kind.name == "string"
        if is_string and self._flexible:
            with self._source.block(f"if {length} > {MAX_STRING_BYTES}:"):
                self._source.line(f'raise Malformed(f"{variable} has {{{length}}} bytes")')
        end = self._source.variable("end")
        self._source.line(f"{end} = p + {length}")
        with self._source.block(f"if {end} > n:"):
            self._source.line(f'raise Malformed(f"{variable} ends {{{end} - n}} bytes past the end")')
        decode = ".decode()" if is_string else ""
        self._source.line(f"{variable} = data[p:{end}]{decode}")
        self._source.line(f"p = {end}")

    def _array(self, variable: str, count: str, field_type: FieldType) -> None:
        element = field_type.element
        assert element is not None
        least = minimal_size(element, self._version, self._flexible)
        assert least > 0, "an element without bytes could be counted without bound"
        with self._source.block(f"if {count} * {least} > n - p:"):
            self._source.line(f'raise Malformed(f"{{{count}}} elements of {variable} do not fit")')
        if self._budget is not None:
            self._spend(
                "elements_left", count, f"{self._budget.elements} elements", self._budget.too_many.__name__
            )
        if element.kind.letter:
            unpack = self._source.constant("unpack_many", _unpack_many)
            self._source.line(f"{variable} = {unpack}({element.kind.letter!r}, {count}, data, p)")
            self._source.line(f"p += {count} * {least}")
            return
        self._source.line(f"{variable} = []")
        append = self._source.variable("append")
        self._source.line(f"{append} = {variable}.append")
        with self._source.block(f"for _ in range({count}):"):
            one = self._value("element", element)
            self._flush()
            self._source.line(f"{append}({one})")

    def _tagged_section(self, in_tags: list[FieldLayout], values: dict[str, str]) -> None:
        """The section at the end of every struct of a flexible version."""
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
        """Lines that read a field of the section; its variable. A struct there has 0 for a null."""
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
