"""What the transaction coordinator may be told, under Kafka's names."""

from dataclasses import dataclass
from typing import Final

EPOCH_BUMP_LEVEL: Final = 2
"""The level of `transaction.version` from which on the epoch rises with each end (KIP-890)."""
FLEXIBLE_RECORDS_LEVEL: Final = 1
"""The level of `transaction.version` from which on records have their flexible form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Properties of Kafka's `TransactionLogConfig` and `TransactionStateManagerConfig`; dots in a property's name
    are underscores here. Defaults and bounds are declared in `coordinator/config`."""

    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    message_max_bytes: int
    """Bounds the record of one transaction."""
    transaction_version: int = EPOCH_BUMP_LEVEL
    """The finalized level of the feature: 0, 1 or 2. No property, but a feature of the cluster."""
