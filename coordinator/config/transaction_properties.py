"""The properties of transactions, as part of `Config`.

Source: Kafka's `TransactionLogConfig`, `TransactionStateManagerConfig`, `AddPartitionsToTxnConfig`.
"""

from typing import Final

from coordinator.config.config_def import ConfigType, Properties, at_least, between, kafka_property

_INT, _BOOLEAN = ConfigType.INT, ConfigType.BOOLEAN
_MS_PER_DAY: Final = 86_400_000


class TransactionProperties(Properties):
    """Properties of transactions. The end of a name is the unit of a time; sizes are in bytes."""

    transaction_version: int = kafka_property(
        _INT,
        2,
        "The version of transactions. 2: each transaction increments the producer epoch, and the broker adds "
        "partitions itself; 1 and 0: as before Kafka 4. In Kafka this is a feature of the cluster. groupd's "
        "own as a property.",
        between(0, 2),
    )
    transaction_max_timeout_ms: int = kafka_property(
        _INT, 900_000, "The longest timeout that a transactional producer can request.", at_least(1)
    )
    transactional_id_expiration_ms: int = kafka_property(
        _INT, 7 * _MS_PER_DAY, "The time after which an unused transactional id expires.", at_least(1)
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = kafka_property(
        _INT, 10_000, "The interval between searches for timed-out transactions.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = kafka_property(
        _INT, 3_600_000, "The interval between searches for expired transactional ids.", at_least(1)
    )
    transaction_partition_verification_enable: bool = kafka_property(
        _BOOLEAN,
        True,
        "Whether the broker verifies with the coordinator that a transaction contains a partition before its "
        "first records.",
    )
    transaction_state_log_num_partitions: int = kafka_property(
        _INT, 50, "Partitions of __transaction_state when it is created.", at_least(1)
    )
    transaction_state_log_segment_bytes: int = kafka_property(
        _INT, 100 * 1024 * 1024, "Size of a segment of __transaction_state.", at_least(1)
    )
    add_partitions_to_txn_retry_backoff_ms: int = kafka_property(
        _INT,
        20,
        (
            "The longest wait of a Produce before it retries the verification while the previous transaction is "
            "not yet ended in every partition."
        ),
        at_least(1),
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = kafka_property(
        _INT, 100, "The time after which a Produce gives up these retries with an error.", at_least(0)
    )
