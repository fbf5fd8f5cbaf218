"""The properties of consumer groups (KIP-848), as part of `Config`.

Source: Kafka's `GroupCoordinatorConfig`, its `verifyConsumerGroupConfigs`, and `AbstractKafkaConfig`.
"""

from typing import Final

from coordinator.config.config_def import ConfigType, OneOf, Properties, at_least, kafka_property
from coordinator.config.config_errors import create_contradiction
from coordinator.config.validators import ASSIGNORS, PROTOCOLS

_INT, _LIST, _STRING = ConfigType.INT, ConfigType.LIST, ConfigType.STRING
_MAX_INT: Final = 2**31 - 1
_PREFIX: Final = "group.consumer."
_ORDERED_PROPERTIES: Final = (
    ("min.heartbeat.interval.ms", "heartbeat.interval.ms"),
    ("heartbeat.interval.ms", "max.heartbeat.interval.ms"),
    ("min.session.timeout.ms", "session.timeout.ms"),
    ("session.timeout.ms", "max.session.timeout.ms"),
    ("min.assignment.interval.ms", "assignment.interval.ms"),
    ("assignment.interval.ms", "max.assignment.interval.ms"),
)
"""Pairs of properties, without the prefix: the first value must not exceed the second one."""


class ConsumerGroupProperties(Properties):
    """Properties of consumer groups. The end of a name is the unit of a time."""

    group_coordinator_rebalance_protocols: tuple[str, ...] = kafka_property(
        _LIST,
        ("classic", "consumer", "streams"),
        "The enabled group protocols. classic is always enabled; without consumer its requests get an error; "
        "groupd does not support streams and share.",
        PROTOCOLS,
    )
    group_consumer_session_timeout_ms: int = kafka_property(
        _INT,
        45_000,
        "The session timeout of members of consumer groups; a group may have its own.",
        at_least(1),
    )
    group_consumer_min_session_timeout_ms: int = kafka_property(
        _INT, 45_000, "The shortest session timeout of a consumer group.", at_least(1)
    )
    group_consumer_max_session_timeout_ms: int = kafka_property(
        _INT, 60_000, "The longest session timeout of a consumer group.", at_least(1)
    )
    group_consumer_heartbeat_interval_ms: int = kafka_property(
        _INT,
        5000,
        "The heartbeat interval of members of consumer groups, shorter than their session timeout; a group "
        "may have its own.",
        at_least(1),
    )
    group_consumer_min_heartbeat_interval_ms: int = kafka_property(
        _INT, 5000, "The shortest heartbeat interval of a consumer group.", at_least(1)
    )
    group_consumer_max_heartbeat_interval_ms: int = kafka_property(
        _INT, 15_000, "The longest heartbeat interval of a consumer group.", at_least(1)
    )
    group_consumer_assignment_interval_ms: int = kafka_property(
        _INT,
        1000,
        "The minimum time between two target assignments of a consumer group; a group may have its own.",
        at_least(0),
    )
    group_consumer_min_assignment_interval_ms: int = kafka_property(
        _INT, 0, "The shortest assignment interval of a consumer group.", at_least(0)
    )
    group_consumer_max_assignment_interval_ms: int = kafka_property(
        _INT, 15_000, "The longest assignment interval of a consumer group.", at_least(0)
    )
    group_consumer_max_size: int = kafka_property(
        _INT, _MAX_INT, "The maximum number of members of a consumer group.", at_least(1)
    )
    group_consumer_assignors: tuple[str, ...] = kafka_property(
        _LIST,
        ("uniform", "range"),
        "The assignors of consumer groups, by short name or by Kafka's class; the first is the default.",
        ASSIGNORS,
    )
    group_consumer_migration_policy: str = kafka_property(
        _STRING,
        "bidirectional",
        "The conversions of groups with members: from classic to consumer (upgrade), back (downgrade), both "
        "(bidirectional), or none (disabled).",
        OneOf(("disabled", "downgrade", "upgrade", "bidirectional"), ignores_case=True),
    )
    group_consumer_regex_refresh_interval_ms: int = kafka_property(
        _INT,
        600_000,
        "The interval between evaluations of the regular expressions of consumer groups.",
        at_least(10_000),
    )

    def check_consumer_groups(self) -> None:
        """Check the properties against each other. Raises ConfigError."""
        for smaller, larger in _ORDERED_PROPERTIES:
            if self._get_value(smaller) > self._get_value(larger):
                raise self._create_contradiction(smaller, "exceeds", larger)
        interval, session = "heartbeat.interval.ms", "session.timeout.ms"
        if self._get_value(interval) >= self._get_value(session):
            raise self._create_contradiction(interval, "must be less than", session)

    def _get_value(self, name: str) -> int:
        value = getattr(self, (_PREFIX + name).replace(".", "_"))
        assert isinstance(value, int), name
        return value

    def _create_contradiction(self, name: str, how: str, other: str) -> Exception:
        return create_contradiction(
            _PREFIX + name, self._get_value(name), how, _PREFIX + other, self._get_value(other)
        )
