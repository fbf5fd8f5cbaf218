"""An in-memory log of the group core: the entries of an outcome, and their replay."""

from collections.abc import Sequence
from typing import TypeAlias

from coordinator.core.outcome import NO_PRODUCER_ID, Fact, Outcome, TransactionMarker
from coordinator.group.group_shard import GroupShard
from protocol.records.group_record_serde import UnknownKey, decode_key, decode_value, encode_key, encode_value

Entry: TypeAlias = tuple[Fact, int] | TransactionMarker
"""An entry of the log: a record with the producer id of its transaction, or the end of a transaction."""


def through_bytes(record: Fact) -> Fact:
    """Encode a record, and return the decoded record."""
    key = decode_key(encode_key(record.key))
    assert not isinstance(key, UnknownKey)
    if record.value is None:
        return Fact(key, None)
    return Fact(key, decode_value(key, encode_value(record.value, record.value_version)))


def entries_of(outcome: Outcome) -> list[Entry]:
    """Return the entries that an outcome adds to the log."""
    in_transaction = outcome.in_transaction
    producer_id = NO_PRODUCER_ID if in_transaction is None else in_transaction.producer_id
    written: list[Entry] = [(record, producer_id) for record in outcome.records]
    return written if outcome.marker is None else [*written, outcome.marker]


def replay(shard: GroupShard, log: Sequence[Entry]) -> None:
    """Replay the entries of a log into a shard, through their bytes."""
    for entry in log:
        if isinstance(entry, TransactionMarker):
            shard.end_transaction(entry.producer_id, is_committed=entry.is_committed)
        else:
            shard.replay(through_bytes(entry[0]), entry[1])
