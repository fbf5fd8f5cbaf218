"""The properties of transactions, as part of `Config`.

Source: Kafka's `TransactionLogConfig`, `TransactionStateManagerConfig`, `AddPartitionsToTxnConfig`.
"""

from typing import Final

from coordinator.config.config_def import ConfigType, Properties, at_least, between, kafka_property

_INT, _BOOLEAN = ConfigType.INT, ConfigType.BOOLEAN
_MS_PER_DAY: Final = 86_400_000


class TransactionProperties(Properties):
    """Times in the unit that the name ends with, sizes in bytes."""

    transaction_version: int = kafka_property(
        _INT,
        2,
        "How transactions work: 2, the epoch of a producer rises with each of them, and what it writes to is added "
        "by itself; 1 and 0, as before Kafka 4. A cluster has a feature of that name. groupd's own as a property.",
        between(0, 2),
    )
    transaction_max_timeout_ms: int = kafka_property(
        _INT, 900_000, "The longest timeout that a transactional producer may ask for.", at_least(1)
    )
    transactional_id_expiration_ms: int = kafka_property(
        _INT, 7 * _MS_PER_DAY, "How long a transactional id without transactions is remembered.", at_least(1)
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = kafka_property(
        _INT, 10_000, "How often transactions are looked for that have timed out.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = kafka_property(
        _INT, 3_600_000, "How often transactional ids are looked for that have expired.", at_least(1)
    )
    transaction_partition_verification_enable: bool = kafka_property(
        _BOOLEAN,
        True,
        "Whether the coordinator is asked if a transaction has a partition, before its first records there are "
        "taken.",
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
            "How long a Produce waits at most before it asks again, where the transaction before is not ended "
            "everywhere yet."
        ),
        at_least(1),
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = kafka_property(
        _INT, 100, "How long it asks altogether before it is refused.", at_least(0)
    )
