"""Reading a partition of `__consumer_offsets` back into its groups, a slice at a time.

Source: Kafka's `CoordinatorLoaderImpl`.
"""

import logging
from collections.abc import Iterator
from struct import Struct
from typing import Final

from coordinator.group.outcome import Record as Fact
from coordinator.group.shard import Shard
from coordinator.server.newest_values import MissingKey, NewestValues
from coordinator.server.open_transactions import OpenTransactions
from protocol.malformed import Malformed
from protocol.records import UnknownKey, decode_key, decode_value
from storage.batch import CONTROL, TRANSACTIONAL
from storage.errors import CorruptBatch, LogDamaged
from storage.log import PartitionLog
from storage.record import Record
from storage.segment import StoredBatch

_LOG = logging.getLogger("GroupCoordinator")

RECORDS_IN_A_STEP: Final = 500
_INT16: Final = Struct(">h")
_CONTROL_KEY: Final = Struct(">hh")
_ABORT, _COMMIT = 0, 1
_SPECIAL: Final = CONTROL | TRANSACTIONAL


class LoadFailed(Exception):
    """A record that is of a known kind and makes no sense."""


def load(log: PartitionLog, shard: Shard) -> Iterator[int]:
    """Replays a log into a shard; gives the number of records so far from time to time.

    Raises LogDamaged, LoadFailed, OSError.
    """
    records = 0
    next_step = RECORDS_IN_A_STEP
    newest = NewestValues()
    transactions = OpenTransactions()
    for batch in log.batches():
        try:
            decoded = batch.records()
        except CorruptBatch as error:
            raise LogDamaged(batch.path, error.reason, batch.position) from error
        try:
            if transactions or batch.header.attributes & _SPECIAL:
                decoded = _in_transactions(batch, decoded, transactions)
            newest.put(decoded)
        except (Malformed, MissingKey) as error:
            raise LoadFailed(f"{batch.path}: byte {batch.position}: {error}") from error
        records += batch.header.records_count
        if records >= next_step:
            next_step = records + RECORDS_IN_A_STEP
            yield records
    for kind in newest.unknown_types:
        _LOG.warning(
            "Unknown record type %d while loading offsets and group metadata from %s: ignored",
            kind,
            log.directory,
        )
    for number, (key, value) in enumerate(newest.items()):
        shard.replay(_fact(log, key, value))
        if number % RECORDS_IN_A_STEP == 0:
            yield records
    yield records


def _in_transactions(
    batch: StoredBatch, records: list[Record], transactions: OpenTransactions
) -> list[Record]:
    """The records that count from this batch on, where transactions play a part."""
    header = batch.header
    if header.is_control:
        return _end_transaction(header.producer_id, records, transactions)
    if header.is_transactional:
        transactions.add(header.producer_id, records)
        return []
    transactions.passed(records)
    return records


def _end_transaction(producer_id: int, records: list[Record], transactions: OpenTransactions) -> list[Record]:
    ended: list[Record] = []
    for record in records:
        if record.key is None or len(record.key) < _CONTROL_KEY.size:
            continue
        _, kind = _CONTROL_KEY.unpack_from(record.key)
        if kind in (_ABORT, _COMMIT):
            ended += transactions.end(producer_id, is_committed=kind == _COMMIT)
    return ended


def _fact(log: PartitionLog, raw_key: bytes, raw_value: bytes) -> Fact:
    try:
        key = decode_key(raw_key)
        assert not isinstance(key, UnknownKey)
        value = decode_value(key, raw_value)
    except Malformed as error:
        raise LoadFailed(f"{log.directory}: the value of {raw_key!r}: {error}") from error
    return Fact(key, value, _INT16.unpack_from(raw_value)[0])
