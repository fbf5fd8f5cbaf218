"""Markers: the control batches at the end of transactions.

    attributes transactional and control, no codec, base sequence -1, one record:
    key    version int16 0 | type int16: 0 abort, 1 commit (others are not of transactions)
    value  version int16 0 | coordinator epoch int32

Source: KIP-98, Kafka's `EndTransactionMarker`, `ControlRecordType`.
"""

import struct
from typing import Final, NamedTuple

from storage.batch import BatchHeader, encode_batch
from storage.record import Record
from storage.storage_errors import CorruptBatch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0
ABORT: Final = 0
COMMIT: Final = 1


class EndMarker(NamedTuple):
    """The outcome of a transaction, and the epoch of the coordinator that decided it."""

    is_committed: bool
    coordinator_epoch: int


def encode_marker(
    marker: EndMarker,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    leader_epoch: int = 0,
    base_offset: int = 0,
) -> bytes:
    """Encode the control batch of one record."""
    record = Record(
        offset=0,
        timestamp_ms=timestamp_ms,
        key=_KEY.pack(_VERSION, COMMIT if marker.is_committed else ABORT),
        value=_VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    return encode_batch(
        [record],
        base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def parse_marker_type(record: Record) -> int | None:
    """Return the outcome in a control record, ABORT or COMMIT; None for a record of another kind."""
    if record.key is None or len(record.key) < _KEY.size:
        return None
    _, kind = _KEY.unpack_from(record.key)
    return kind if kind in (ABORT, COMMIT) else None


def decode_marker(header: BatchHeader, records: list[Record]) -> EndMarker | None:
    """Return the marker in a control batch; None for a control batch of another kind, or one that compaction
    has emptied. Raises CorruptBatch."""
    if not records:
        return None
    kind = parse_marker_type(records[0])
    if kind is None:
        return None
    value = records[0].value
    if value is None or len(value) < _VALUE.size:
        raise CorruptBatch(f"the marker at offset {header.base_offset} has no coordinator epoch")
    return EndMarker(kind == COMMIT, _VALUE.unpack_from(value)[1])
