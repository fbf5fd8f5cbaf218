"""The properties of one topic. Its overrides take precedence over the broker's defaults, and these over Kafka's.

Source: Kafka's `LogConfig`, `ServerTopicConfigSynonyms`, `ConfigHelper`.
"""

from collections.abc import Mapping
from itertools import dropwhile
from typing import Any, Final, NamedTuple

from msgspec import Struct

from coordinator.config.config_def import ConfigKey, ConfigSource, ConfigValue, InvalidConfig
from coordinator.config.topic_config_keys import (
    DYNAMIC_DEFAULTS,
    INTERNAL_SEGMENT_BYTES,
    LOG_APPEND_TIME,
    TOPIC_CONFIG_KEYS,
)
from storage.log_config import LogConfig

_Synonym = tuple[str, str, ConfigSource]


class EffectiveConfig(NamedTuple):
    """The value of one property, and its sources.

    CreateTopics returns `source`: Kafka's controller considers all broker properties of a topic property.
    DescribeConfigs returns `described_source`: if only `log.retention.hours` is set, `retention.ms` is a default
    there, because its own broker property is `log.retention.ms`.
    """

    key: ConfigKey
    value: str
    source: ConfigSource
    synonyms: tuple[_Synonym, ...]
    """Name, value and source of each synonym, the one with the highest precedence first."""

    @property
    def described_source(self) -> ConfigSource:
        """Return the source in DescribeConfigs."""
        return self.synonyms[0][2] if self.synonyms else ConfigSource.DEFAULT_CONFIG


class TopicValues(Struct, frozen=True):
    """The parsed properties of a topic for the data plane and the log. Each field, except `log` and
    `is_log_append_time`, is the property with its name."""

    log: LogConfig
    max_message_bytes: int
    max_decompressed_message_bytes: int
    is_log_append_time: bool
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int


_DEFAULTS: Final = {key.name: key.parse(key.default) for key in TOPIC_CONFIG_KEYS.values()}
_PROPERTIES: Final = {
    view: [
        (field, name)
        for field in view.__struct_fields__
        if (name := field.replace("_", ".")) in TOPIC_CONFIG_KEYS
    ]
    for view in (LogConfig, TopicValues)
}
"""By class: its fields that are topic properties, each with the name of the property."""


