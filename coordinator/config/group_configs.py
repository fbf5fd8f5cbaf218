"""Group configs under Kafka's names, and their accepted values.

groupd applies the configs of consumer groups. It stores those of share groups and streams groups, which it does not
serve. Source: Kafka's `GroupConfig`.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.config.config_def import ConfigKey, ConfigType, ConfigValue, InvalidConfig, at_least
from coordinator.config.consumer_group_properties import ConsumerGroupProperties
from coordinator.config.unsupported_group_configs import (
    RACK_TAGS,
    UNSUPPORTED_GROUP_CONFIG_KEYS,
    UNSUPPORTED_SYNONYMS,
    check_unsupported_configs,
)

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
_INT: Final = ConfigType.INT
_JAVA_SPACE: Final = " \t\n\v\f\r"

GROUP_CONFIG_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        ConfigKey(
            SESSION_TIMEOUT,
            _INT,
            "45000",
            "The timeout to detect client failures when using the consumer group protocol.",
            at_least(1),
        ),
        ConfigKey(
            HEARTBEAT_INTERVAL,
            _INT,
            "5000",
            "The heartbeat interval given to the members of a consumer group.",
            at_least(1),
        ),
        ConfigKey(
            "consumer.assignment.interval.ms",
            _INT,
            "1000",
            "The interval between assignment updates for a consumer group.",
            at_least(0),
        ),
        *UNSUPPORTED_GROUP_CONFIG_KEYS,
    )
}
"""All group configs by name, in the order in which Kafka defines them."""
_RANGED_CONFIGS: Final = (HEARTBEAT_INTERVAL, SESSION_TIMEOUT, "consumer.assignment.interval.ms")
"""The configs with a minimum and a maximum in broker properties, in the order in which Kafka checks them."""


def find_broker_synonym(name: str) -> str:
    """Return the broker property that is the default of a group config, or the name of the config itself."""
    return UNSUPPORTED_SYNONYMS.get(name, f"group.{name}")


def check_group_configs(overrides: Mapping[str, str], broker: ConsumerGroupProperties) -> None:
    """Check the configs of a group, by name. Raises InvalidConfig with Kafka's text for an unknown name, then for
    an invalid value, then for a value outside the broker's bounds.
    """
    for name in overrides:
        if name not in GROUP_CONFIG_KEYS:
            raise InvalidConfig(f"Unknown group config name: {name}", name)
    _check_tags(overrides.get(RACK_TAGS, ""))
    values = {
        name: key.parse_from_client(overrides[name])
        for name, key in GROUP_CONFIG_KEYS.items()
        if name in overrides
    }
    for name in _RANGED_CONFIGS:
        least, most = _find_bound(broker, name, "min"), _find_bound(broker, name, "max")
        if name in values and not least <= _as_int(values[name]) <= most:
            raise InvalidConfig(f"{name} must be in the range {least} to {most} inclusive.", name)
    check_unsupported_configs(values)
    session_ms = _as_int(values.get(SESSION_TIMEOUT, broker.group_consumer_session_timeout_ms))
    interval_ms = _as_int(values.get(HEARTBEAT_INTERVAL, broker.group_consumer_heartbeat_interval_ms))
    if values.keys() & {SESSION_TIMEOUT, HEARTBEAT_INTERVAL} and session_ms <= interval_ms:
        raise InvalidConfig(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}", SESSION_TIMEOUT)


def _check_tags(text: str) -> None:
    tags = [tag.strip(_JAVA_SPACE) for tag in text.strip().split(",")]
    if len(set(tags)) < len(tags):
        raise InvalidConfig(f"{RACK_TAGS} must not contain duplicate tag keys.", RACK_TAGS)


def _as_int(value: ConfigValue) -> int:
    assert isinstance(value, int), value
    return value


def _find_bound(broker: ConsumerGroupProperties, name: str, which: str) -> int:
    field = "group_consumer_" + which + "_" + name.removeprefix("consumer.").replace(".", "_")
    value = getattr(broker, field)
    assert isinstance(value, int), field
    return value
