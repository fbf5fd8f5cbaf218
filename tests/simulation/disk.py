"""A log on a disk that crashes. A crash keeps all synced data and a random prefix of the rest."""

from random import Random
from typing import NamedTuple, TypeAlias

from coordinator.core.outcome import NO_PRODUCER_ID, Fact, Outcome, TransactionMarker
from coordinator.group.group_shard import GroupShard
from protocol.records.group_record_serde import UnknownKey, decode_key, decode_value, encode_key, encode_value

Stored: TypeAlias = tuple[bytes, bytes | None]


class Batch(NamedTuple):
    """Records, in a producer's transaction or outside of one; or the end of a transaction."""

    records: list[Stored]
    producer_id: int
    marker: TransactionMarker | None


class AppendFailed(Exception):
    """A write or a sync failed."""


class Disk:
    """Batches of encoded records; the disk writes each batch atomically."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.batches: list[Batch] = []
        self.durable = 0
        self.fail_appends = 0
        self.fail_syncs = 0

    @property
    def end(self) -> int:
        """The number of written batches."""
        return len(self.batches)

    def append(self, outcome: Outcome) -> None:
        """Write the records of an outcome as one batch, atomically. Raises AppendFailed if the disk rejects it."""
        if self.fail_appends:
            self.fail_appends -= 1
            raise AppendFailed
        records = [encode(record) for record in outcome.records]
        self.batches.append(Batch(records, producer_of(outcome), outcome.marker))

    def synced(self, end: int) -> None:
        """Finish a sync that began when the log ended at `end`. Raises AppendFailed if it failed and lost data."""
        if self.fail_syncs:
            self.fail_syncs -= 1
            self.lose_tail()
            raise AppendFailed
        self.durable = max(self.durable, min(end, self.end))

    def lose_tail(self) -> int:
        """Stop the machine; return the number of lost batches, which were not synced."""
        kept = self._random.randint(self.durable, self.end)
        lost = self.end - kept
        del self.batches[kept:]
        self.durable = self.end
        return lost

    def load_into(self, shard: GroupShard, end: int | None = None) -> None:
        """Replay the first `end` batches from their bytes; all batches for None."""
        for batch in self.batches[:end]:
            for stored in batch.records:
                shard.replay(decode(stored), batch.producer_id)
            if batch.marker is not None:
                shard.end_transaction(batch.marker.producer_id, is_committed=batch.marker.is_committed)


def writes(outcome: Outcome) -> bool:
    """Return whether the outcome has something to write to the log."""
    return bool(outcome.records) or outcome.marker is not None


def producer_of(outcome: Outcome) -> int:
    """Return the id of the producer with the transaction of an outcome's records; NO_PRODUCER_ID without one."""
    return NO_PRODUCER_ID if outcome.in_transaction is None else outcome.in_transaction.producer_id


def encode(record: Fact) -> Stored:
    """Encode a record."""
    value = None if record.value is None else encode_value(record.value, record.value_version)
    return encode_key(record.key), value


def decode(stored: Stored) -> Fact:
    """Decode a record."""
    key = decode_key(stored[0])
    assert not isinstance(key, UnknownKey), key
    if stored[1] is None:
        return Fact(key, None)
    return Fact(key, decode_value(key, stored[1]), int.from_bytes(stored[1][:2]))