class TopicDefaults:
    """The properties of a topic without overrides, from the explicitly set broker properties."""

    def __init__(self, broker_properties: Mapping[str, str]) -> None:
        """Parse the broker properties, by name. Raises InvalidConfig if one of them cannot be a topic's default."""
        self._broker: dict[str, str] = {}
        self._broker_synonyms = {
            key.name: _find_broker_synonyms(key, broker_properties) for key in TOPIC_CONFIG_KEYS.values()
        }
        for key in TOPIC_CONFIG_KEYS.values():
            for synonym in key.synonyms:
                text = broker_properties.get(synonym.name)
                if text is None:
                    continue
                value = text
                number = key.create_broker_key(synonym).parse(text)
                if synonym.factor != 1 or synonym.bounds is not None:
                    assert isinstance(number, int)
                    # Every negative number means "no limit", in every unit.
                    value = str(max(number * synonym.factor, -1))
                key.parse(value)
                self._broker[key.name] = value
                break
        self._values = _DEFAULTS | {
            name: TOPIC_CONFIG_KEYS[name].parse(value) for name, value in self._broker.items()
        }
        """The parsed values of a topic without overrides, by name."""

    def find_effective(self, key: ConfigKey, overrides: Mapping[str, str]) -> EffectiveConfig:
        """Return the value of one property of a topic with these overrides, and its sources."""
        value, source = key.default, ConfigSource.DEFAULT_CONFIG
        if key.name in self._broker:
            value, source = self._broker[key.name], ConfigSource.STATIC_BROKER_CONFIG
        synonyms = list(self._broker_synonyms[key.name])
        if key.name in DYNAMIC_DEFAULTS:
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            synonyms.insert(0, (key.name, value, source))
        if key.name in overrides:
            value, source = key.format_canonical(overrides[key.name]), ConfigSource.TOPIC_CONFIG
            synonyms.insert(0, (key.name, value, source))
        return EffectiveConfig(key, value, source, tuple(synonyms))

    def parse_value(self, name: str, overrides: Mapping[str, str]) -> ConfigValue:
        """Return the parsed value of one property. Raises InvalidConfig; KeyError for an unknown name."""
        text = overrides.get(name)
        if text is None:
            return self._values[name]
        return TOPIC_CONFIG_KEYS[name].parse(text)

    def validate(self, overrides: Mapping[str, str]) -> None:
        """Check the configs that a client sets. Raises InvalidConfig with Kafka's text for an unknown name,
        then for an invalid value, then for contradictory values. Source: Kafka's `LogConfig.validate`.
        """
        keys = {INTERNAL_SEGMENT_BYTES.name: INTERNAL_SEGMENT_BYTES, **TOPIC_CONFIG_KEYS}
        for name in overrides:
            if name not in keys:
                raise InvalidConfig(f"Unknown topic config name: {name}")
        for name, text in overrides.items():
            keys[name].parse_from_client(text)
        shortest, longest = (
            self._parse_int("min.compaction.lag.ms", overrides),
            self._parse_int("max.compaction.lag.ms", overrides),
        )
        if shortest > longest:
            raise InvalidConfig(
                f"conflict topic config setting min.compaction.lag.ms ({shortest}) > "
                f"max.compaction.lag.ms ({longest})"
            )
        if self.parse_value("remote.storage.enable", overrides) is True:
            raise InvalidConfig(
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            )

    def parse(self, overrides: Mapping[str, str]) -> TopicValues:
        """Parse all properties with an effect. Raises InvalidConfig."""
        policies = self.parse_value("cleanup.policy", overrides)
        assert isinstance(policies, list)
        log = self._parse_fields(LogConfig, overrides) | {
            "cleanup_policy": ",".join(policies),
            "segment_bytes": self._parse_segment_bytes(overrides),
        }
        return TopicValues(
            **self._parse_fields(TopicValues, overrides),
            log=LogConfig(**log),
            is_log_append_time=self.parse_value("message.timestamp.type", overrides) == LOG_APPEND_TIME,
        )

    def _parse_fields(self, view: type[Any], overrides: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of the properties that are fields of a class, by field."""
        return {field: self.parse_value(name, overrides) for field, name in _PROPERTIES[view]}

    def _parse_segment_bytes(self, overrides: Mapping[str, str]) -> int:
        text = overrides.get(INTERNAL_SEGMENT_BYTES.name)
        value = (
            self.parse_value("segment.bytes", overrides)
            if text is None
            else INTERNAL_SEGMENT_BYTES.parse(text)
        )
        assert isinstance(value, int)
        return value

    def _parse_int(self, name: str, overrides: Mapping[str, str]) -> int:
        value = self.parse_value(name, overrides)
        assert isinstance(value, int)
        return value


def _find_broker_synonyms(key: ConfigKey, broker_properties: Mapping[str, str]) -> list[_Synonym]:
    """Return the broker synonyms of a topic property in DescribeConfigs.

    Source: Kafka's `ConfigHelper.configSynonyms`, which leaves out the synonyms before the property's own one.
    """
    found = [
        (synonym.name, broker_properties[synonym.name], ConfigSource.STATIC_BROKER_CONFIG)
        for synonym in key.synonyms
        if synonym.name in broker_properties
    ]
    found += [
        (synonym.name, key.create_broker_key(synonym).default, ConfigSource.DEFAULT_CONFIG)
        for synonym in key.synonyms
        if synonym.has_default
    ]
    return list(dropwhile(lambda each: each[0] != key.synonyms[0].name, found))
