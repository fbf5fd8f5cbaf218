"""The properties of transactions, as part of `Config`.

Source: Kafka's `TransactionLogConfig`, `TransactionStateManagerConfig`, `AddPartitionsToTxnConfig`.
"""

from dataclasses import dataclass
from typing import Final

from coordinator.config.config_key import ConfigType, at_least, between
from coordinator.config.property import declared
from coordinator.config.security_properties import SecurityProperties

_INT, _BOOLEAN = ConfigType.INT, ConfigType.BOOLEAN
_MS_PER_DAY: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionProperties(SecurityProperties):
    """Times in the unit that the name ends with, sizes in bytes. It has those of security as well: a class with
    slots has one base."""

    transaction_version: int = declared(
        _INT,
        2,
        "How transactions work: 2, the epoch of a producer rises with each of them, and what it writes to is added "
        "by itself; 1 and 0, as before Kafka 4. A cluster has a feature of that name. groupd's own as a property.",
        between(0, 2),
    )
    transaction_max_timeout_ms: int = declared(
        _INT, 900_000, "The longest timeout that a transactional producer may ask for.", at_least(1)
    )
    transactional_id_expiration_ms: int = declared(
        _INT, 7 * _MS_PER_DAY, "How long a transactional id without transactions is remembered.", at_least(1)
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = declared(
        _INT, 10_000, "How often transactions are looked for that have timed out.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = declared(
        _INT, 3_600_000, "How often transactional ids are looked for that have expired.", at_least(1)
    )
    transaction_partition_verification_enable: bool = declared(
        _BOOLEAN,
        True,
        "Whether the coordinator is asked if a transaction has a partition, before its first records there are "
        "taken.",
    )
    transaction_state_log_num_partitions: int = declared(
        _INT, 50, "Partitions of __transaction_state when it is created.", at_least(1)
    )
    transaction_state_log_segment_bytes: int = declared(
        _INT, 100 * 1024 * 1024, "Size of a segment of __transaction_state.", at_least(1)
    )
    add_partitions_to_txn_retry_backoff_ms: int = declared(
        _INT,
        20,
        (
            "How long a Produce waits at most before it asks again, where the transaction before is not ended "
            "everywhere yet."
        ),
        at_least(1),
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = declared(
        _INT, 100, "How long it asks altogether before it is refused.", at_least(0)
    )
