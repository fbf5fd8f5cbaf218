"""The configs that one group can have of its own, under Kafka's names: what they may be.

Those of consumer groups; share groups and streams groups are not served here. Source: Kafka's `GroupConfig`.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.config.config_key import ConfigKey, ConfigType, InvalidConfig, at_least, parse
from coordinator.config.consumer_group_properties import ConsumerGroupProperties

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
_INT: Final = ConfigType.INT

GROUP_CONFIG_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        ConfigKey(
            HEARTBEAT_INTERVAL,
            _INT,
            "5000",
            "The heartbeat interval given to the members of a consumer group.",
            at_least(1),
        ),
        ConfigKey(
            SESSION_TIMEOUT,
            _INT,
            "45000",
            "The timeout to detect client failures when using the consumer group protocol.",
            at_least(1),
        ),
        ConfigKey(
            "consumer.assignment.interval.ms",
            _INT,
            "1000",
            "The interval between assignment updates for a consumer group.",
            at_least(0),
        ),
    )
}
"""By name, in the order in which Kafka looks at them."""


def broker_synonym(name: str) -> str:
    """The property of the broker that groups without such a config obey."""
    return f"group.{name}"


def check_group_configs(overrides: Mapping[str, str], broker: ConsumerGroupProperties) -> None:
    """Raises InvalidConfig, in Kafka's words, for what a group of this broker cannot have."""
    for name in overrides:
        if name not in GROUP_CONFIG_KEYS:
            raise InvalidConfig(f"Unknown group config name: {name}", name)
    values = {name: _parsed(GROUP_CONFIG_KEYS[name], text) for name, text in overrides.items()}
    for name in GROUP_CONFIG_KEYS:
        least, most = _bound(broker, name, "min"), _bound(broker, name, "max")
        if name in values and not least <= values[name] <= most:
            raise InvalidConfig(f"{name} must be in the range {least} to {most} inclusive.", name)
    session_ms = values.get(SESSION_TIMEOUT, broker.group_consumer_session_timeout_ms)
    interval_ms = values.get(HEARTBEAT_INTERVAL, broker.group_consumer_heartbeat_interval_ms)
    if values.keys() & {SESSION_TIMEOUT, HEARTBEAT_INTERVAL} and session_ms <= interval_ms:
        raise InvalidConfig(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}", SESSION_TIMEOUT)


def _parsed(key: ConfigKey, text: str) -> int:
    try:
        value = parse(key.kind, text)
    except ValueError:
        raise InvalidConfig(
            f"Invalid value {text} for configuration {key.name}: Not a number of type INT", key.name
        ) from None
    assert isinstance(value, int)
    if not key.bounds.holds(value):
        least = 0 if key.bounds.holds(0) else 1
        raise InvalidConfig(
            f"Invalid value {text} for configuration {key.name}: Value must be at least {least}", key.name
        )
    return value


def _bound(broker: ConsumerGroupProperties, name: str, which: str) -> int:
    field = "group_consumer_" + which + "_" + name.removeprefix("consumer.").replace(".", "_")
    value = getattr(broker, field)
    assert isinstance(value, int), field
    return value
