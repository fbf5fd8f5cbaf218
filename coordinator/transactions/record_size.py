"""How large a transaction's record becomes in the log: Kafka refuses what is larger than `max.message.bytes` of
`__transaction_state` allows, which a transaction of very many partitions meets. Source: Kafka's
`TransactionStateManager.appendTransactionToLog`.
"""

from collections.abc import Sequence
from typing import Final

from coordinator.transactions.record_codec import TransactionRecordCodec, fact_of
from coordinator.transactions.state import ONGOING, STATUSES
from protocol.records.transaction_state import TransactionLogValue, TransactionPartitions
from storage.batch_size import size_of_batch

_MOST_OF_A_PARTITION: Final = 300
"""Bytes: the longest name of a topic, and numbers."""
_MOST_OF_A_CHARACTER: Final = 3
_MOST_OF_THE_REST: Final = 300
_CODEC: Final = TransactionRecordCodec()


def exceeds(
    transactional_id: str, partitions: Sequence[TransactionPartitions], count: int, max_bytes: int
) -> bool:
    """Whether the record of an open transaction with these partitions, `count` in all, is a larger batch."""
    most = count * _MOST_OF_A_PARTITION + len(transactional_id) * _MOST_OF_A_CHARACTER + _MOST_OF_THE_REST
    if most <= max_bytes:
        return False
    value = TransactionLogValue(
        producer_id=0,
        producer_epoch=0,
        transaction_timeout_ms=0,
        transaction_status=STATUSES[ONGOING],
        transaction_partitions=list(partitions),
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=0,
        previous_producer_id=0,
        client_transaction_version=2,
    )
    return size_of_batch([_CODEC.encode(fact_of(transactional_id, value))]) > max_bytes
