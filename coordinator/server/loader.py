"""Reading a partition of `__consumer_offsets` back into its groups, a slice at a time.

Source: Kafka's `CoordinatorLoaderImpl`.
"""

import logging
from collections.abc import Iterator
from struct import Struct
from typing import Final

from coordinator.group.outcome import Record as Fact
from coordinator.group.shard import Shard
from coordinator.server.open_transactions import OpenTransactions
from protocol.malformed import Malformed
from protocol.records import UnknownKey, decode_key, decode_value
from storage.errors import CorruptBatch, LogDamaged
from storage.log import PartitionLog
from storage.record import Record

_LOG = logging.getLogger("GroupCoordinator")

RECORDS_IN_A_STEP: Final = 500
_INT16: Final = Struct(">h")
_CONTROL_KEY: Final = Struct(">hh")
_ABORT, _COMMIT = 0, 1


class LoadFailed(Exception):
    """A record that is of a known kind and makes no sense."""


def load(log: PartitionLog, shard: Shard) -> Iterator[int]:
    """Replays a log into a shard; gives the number of records so far from time to time.

    Raises LogDamaged, LoadFailed, OSError.
    """
    records = 0
    since_step = 0
    transactions = OpenTransactions()
    unknown: set[int] = set()
    for batch in log.batches():
        header = batch.header
        try:
            decoded = batch.records()
        except CorruptBatch as error:
            raise LogDamaged(batch.path, error.reason, batch.position) from error
        if header.is_control:
            _end_transaction(header.producer_id, decoded, transactions, shard)
            continue
        for record in decoded:
            fact = _decode(log, record, unknown)
            if fact is None:
                continue
            assert record.key is not None
            if header.is_transactional:
                transactions.add(header.producer_id, record.offset, record.key, fact)
                continue
            shard.replay(fact)
            if transactions:
                transactions.passed(record.offset, record.key)
        records += len(decoded)
        since_step += len(decoded)
        if since_step >= RECORDS_IN_A_STEP:
            since_step = 0
            yield records
    yield records


def _decode(log: PartitionLog, record: Record, unknown: set[int]) -> Fact | None:
    """The fact in a record; None for one of a kind that is not known here, which stays in the log."""
    if record.key is None:
        raise LoadFailed(f"{log.directory}: the record at offset {record.offset} has no key")
    try:
        key = decode_key(record.key)
        if isinstance(key, UnknownKey):
            if key.type not in unknown:
                unknown.add(key.type)
                _LOG.warning(
                    "Unknown record type %d while loading offsets and group metadata from %s: ignored",
                    key.type,
                    log.directory,
                )
            return None
        if record.value is None:
            return Fact(key, None)
        (version,) = _INT16.unpack_from(record.value) if len(record.value) >= 2 else (-1,)
        return Fact(key, decode_value(key, record.value), version)
    except Malformed as error:
        raise LoadFailed(f"{log.directory}: the record at offset {record.offset}: {error}") from error


def _end_transaction(
    producer_id: int, records: list[Record], transactions: OpenTransactions, shard: Shard
) -> None:
    for record in records:
        if record.key is None or len(record.key) < _CONTROL_KEY.size:
            continue
        _, kind = _CONTROL_KEY.unpack_from(record.key)
        if kind not in (_ABORT, _COMMIT):
            continue
        for fact in transactions.end(producer_id, is_committed=kind == _COMMIT):
            shard.replay(fact)
