"""How large the batch of a call's records becomes in the log.

Kafka writes the records of one request as one batch and refuses the request when that is larger than
`max.message.bytes` of `__consumer_offsets` allows: a group whose members bring long subscriptions meets this
limit. Source: Kafka's CoordinatorRuntime.append, DefaultRecordBatch.sizeInBytes.
"""

from collections.abc import Iterable
from typing import Final

from coordinator.machine.outcome import Fact
from protocol.records import encode_key, encode_value

BATCH_HEADER_BYTES: Final = 61
# The attributes, the timestamp delta 0 (all records of a call are made at once) and the count of headers 0.
RECORD_FIXED_BYTES: Final = 3
NULL_LENGTH: Final = -1


def batch_size(records: Iterable[Fact]) -> int:
    """The bytes of an uncompressed batch of these records."""
    size = BATCH_HEADER_BYTES
    for offset_delta, record in enumerate(records):
        body = RECORD_FIXED_BYTES + _varint_size(offset_delta) + _field_size(encode_key(record.key))
        if record.value is None:
            body += _varint_size(NULL_LENGTH)
        else:
            body += _field_size(encode_value(record.value, record.value_version))
        size += _varint_size(body) + body
    return size


def _field_size(data: bytes) -> int:
    return _varint_size(len(data)) + len(data)


def _varint_size(number: int) -> int:
    """Of a zigzag varint, which stores the sign in the lowest bit."""
    zigzag = 2 * number if number >= 0 else -2 * number - 1
    return max(1, -(-zigzag.bit_length() // 7))
