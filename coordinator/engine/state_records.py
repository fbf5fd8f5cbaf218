"""What a machine's log says as records of a state file (`storage/state_file.py`), in batches that each take little
time.

Records of types that no machine here serves are no part of it: they stay in the log. Should a later groupd serve
them, its codec gives the contents another name, and the log is read.
"""

from collections.abc import Iterator
from typing import Final

from coordinator.engine.machine import Codec, Durable
from storage.batch import encode_batch
from storage.record import UNASSIGNED_OFFSET, Record

RECORDS_IN_A_BATCH: Final = 200
_BATCH_BYTES: Final = 1024 * 1024
_NO_TIMESTAMP: Final = -1


def batches_of(state: Durable, codec: Codec) -> Iterator[bytes]:
    """The records of a state, in encoded batches that each take little time."""
    batch: list[Record] = []
    size = 0
    for fact in state.facts():
        key, value = codec.encode(fact)
        assert value is not None, f"{fact.key} is a tombstone"
        batch.append(Record(UNASSIGNED_OFFSET, _NO_TIMESTAMP, key, value))
        size += len(value)
        if len(batch) == RECORDS_IN_A_BATCH or size > _BATCH_BYTES:
            yield encode_batch(batch)
            batch, size = [], 0
    if batch:
        yield encode_batch(batch)
