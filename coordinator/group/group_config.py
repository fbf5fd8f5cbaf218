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
"""The longest wait of a new member, without a previous assignment, for its first join to complete. Fixed, as in
Kafka's GroupCoordinatorConfig.
"""


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
    """The bound for the records of one request."""

    @property
    def offsets_retention_ms(self) -> int:
        """Return the retention of offsets after the end of their group, or after their commit, in milliseconds."""
        return self.offsets_retention_minutes * MS_PER_MINUTE


SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"


class MigrationPolicy(StrEnum):
    """The policy for converting groups with members. Source: Kafka's `ConsumerGroupMigrationPolicy`."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """Return whether a classic group becomes a consumer group when a member of the consumer protocol joins."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def admits_classic_members(self) -> bool:
        """Return whether members of the classic protocol may join a consumer group."""
        return self is not MigrationPolicy.DISABLED

    @property
    def downgrades(self) -> bool:
        """Return whether a consumer group becomes a classic one when it has only classic members left."""
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
        """Return the short names of the enabled assignors; the first one is the default."""
        return tuple(dict.fromkeys(CONSUMER_ASSIGNORS[name] for name in self.group_consumer_assignors))

    @property
    def migration_policy(self) -> MigrationPolicy:
        """Return the policy for groups that get members of the other protocol."""
        return MigrationPolicy(self.group_consumer_migration_policy.lower())

    def resolve_times(self, overrides: Mapping[str, str]) -> ConsumerGroupTimes:
        """Return the times of a group with its own configs, given by name as decimal text. A value outside the
        broker's bounds becomes the nearest bound.

        Source: `GroupConfig.evaluate`.
        """

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
