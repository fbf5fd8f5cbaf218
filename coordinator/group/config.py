"""What the group coordinator may be told, under Kafka's names."""

from dataclasses import dataclass
from typing import Final

MS_PER_MINUTE: Final = 60_000

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a member that never held an assignment may wait for its first join to complete. Fixed, as in
Kafka's GroupCoordinatorConfig."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Properties of Kafka's GroupCoordinatorConfig that concern classic groups and offsets; dots in a
    property's name are underscores here. Defaults and bounds are declared in `coordinator/config`."""

    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    offset_metadata_max_bytes: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    message_max_bytes: int
    """Bounds the records of one request."""

    @property
    def offsets_retention_ms(self) -> int:
        """How long an offset outlives its group, or its commit, in milliseconds."""
        return self.offsets_retention_minutes * MS_PER_MINUTE
