"""A log on a disk that crashes: it keeps synced data and any prefix of the rest."""

from random import Random
from typing import NamedTuple, TypeAlias

from coordinator.core.outcome import NO_PRODUCER_ID, Fact, Outcome, TransactionMarker
from coordinator.group.group_shard import GroupShard
from protocol.records.group_record_serde import UnknownKey, decode_key, decode_value, encode_key, encode_value

Stored: TypeAlias = tuple[bytes, bytes | None]


class Batch(NamedTuple):
    """Records, of a producer's transaction or not; or the end of one."""

    records: list[Stored]
    producer_id: int
    marker: TransactionMarker | None


class AppendFailed(Exception):
    """The write or the sync did not succeed."""


class Disk:
    """Batches of encoded records; a batch is written as one or not at all."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.batches: list[Batch] = []
        self.durable = 0
        self.fail_appends = 0
        self.fail_syncs = 0

    @property
    def end(self) -> int:
        """How many batches were written."""
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
        """Replay the first `end` batches, from their bytes."""
        for batch in self.batches[:end]:
            for stored in batch.records:
                shard.replay(decode(stored), batch.producer_id)
            if batch.marker is not None:
                shard.end_transaction(batch.marker.producer_id, is_committed=batch.marker.is_committed)


def writes(outcome: Outcome) -> bool:
    """Whether it comes into the log."""
    return bool(outcome.records) or outcome.marker is not None


def producer_of(outcome: Outcome) -> int:
    """Whose transaction its records are of."""
    return NO_PRODUCER_ID if outcome.in_transaction is None else outcome.in_transaction.producer_id


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
