"""The properties of one topic: its overrides over the broker's defaults over Kafka's.

Source: Kafka's `LogConfig`, `ServerTopicConfigSynonyms`, `ConfigHelper`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from coordinator.config.config_key import ConfigKey, ConfigSource, ConfigValue, InvalidConfig
from coordinator.config.topic_config_keys import INTERNAL_SEGMENT_BYTES, LOG_APPEND_TIME, TOPIC_CONFIG_KEYS
from storage.log_config import LogConfig


class EffectiveConfig(NamedTuple):
    """What one property is, and why: the first of `synonyms` (name, value, source) decides."""

    key: ConfigKey
    value: str
    source: ConfigSource
    synonyms: tuple[tuple[str, str, ConfigSource], ...]


@dataclass(frozen=True, slots=True)
class TopicValues:
    """What the data plane and the log obey of a topic's properties, parsed. A field is the property of its name,
    but for `log` and `is_log_append_time`."""

    log: LogConfig
    max_message_bytes: int
    max_decompressed_message_bytes: int
    is_log_append_time: bool
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int


_DEFAULTS: Final = {key.name: key.parse(key.default) for key in TOPIC_CONFIG_KEYS.values()}
_PROPERTIES: Final = {
    view: [
        (field.name, name)
        for field in fields(view)
        if (name := field.name.replace("_", ".")) in TOPIC_CONFIG_KEYS
    ]
    for view in (LogConfig, TopicValues)
}
"""The fields of a class that have the name of a property, and that."""


class TopicDefaults:
    """What a topic without overrides has, from the broker properties that were set explicitly."""

    def __init__(self, broker_properties: Mapping[str, str]) -> None:
        """Raises InvalidConfig when a broker property cannot be a topic's default."""
        self._broker: dict[str, tuple[str, str, str]] = {}
        for key in TOPIC_CONFIG_KEYS.values():
            for synonym in key.synonyms:
                text = broker_properties.get(synonym.name)
                if text is None:
                    continue
                value = text
                number = key.broker_key(synonym).parse(text)
                if synonym.factor != 1 or synonym.bounds is not None:
                    assert isinstance(number, int)
                    # Every negative number means "no limit", in every unit.
                    value = str(max(number * synonym.factor, -1))
                key.parse(value)
                self._broker[key.name] = (synonym.name, text, value)
                break
        self._values = _DEFAULTS | {
            name: TOPIC_CONFIG_KEYS[name].parse(value) for name, (_, _, value) in self._broker.items()
        }
        """Parsed, of a topic without overrides."""

    def effective(self, key: ConfigKey, overrides: Mapping[str, str]) -> EffectiveConfig:
        """The value of one property of a topic with these overrides, and where it comes from."""
        synonyms: list[tuple[str, str, ConfigSource]] = []
        value = key.default
        if key.name in self._broker:
            name, text, value = self._broker[key.name]
            synonyms.append((name, text, ConfigSource.STATIC_BROKER_CONFIG))
        if key.synonyms and key.synonyms[0].has_default:
            synonyms.append((key.synonyms[0].name, key.default, ConfigSource.DEFAULT_CONFIG))
        if key.name in overrides:
            value = key.canonical(overrides[key.name])
            synonyms.insert(0, (key.name, value, ConfigSource.TOPIC_CONFIG))
        source = synonyms[0][2] if synonyms else ConfigSource.DEFAULT_CONFIG
        return EffectiveConfig(key, value, source, tuple(synonyms))

    def value(self, name: str, overrides: Mapping[str, str]) -> ConfigValue:
        """The parsed value of one property. Raises InvalidConfig, KeyError for a name that does not exist."""
        text = overrides.get(name)
        if text is None:
            return self._values[name]
        return TOPIC_CONFIG_KEYS[name].parse(text)

    def validate(self, overrides: Mapping[str, str]) -> None:
        """Check what a client wants to set. Raises InvalidConfig with Kafka's text for an unknown name, then for a
        bad value, then for values that contradict each other. Source: Kafka's `LogConfig.validate`.
        """
        keys = {INTERNAL_SEGMENT_BYTES.name: INTERNAL_SEGMENT_BYTES, **TOPIC_CONFIG_KEYS}
        for name in overrides:
            if name not in keys:
                raise InvalidConfig(f"Unknown topic config name: {name}")
        for name, text in overrides.items():
            keys[name].parse_from_client(text)
        shortest, longest = (
            self._int("min.compaction.lag.ms", overrides),
            self._int("max.compaction.lag.ms", overrides),
        )
        if shortest > longest:
            raise InvalidConfig(
                f"conflict topic config setting min.compaction.lag.ms ({shortest}) > "
                f"max.compaction.lag.ms ({longest})"
            )
        if self.value("remote.storage.enable", overrides) is True:
            raise InvalidConfig(
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            )

    def parse(self, overrides: Mapping[str, str]) -> TopicValues:
        """Everything that acts, parsed once. Raises InvalidConfig."""
        policies = self.value("cleanup.policy", overrides)
        assert isinstance(policies, list)
        log = self._named(LogConfig, overrides) | {
            "cleanup_policy": ",".join(policies),
            "segment_bytes": self._segment_bytes(overrides),
        }
        return TopicValues(
            **self._named(TopicValues, overrides),
            log=LogConfig(**log),
            is_log_append_time=self.value("message.timestamp.type", overrides) == LOG_APPEND_TIME,
        )

    def _named(self, view: type[Any], overrides: Mapping[str, str]) -> dict[str, Any]:
        """The values of the properties that a class has fields of the same name for."""
        return {field: self.value(name, overrides) for field, name in _PROPERTIES[view]}

    def _segment_bytes(self, overrides: Mapping[str, str]) -> int:
        text = overrides.get(INTERNAL_SEGMENT_BYTES.name)
        value = self.value("segment.bytes", overrides) if text is None else INTERNAL_SEGMENT_BYTES.parse(text)
        assert isinstance(value, int)
        return value

    def _int(self, name: str, overrides: Mapping[str, str]) -> int:
        value = self.value(name, overrides)
        assert isinstance(value, int)
        return value
