"""The config of the core as it is by default, but for some properties."""

from typing import Any

from coordinator.transactions.transaction_requests import TransactionConfig

DEFAULTS: dict[str, int] = {
    "transaction_max_timeout_ms": 900_000,
    "transactional_id_expiration_ms": 604_800_000,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 10_000,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 3_600_000,
    "message_max_bytes": 1_048_588,
}


def transaction_config(**changed: Any) -> TransactionConfig:
    """Kafka's defaults, and these instead: `transaction_version=1`."""
    return TransactionConfig(**(DEFAULTS | changed))
