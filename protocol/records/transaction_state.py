"""The records of `__transaction_state`: a key for each transactional id, and the state of its transaction.

Source: `TransactionLogKey`, `TransactionLogValue` of Kafka's transaction-coordinator module; KIP-98, KIP-890.
"""

from typing import Final

from protocol.schema import Array, Int8, Int16, Int32, Int64, NullableArray, String, data, struct, tagged

KEY_VERSION: Final = 0


@data(versions="0")
class TransactionLogKey:
    """The transactional id of the record."""

    transactional_id: String


@struct
class TransactionPartitions:
    """Partitions of one topic."""

    topic: String
    partition_ids: Array[Int32]


@data(versions="0-1", flexible="1+")
class TransactionLogValue:
    """v1 flexible, fields for newer transaction versions (KIP-890). The partitions are null while the state is
    Empty."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: NullableArray[TransactionPartitions]
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    previous_producer_id: Int64 = tagged(0, "1+", default=-1)
    next_producer_id: Int64 = tagged(1, "1+", default=-1)
    client_transaction_version: Int16 = tagged(2, "1+", default=0)
    next_producer_epoch: Int16 = tagged(3, "1+", default=-1)
