"""What counts of the log of an internal topic: the newest value of each key.

A log says the same thing over and over, with other numbers: a group that commits every five seconds writes some
6 million records a year for each partition that it reads. Only the last of them counts, so that only the last
is worth decoding. Reading is therefore two passes over very different amounts: every record of the log ends up
here, as bytes, and what is left is decoded and given to the machine.

It follows that a load never sees what a compaction would have removed: whether a log was compacted or not makes
no difference to what it yields, not even where a value that was later superseded does not parse.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from coordinator.engine.machine import Codec
from storage.pairs import Pair

_INT16: Final = Struct(">h")


class MissingKey(Exception):
    """A record without a key, which cannot be of a machine."""


class NewestValues:
    """The values of one partition's log by key, as bytes; a key in whose place is a tombstone is not there."""

    __slots__ = ("_codec", "_values", "unknown_types")

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._values: dict[bytes, bytes] = {}
        self.unknown_types: dict[int, None] = {}
        """Types of keys that were met and belong to no machine of this topic. Their records stay in the log."""

    def __len__(self) -> int:
        return len(self._values)

    def put(self, pairs: Iterable[Pair]) -> None:
        """Takes records in the order of the log. Raises MissingKey; Malformed for a key of a known type."""
        values = self._values
        for key, value in pairs:
            if key in values:
                if value is None:
                    del values[key]
                else:
                    values[key] = value
            else:
                self._put_other(key, value)

    def _put_other(self, key: bytes | None, value: bytes | None) -> None:
        """A record whose key has no value here, or is written in another way."""
        canonical = self.canonical_key(key)
        if canonical is None:
            return
        if value is not None:
            self._values[canonical] = value
        else:
            self._values.pop(canonical, None)

    def canonical_key(self, key: bytes | None) -> bytes | None:
        """The one form of a record's key; None for one that belongs to no machine of this topic, which is noted.
        Raises MissingKey; Malformed for a key of a known type."""
        if key is None:
            raise MissingKey("a record has no key")
        if key in self._values:
            return key
        canonical = self._codec.canonical_key(key)
        if canonical is None:
            # Every key of an internal topic begins with its type.
            self.unknown_types[_INT16.unpack_from(key)[0]] = None
        return canonical

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values, from the key that has been there longest."""
        return iter(self._values.items())
