"""The groups of a partition as records of a state file (`storage/state_file.py`), and back.

Records of types that are not served here are no part of it: they make no group, and stay in the log. Should a
later groupd serve them, it gives the contents another name, and reads the log.
"""

from collections.abc import Iterator
from typing import Final

from coordinator.group.durable import DurableState
from coordinator.group.outcome import Record as Fact
from coordinator.server.record_bytes import encode_offset
from protocol.records import OffsetCommitValue, encode_key, encode_value
from storage.batch import encode_batch
from storage.record import UNASSIGNED_OFFSET, Record

CONTENTS: Final = "groups, of record types 0 to 2"
RECORDS_IN_A_BATCH: Final = 200
_BATCH_BYTES: Final = 1024 * 1024
_NO_TIMESTAMP: Final = -1
_OFFSET_VERSION: Final = 4


def batches_of(state: DurableState) -> Iterator[bytes]:
    """The records of a state, in encoded batches that each take little time."""
    batch: list[Record] = []
    size = 0
    for fact in state.facts():
        record = _record(fact)
        assert record.value is not None
        batch.append(record)
        size += len(record.value)
        if len(batch) == RECORDS_IN_A_BATCH or size > _BATCH_BYTES:
            yield encode_batch(batch)
            batch, size = [], 0
    if batch:
        yield encode_batch(batch)


def _record(fact: Fact) -> Record:
    value = fact.value
    assert value is not None
    if type(value) is OffsetCommitValue and fact.value_version == _OFFSET_VERSION:
        raw = encode_offset(value)
    else:
        raw = encode_value(value, fact.value_version)
    return Record(UNASSIGNED_OFFSET, _NO_TIMESTAMP, encode_key(fact.key), raw)
