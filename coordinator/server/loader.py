"""Reading a partition of `__consumer_offsets` back into its groups, a slice at a time.

What is read comes together as bytes, from a state file and the log after it, or from the whole log. Only what is
left of it then is decoded and replayed.

Source: Kafka's `CoordinatorLoaderImpl`.
"""

import logging
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from coordinator.group.outcome import Record as Fact
from coordinator.group.shard import Shard
from coordinator.server.group_state import CONTENTS
from coordinator.server.newest_values import MissingKey, NewestValues
from coordinator.server.open_transactions import OpenTransactions
from protocol.malformed import Malformed
from protocol.records import UnknownKey, decode_key, decode_value
from storage.compaction.key_offsets import COMMIT, end_of_transaction
from storage.errors import CorruptBatch, DamagedFile, LogDamaged
from storage.files import Files
from storage.log import PartitionLog
from storage.pairs import Pair, PlainRun, walk_pairs
from storage.record import Record
from storage.state_file import find_state
from storage.stored_batch import StoredBatch

_LOG = logging.getLogger("GroupCoordinator")

RECORDS_IN_A_STEP: Final = 500
_INT16: Final = Struct(">h")


class LoadFailed(Exception):
    """A record that is of a known kind and makes no sense."""


class Load:
    """One reading of one log into one shard, from the newest state beside it, or from the start."""

    def __init__(self, log: PartitionLog, shard: Shard, files: Files) -> None:
        self._log = log
        self._shard = shard
        self._files = files
        self._newest = NewestValues()
        self._transactions = OpenTransactions()
        self._next_step = RECORDS_IN_A_STEP
        self.records = 0
        """Read so far, those of the state included."""
        self.state_end_offset = 0
        """Up to where the log did not have to be read."""

    @property
    def has_open_transactions(self) -> bool:
        """Whether the end of a transaction is missing at the end of the log."""
        return bool(self._transactions)

    def steps(self) -> Iterator[int]:
        """Reads all of it; gives the number of records so far from time to time.

        Raises LogDamaged, LoadFailed, OSError.
        """
        yield from self._read_state()
        yield from self._read_log()
        for kind in self._newest.unknown_types:
            _LOG.warning(
                "Unknown record type %d while loading offsets and group metadata from %s: ignored",
                kind,
                self._log.directory,
            )
        for number, (key, value) in enumerate(self._newest.items(), 1):
            self._shard.replay(_fact(self._log, key, value))
            if number % RECORDS_IN_A_STEP == 0:
                yield self.records
        yield self.records

    def _read_state(self) -> Iterator[int]:
        state, ignored = find_state(self._files, self._log, CONTENTS)
        if state is not None:
            try:
                for records in state.batches():
                    self._newest.put(_pairs(records))
                    self.records += len(records)
                    yield self.records
                self.state_end_offset = state.end_offset
            except (DamagedFile, Malformed, MissingKey) as error:
                ignored.append(str(error))
                self._newest = NewestValues()
                self.records = 0
        for line in ignored:
            _LOG.warning("The log is read without a state that is of no use: %s", line)

    def _read_log(self) -> Iterator[int]:
        for part in walk_pairs(self._log, self.state_end_offset or self._log.log_start_offset):
            try:
                if isinstance(part, PlainRun):
                    assert not self._transactions
                    self._newest.put(part.pairs)
                    self.records += len(part.pairs)
                else:
                    self._newest.put(_pairs(_in_transactions(part, part.records(), self._transactions)))
                    self.records += part.header.records_count
            except CorruptBatch as error:
                raise LogDamaged(part.path, error.reason, part.position) from error
            except (Malformed, MissingKey) as error:
                raise LoadFailed(f"{part.path}: from byte {part.position} on: {error}") from error
            if self.records >= self._next_step:
                self._next_step = self.records + RECORDS_IN_A_STEP
                yield self.records


def _pairs(records: Iterable[Record]) -> Iterator[Pair]:
    return ((record.key, record.value) for record in records)


def _in_transactions(
    batch: StoredBatch, records: list[Record], transactions: OpenTransactions
) -> list[Record]:
    """The records that count from this batch on."""
    header = batch.header
    if header.is_control:
        return _end_transaction(header.producer_id, records, transactions)
    if header.is_transactional:
        # A batch that compaction has emptied begins no transaction: the end of its own may be gone already.
        if records:
            transactions.add(header.producer_id, records)
        return []
    if transactions:
        transactions.passed(records)
    return records


def _end_transaction(producer_id: int, records: list[Record], transactions: OpenTransactions) -> list[Record]:
    ended: list[Record] = []
    for record in records:
        kind = end_of_transaction(record)
        if kind is not None:
            ended += transactions.end(producer_id, is_committed=kind == COMMIT)
    return ended


def _fact(log: PartitionLog, raw_key: bytes, raw_value: bytes) -> Fact:
    try:
        key = decode_key(raw_key)
        assert not isinstance(key, UnknownKey)
        value = decode_value(key, raw_value)
    except Malformed as error:
        raise LoadFailed(f"{log.directory}: the value of {raw_key!r}: {error}") from error
    return Fact(key, value, _INT16.unpack_from(raw_value)[0])
