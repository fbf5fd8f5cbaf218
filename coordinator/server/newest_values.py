"""What counts of a log of `__consumer_offsets`: the newest value of each key.

A log says the same thing over and over, with other numbers: a group that commits every five seconds writes some
6 million records a year for each partition that it reads. Only the last of them counts, so that only the last
is worth decoding. Reading is therefore two passes over very different amounts: every record of the log ends up
here, as bytes, and what is left is decoded and given to the groups.

It follows that a load never sees what a compaction would have removed: whether a log was compacted or not makes
no difference to what it yields, not even where a value that was later superseded does not parse.

A key of type 0 is what Kafka wrote before 0.9 for what is type 1 today, with the same fields; both are one key.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from protocol.records import UnknownKey, decode_key
from storage.pairs import Pair

_OLD_OFFSET_KEY: Final = b"\0\0"
_OFFSET_KEY: Final = b"\0\1"


class MissingKey(Exception):
    """A record without a key, which cannot be of a group."""


class NewestValues:
    """The values of one partition's log by key, as bytes; a key in whose place is a tombstone is not there."""

    __slots__ = ("_values", "unknown_types")

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self.unknown_types: dict[int, None] = {}
        """Types of keys that were met and belong to no group served here. Their records stay in the log."""

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
        if key is None:
            raise MissingKey("a record has no key")
        if key.startswith(_OLD_OFFSET_KEY):
            key = _OFFSET_KEY + key[2:]
        decoded = decode_key(key)
        if isinstance(decoded, UnknownKey):
            self.unknown_types[decoded.type] = None
        elif value is not None:
            self._values[key] = value
        else:
            self._values.pop(key, None)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values, from the key that has been there longest."""
        return iter(self._values.items())
