"""How large the batch of a call's records becomes in the log.

Kafka writes the records of one request as one batch and refuses the request when that is larger than
`max.message.bytes` of `__consumer_offsets` allows: a group whose members bring long subscriptions meets this
limit. Source: Kafka's CoordinatorRuntime.append.
"""

from collections.abc import Iterable

from coordinator.machine.outcome import Fact
from protocol.records import encode_key, encode_value
from storage.batch_size import size_of_batch


def batch_size(records: Iterable[Fact]) -> int:
    """The bytes of an uncompressed batch of these records, which are all of one time."""
    return size_of_batch(
        (
            encode_key(record.key),
            None if record.value is None else encode_value(record.value, record.value_version),
        )
        for record in records
    )
