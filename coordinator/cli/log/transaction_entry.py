"""Records of `__transaction_state` with their meaning, as data that JSON can keep: fields have Kafka's names.

Source: Kafka's `TransactionLogKey`, `TransactionLogValue`, `TransactionState`.
"""

from struct import Struct
from typing import Any, Final

from protocol.codec import decoder
from protocol.malformed import Malformed
from protocol.records.transaction_state import KEY_VERSION, TransactionLogKey, TransactionLogValue
from storage.record import Record

TRANSACTIONS_TOPIC: Final = "__transaction_state"
STATES: Final = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}

_INT16: Final = Struct(">h")
_VALUE_VERSIONS: Final = range(2)


def decoded(record: Record) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Key and value, None for a tombstone. Raises Malformed."""
    key: TransactionLogKey = decoder(TransactionLogKey, KEY_VERSION)(
        record.key or b"", _versioned(record.key, "key", range(KEY_VERSION, KEY_VERSION + 1))
    )
    fields = {"transactional_id": key.transactional_id}
    return fields, None if record.value is None else _value(record.value)


def _versioned(data: bytes | None, what: str, known: range) -> int:
    """Where the fields begin."""
    if data is None or len(data) < _INT16.size:
        raise Malformed(f"a record without a version of its {what}")
    (version,) = _INT16.unpack_from(data)
    if version not in known:
        raise Malformed(f"version {version} of a {what} of {TRANSACTIONS_TOPIC} is not known")
    return _INT16.size


def _value(data: bytes) -> dict[str, Any]:
    start = _versioned(data, "value", _VALUE_VERSIONS)
    (version,) = _INT16.unpack_from(data)
    value: TransactionLogValue = decoder(TransactionLogValue, version)(data, start)
    partitions = value.transaction_partitions
    fields: dict[str, Any] = {
        "version": version,
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "transaction_timeout_ms": value.transaction_timeout_ms,
        "transaction_status": value.transaction_status,
        "state": STATES.get(value.transaction_status, "unknown"),
        "transaction_partitions": None
        if partitions is None
        else [{"topic": each.topic, "partition_ids": each.partition_ids} for each in partitions],
        "transaction_last_update_timestamp_ms": value.transaction_last_update_timestamp_ms,
        "transaction_start_timestamp_ms": value.transaction_start_timestamp_ms,
    }
    if version:
        fields |= {
            "previous_producer_id": value.previous_producer_id,
            "next_producer_id": value.next_producer_id,
            "client_transaction_version": value.client_transaction_version,
            "next_producer_epoch": value.next_producer_epoch,
        }
    return fields
