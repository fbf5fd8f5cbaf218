"""What the ledger may keep, and where it is written."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLimits:
    """Properties by their names."""

    ledger_bytes: int
    ledger_file: str
