"""Reading structs of one version at many places at once, field by field as the schema declares them.

What the daemon reads with a generated function per version, this reads with one column per field. It covers what
keys and values of offset commits are made of: numbers, strings, and in flexible versions a tagged section that is
empty or holds one UUID. A struct in any other form is not *plain* and left to the plain decoder.
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
"""Which elements: their indices, or all of them, for which no column is copied."""


def chosen_by(flags: Flags) -> Chosen:
    """Those that are flagged."""
    return slice(None) if flags.all() else np.flatnonzero(flags)


class Strings(NamedTuple):
    """Places of strings and their lengths in bytes."""

    starts: Numbers
    lengths: Numbers

    def take(self, chosen: Chosen) -> "Strings":
        """Some of them."""
        return Strings(self.starts[chosen], self.lengths[chosen])


class Structs(NamedTuple):
    """Structs by column: fixed-width numbers, strings, and the place of a UUID (-1: it has its default)."""

    numbers: dict[str, Numbers]
    strings: dict[str, Strings]
    uuids: dict[str, Numbers]
    is_plain: Flags


class _Cursor:
    """The place in each struct, kept inside the buffer whatever is read."""

    def __init__(self, data: Bytes, at: Numbers) -> None:
        self.data = data
        self.at = at
        self.is_plain = np.ones(len(at), bool)
        self._last = len(data) - PADDING_BYTES

    def move(self, at: Numbers) -> None:
        """Goes to new places; those outside the buffer are no place for a plain struct."""
        # Nearly always so, and cheaper to find out than to do what follows.
        if not len(at) or (at.min() >= 0 and at.max() <= self._last):
            self.at = at
            return
        self.is_plain &= (at >= 0) & (at <= self._last)
        self.at = np.clip(at, 0, self._last)

    def number(self, width: int) -> Numbers:
        """The next number."""
        numbers = fixed(self.data, self.at, width)
        self.move(self.at + width)
        return numbers

    def unsigned(self) -> Numbers:
        """The next unsigned variable-length integer."""
        found = unsigned_varints(self.data, self.at)
        self.is_plain &= found.is_sound
        self.move(found.after)
        return found.values

    def string(self, is_flexible: bool) -> Strings:
        """The next string."""
        lengths = self.unsigned() - 1 if is_flexible else self.number(2)
        if len(lengths) and (lengths.min() < 0 or lengths.max() > MAX_STRING_BYTES):
            self.is_plain &= (lengths >= 0) & (lengths <= MAX_STRING_BYTES)
            lengths = np.where(self.is_plain, lengths, 0)
        strings = Strings(self.at, lengths)
        self.move(self.at + strings.lengths)
        return strings

    def tagged_uuid(self, field: FieldLayout | None) -> Numbers:
        """The places of a tagged UUID, in a section that holds nothing else."""
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
    """The layout, worked out once."""
    if (cls, version) not in _LAYOUTS:
        _LAYOUTS[cls, version] = layout(cls, version)
    return _LAYOUTS[cls, version]


def read_structs(data: Bytes, at: Numbers, ends: Numbers, cls: type[Any], version: int) -> Structs:
    """The structs of class `cls` that begin at `at` and must end at `ends`.

    In: a class of numbers and strings that may not be null, and at most one tagged UUID.
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
