"""A log on a disk that crashes: what was synced stays, of the rest any prefix may."""

from random import Random
from typing import TypeAlias

from coordinator.machine.outcome import Fact
from protocol.records import UnknownKey, decode_key, decode_value, encode_key, encode_value

Stored: TypeAlias = tuple[bytes, bytes | None]


class AppendFailed(Exception):
    """The write or the sync did not succeed."""


class Disk:
    """Batches of encoded records; a batch is written as one or not at all."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.batches: list[list[Stored]] = []
        self.durable = 0
        self.fail_appends = 0
        self.fail_syncs = 0

    @property
    def end(self) -> int:
        """How many batches were written."""
        return len(self.batches)

    def append(self, records: list[Fact]) -> None:
        """Write one batch. AppendFailed when the disk refuses; nothing of it is there then."""
        if self.fail_appends:
            self.fail_appends -= 1
            raise AppendFailed
        self.batches.append([encode(record) for record in records])

    def synced(self, end: int) -> None:
        """A sync that began when the log ended at `end` is over. AppendFailed when it failed: what it was
        to keep may be lost."""
        if self.fail_syncs:
            self.fail_syncs -= 1
            self.lose_tail()
            raise AppendFailed
        self.durable = max(self.durable, min(end, self.end))

    def lose_tail(self) -> int:
        """The machine stops: how many unsynced batches are gone."""
        kept = self._random.randint(self.durable, self.end)
        lost = self.end - kept
        del self.batches[kept:]
        self.durable = self.end
        return lost

    def load(self, end: int | None = None) -> list[Fact]:
        """The records of the first `end` batches, from their bytes."""
        return [decode(stored) for batch in self.batches[:end] for stored in batch]


def encode(record: Fact) -> Stored:
    """A record's bytes."""
    value = None if record.value is None else encode_value(record.value, record.value_version)
    return encode_key(record.key), value


def decode(stored: Stored) -> Fact:
    """A record from its bytes."""
    key = decode_key(stored[0])
    assert not isinstance(key, UnknownKey), key
    if stored[1] is None:
        return Fact(key, None)
    return Fact(key, decode_value(key, stored[1]), int.from_bytes(stored[1][:2]))
