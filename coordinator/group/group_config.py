"""Configuration of the group coordinator under Kafka's names: classic groups and offsets, consumer groups,
and overrides of one group.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from coordinator.core.shared_types import CONSUMER_ASSIGNORS

MS_PER_MINUTE: Final = 60_000

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a member that never held an assignment may wait for its first join to complete. Fixed, as in
Kafka's GroupCoordinatorConfig."""


class GroupConfig(Struct, frozen=True, kw_only=True):
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


SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"


class MigrationPolicy(StrEnum):
    """Which groups with members are converted. Source: Kafka's `ConsumerGroupMigrationPolicy`."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """Whether a classic group becomes one of the consumer protocol when a member of that joins."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def admits_classic_members(self) -> bool:
        """Whether members of the classic protocol may join a consumer group."""
        return self is not MigrationPolicy.DISABLED

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group becomes a classic one when it has only classic members left."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class ConsumerGroupTimes(NamedTuple):
    """The times of one group, in milliseconds."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class ConsumerGroupConfig(Struct, frozen=True, kw_only=True):
    """Properties of Kafka's `GroupCoordinatorConfig` that concern consumer groups; dots in a property's name are
    underscores here. Defaults and bounds are declared in `coordinator/config`."""

    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int

    @property
    def assignors(self) -> tuple[str, ...]:
        """The short names of those who may assign partitions; the first one does where members name none."""
        return tuple(dict.fromkeys(CONSUMER_ASSIGNORS[name] for name in self.group_consumer_assignors))

    @property
    def migration_policy(self) -> MigrationPolicy:
        """What is done with groups that get members of the other protocol."""
        return MigrationPolicy(self.group_consumer_migration_policy.lower())

    def resolve_times(self, overrides: Mapping[str, str]) -> ConsumerGroupTimes:
        """The times of a group that has these configs of its own, by name, each the text of a number. What the
        broker's bounds do not allow any more is the nearest that they do. Source: `GroupConfig.evaluate`."""

        def resolve(name: str, default_ms: int, min_ms: int, max_ms: int) -> int:
            text = overrides.get(name)
            return default_ms if text is None else min(max(int(text), min_ms), max_ms)

        return ConsumerGroupTimes(
            resolve(
                SESSION_TIMEOUT,
                self.group_consumer_session_timeout_ms,
                self.group_consumer_min_session_timeout_ms,
                self.group_consumer_max_session_timeout_ms,
            ),
            resolve(
                HEARTBEAT_INTERVAL,
                self.group_consumer_heartbeat_interval_ms,
                self.group_consumer_min_heartbeat_interval_ms,
                self.group_consumer_max_heartbeat_interval_ms,
            ),
            resolve(
                ASSIGNMENT_INTERVAL,
                self.group_consumer_assignment_interval_ms,
                self.group_consumer_min_assignment_interval_ms,
                self.group_consumer_max_assignment_interval_ms,
            ),
        )
