"""What the group coordinator may be told: Kafka's names and defaults."""

from dataclasses import dataclass
from typing import Final

MS_PER_MINUTE: Final = 60_000

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a member that never held an assignment may wait for its first join to complete. Fixed, as in
Kafka's GroupCoordinatorConfig."""

MESSAGE_MAX_BYTES: Final = 1_048_588
"""Kafka's default of message.max.bytes, which bounds the records of one request."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Properties of Kafka's GroupCoordinatorConfig that concern classic groups and offsets; dots in a
    property's name are underscores here."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    message_max_bytes: int = MESSAGE_MAX_BYTES

    def __post_init__(self) -> None:
        assert 0 <= self.group_min_session_timeout_ms <= self.group_max_session_timeout_ms, self
        assert self.group_initial_rebalance_delay_ms >= 0, self
        assert self.group_max_size >= 1, self
        assert self.offset_metadata_max_bytes >= 0, self
        assert self.offsets_retention_minutes >= 1, self
        assert self.offsets_retention_check_interval_ms >= 1, self
        assert self.message_max_bytes >= 0, self

    @property
    def offsets_retention_ms(self) -> int:
        """How long an offset outlives its group, or its commit, in milliseconds."""
        return self.offsets_retention_minutes * MS_PER_MINUTE
