"""Generates the source of an encoder: a function for one version of one message, which appends to a bytearray.

Neighbouring fixed-width values share one `struct` call, in inflexible versions together with the length of the
next field. A value that does not fit its field (a string that is too long, or None in a field without null) is
a defect of the program and raises Python's own error.

A bounded encoder checks the length of its output after each struct of an array, and stops above the limit. A
response can repeat data that was not in the request, so the limits of requests do not bound it.
"""

from struct import calcsize, pack
from typing import Any

from protocol.primitives import TooLong, write_uvarint
from protocol.python_source import FixedRun, PythonSource
from protocol.schema import FieldLayout, FieldType, layout

_LENGTH_LETTER = {"string": "h", "bytes": "i", "records": "i", "array": "i"}


class EncoderSource:
    """Writes the encoder of `cls` at `version` to `source`, as a function named `write`."""

    def __init__(
        self, source: PythonSource, cls: type[Any], version: int, flexible: bool, bounded: bool = False
    ) -> None:
        """Create the source of an encoder. `bounded` adds a parameter `most`: the function raises soon after `out`
        exceeds it.
        """
        self._source = source
        self._version = version
        self._flexible = flexible
        self._bounded = bounded
        self._run = FixedRun()
        self._out = "out"
        source.constant("write_uvarint", write_uvarint)
        source.constant("pack_many", _pack_many)
        source.constant("TooLong", TooLong)
        with source.block(f"def write(message, out{', most' if bounded else ''}):"):
            self._struct("message", cls)
            self._flush()
            source.line("return")

    def _struct(self, value: str, cls: type[Any]) -> None:
        fields = layout(cls, self._version)
        for entry in fields:
            if entry.tag is None:
                self._value(f"{value}.{entry.name}", entry.name, entry.type)
        if self._flexible:
            self._tagged_section(value, [entry for entry in fields if entry.tag is not None])

    def _flush(self) -> None:
        """Write lines that write the run of fixed-width values."""
        letters, names = self._run.take_values()
        if letters == "B":
            self._source.line(f"{self._out}.append({names[0]})")
        elif names:
            pack = self._source.struct(letters, "pack")
            self._source.line(f"{self._out} += {pack}({', '.join(names)})")

    def _value(self, value: str, name: str, field_type: FieldType) -> None:
        """Write lines that write the value of the expression `value`."""
        kind = field_type.kind
        if kind.letter or kind.name == "uuid":
            self._run.add(kind.letter or "16s", value)
        elif field_type.struct_class is not None:
            self._nested(value, name, field_type)
        else:
            self._sized(value, name, field_type)

    def _nested(self, value: str, name: str, field_type: FieldType, null_marker: int = 255) -> None:
        assert field_type.struct_class is not None
        local = self._source.variable(name)
        self._source.line(f"{local} = {value}")
        if not field_type.nullable:
            self._struct(local, field_type.struct_class)
            return
        self._flush()
        with self._source.block(f"if {local} is None:"):
            self._source.line(f"{self._out}.append({null_marker})")
        with self._source.block("else:"):
            self._run.add("B", "1")
            self._struct(local, field_type.struct_class)
            self._flush()

    def _sized(self, value: str, name: str, field_type: FieldType) -> None:
        """Write lines that write a string, bytes or array: null if allowed, otherwise its length and its
        content."""
        local = self._source.variable(name)
        text = field_type.kind.name == "string"
        if not field_type.nullable:
            self._source.line(f"{local} = {value}{'.encode()' if text else ''}")
            self._content(local, field_type)
            return
        self._source.line(f"{local} = {value}")
        self._flush()
        with self._source.block(f"if {local} is None:"):
            if self._flexible:
                self._source.line(f"{self._out}.append(0)")
            else:
                self._run.add(_LENGTH_LETTER[field_type.kind.name], "-1")
                self._flush()
        with self._source.block("else:"):
            if text:
                self._source.line(f"{local} = {local}.encode()")
            self._content(local, field_type)
            self._flush()

    def _content(self, local: str, field_type: FieldType) -> None:
        if not self._flexible:
            self._run.add(_LENGTH_LETTER[field_type.kind.name], f"len({local})")
            self._flush()
        else:
            length = self._source.variable("length")
            self._source.line(f"{length} = len({local}) + 1")
            before = self._run.copy()
            with self._source.block(f"if {length} < 0x80:"):
                self._run.add("B", length)
                self._flush()
            self._run = before
            with self._source.block("else:"):
                self._flush()
                self._source.line(f"write_uvarint({self._out}, {length})")
        if field_type.kind.name != "array":
            self._source.line(f"{self._out} += {local}")
            return
        element = field_type.element
        assert element is not None
        if element.kind.letter:
            self._source.line(f"{self._out} += pack_many({element.kind.letter!r}, {local})")
            return
        one = self._source.variable("element")
        with self._source.block(f"for {one} in {local}:"):
            if element.struct_class is not None and not element.nullable:
                self._struct(one, element.struct_class)
            else:
                self._value(one, "element", element)
            self._flush()
            if self._bounded and element.struct_class is not None:
                with self._source.block(f"if len({self._out}) > most:"):
                    self._source.line("raise TooLong")

    def _tagged_section(self, value: str, in_tags: list[FieldLayout]) -> None:
        """Write lines that write the tagged fields at the end of a struct in a flexible version, except fields
        with their default value."""
        if not in_tags:
            self._run.add("B", "0")
            return
        self._flush()
        conditions = {entry.name: _differs(f"{value}.{entry.name}", entry) for entry in in_tags}
        count = " + ".join(f"({condition})" for condition in conditions.values())
        self._source.line(f"{self._out}.append({count})")
        for entry in in_tags:
            with self._source.block(f"if {conditions[entry.name]}:"):
                letter = entry.type.kind.letter
                if letter and entry.tag is not None and entry.tag < 0x80:
                    self._run.add("B", str(entry.tag))
                    self._run.add("B", str(calcsize(f">{letter}")))
                    self._run.add(letter, f"{value}.{entry.name}")
                    self._flush()
                    continue
                around, self._out = self._out, self._source.variable("field")
                self._source.line(f"{self._out} = bytearray()")
                if entry.type.struct_class is not None:
                    # The marker of a null struct is 0 in a tagged field, unlike in other fields.
                    self._nested(f"{value}.{entry.name}", entry.name, entry.type, null_marker=0)
                else:
                    self._value(f"{value}.{entry.name}", entry.name, entry.type)
                self._flush()
                field, self._out = self._out, around
                self._source.line(f"write_uvarint({self._out}, {entry.tag})")
                self._source.line(f"write_uvarint({self._out}, len({field}))")
                self._source.line(f"{self._out} += {field}")


def _differs(value: str, entry: FieldLayout) -> str:
    if entry.sends_null:
        return "True"
    if entry.default is None:
        return f"{value} is not None"
    return f"{value} != {entry.default!r}"


def _pack_many(letter: str, values: list[int]) -> bytes:
    return pack(f">{len(values)}{letter}", *values)
