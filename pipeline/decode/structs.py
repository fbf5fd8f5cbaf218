"""Read structs of one version at many positions at once, field by field as the schema declares them.

The daemon reads structs with a generated function per version; this module reads one column per field. It supports
the types in keys and values of offset commits: numbers, strings, and in flexible versions a tagged section that is
empty or has one UUID. A struct in any other form is not *plain*, and the plain decoder reads it.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from pipeline.decode.frames import Flags, Numbers
from pipeline.decode.numbers import PADDING_BYTES, Bytes, fixed, unsigned_varints
from protocol.primitives import MAX_STRING_BYTES
from protocol.schema import FieldLayout, layout, message_info

_WIDTHS: Final = {"b": 1, "h": 2, "i": 4, "q": 8}
_UUID_BYTES: Final = 16


Chosen = Numbers | slice
"""The selected elements: their indices, or a slice for all, which copies no column."""


def chosen_by(flags: Flags) -> Chosen:
    """Return the selection of the flagged elements."""
    return slice(None) if flags.all() else np.flatnonzero(flags)


class Strings(NamedTuple):
    """Positions of strings and their lengths in bytes."""

    starts: Numbers
    lengths: Numbers

    def take(self, chosen: Chosen) -> "Strings":
        """Return the selected strings."""
        return Strings(self.starts[chosen], self.lengths[chosen])


class Structs(NamedTuple):
    """Structs by column: fixed-width numbers, strings, and the position of a UUID (-1: it has its default)."""

    numbers: dict[str, Numbers]
    strings: dict[str, Strings]
    uuids: dict[str, Numbers]
    is_plain: Flags


class _Cursor:
    """The read position in each struct, always kept inside the buffer."""

    def __init__(self, data: Bytes, at: Numbers) -> None:
        self.data = data
        self.at = at
        self.is_plain = np.ones(len(at), bool)
        self._last = len(data) - PADDING_BYTES

    def move(self, at: Numbers) -> None:
        """Set new positions. A position outside of the buffer marks its struct as not plain."""
        # The usual case; the test is cheaper than the code below.
        if not len(at) or (at.min() >= 0 and at.max() <= self._last):
            self.at = at
            return
        self.is_plain &= (at >= 0) & (at <= self._last)
        self.at = np.clip(at, 0, self._last)

    def number(self, width: int) -> Numbers:
        """Read the next number."""
        numbers = fixed(self.data, self.at, width)
        self.move(self.at + width)
        return numbers

    def unsigned(self) -> Numbers:
        """Read the next unsigned varint."""
        found = unsigned_varints(self.data, self.at)
        self.is_plain &= found.is_sound
        self.move(found.after)
        return found.values

    def string(self, is_flexible: bool) -> Strings:
        """Read the next string."""
        lengths = self.unsigned() - 1 if is_flexible else self.number(2)
        if len(lengths) and (lengths.min() < 0 or lengths.max() > MAX_STRING_BYTES):
            self.is_plain &= (lengths >= 0) & (lengths <= MAX_STRING_BYTES)
            lengths = np.where(self.is_plain, lengths, 0)
        strings = Strings(self.at, lengths)
        self.move(self.at + strings.lengths)
        return strings

    def tagged_uuid(self, field: FieldLayout | None) -> Numbers:
        """Read the positions of a UUID in a tagged section without other fields."""
        places = np.full(len(self.at), -1, np.int64)
        counts = self.unsigned()
        has_tag = counts != 0
        if not has_tag.any():
            return places
        inner = _Cursor(self.data, self.at)
        tag, size = inner.unsigned(), inner.unsigned()
        is_known = inner.is_plain & (counts == 1) & (size == _UUID_BYTES)
        is_known &= (tag == field.tag) if field is not None else False
        self.is_plain &= ~has_tag | is_known
        places[has_tag] = inner.at[has_tag]
        self.move(np.where(has_tag, inner.at + _UUID_BYTES, self.at))
        return places


_LAYOUTS: Final[dict[tuple[type[Any], int], tuple[FieldLayout, ...]]] = {}


def _fields(cls: type[Any], version: int) -> tuple[FieldLayout, ...]:
    """Return the cached field layout."""
    if (cls, version) not in _LAYOUTS:
        _LAYOUTS[cls, version] = layout(cls, version)
    return _LAYOUTS[cls, version]


def read_structs(data: Bytes, at: Numbers, ends: Numbers, cls: type[Any], version: int) -> Structs:
    """Read the structs of class `cls` that begin at `at` and must end at `ends`.

    The class must have only numbers, non-null strings, and at most one tagged UUID.
    """
    is_flexible = version in message_info(cls).flexible
    cursor = _Cursor(data, at)
    numbers: dict[str, Numbers] = {}
    strings: dict[str, Strings] = {}
    uuids: dict[str, Numbers] = {}
    tagged: FieldLayout | None = None
    for field in _fields(cls, version):
        kind = field.type.kind
        if field.tag is not None:
            assert kind.name == "uuid", field
            assert tagged is None, field
            tagged = field
        elif kind.letter:
            numbers[field.name] = cursor.number(_WIDTHS[kind.letter])
        else:
            assert kind.name == "string", field
            assert not field.type.nullable, field
            strings[field.name] = cursor.string(is_flexible)
    if is_flexible:
        places = cursor.tagged_uuid(tagged)
        if tagged is not None:
            uuids[tagged.name] = places
    return Structs(numbers, strings, uuids, cursor.is_plain & (cursor.at == ends))
