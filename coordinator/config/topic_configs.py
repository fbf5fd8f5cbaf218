"""The properties of one topic: its overrides over the broker's defaults over Kafka's.

Source: Kafka's `LogConfig`, `ServerTopicConfigSynonyms`, `ConfigHelper`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.config.config_key import ConfigKey, ConfigSource, ConfigValue, InvalidConfig
from coordinator.config.topic_config_keys import INTERNAL_SEGMENT_BYTES, TOPIC_CONFIG_KEYS
from storage.log_config import LogConfig


class EffectiveConfig(NamedTuple):
    """What one property is, and why: the first of `synonyms` (name, value, source) decides."""

    key: ConfigKey
    value: str
    source: ConfigSource
    synonyms: tuple[tuple[str, str, ConfigSource], ...]


@dataclass(frozen=True, slots=True)
class TopicValues:
    """What the data plane and the log obey of a topic's properties, parsed."""

    log: LogConfig
    max_message_bytes: int
    max_decompressed_message_bytes: int
    is_log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    is_compacted: bool
    is_deleted_by_age: bool


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

    def effective(self, key: ConfigKey, overrides: Mapping[str, str]) -> EffectiveConfig:
        """The value of one property of a topic with these overrides, and where it comes from."""
        synonyms: list[tuple[str, str, ConfigSource]] = []
        value = key.default
        if key.name in self._broker:
            name, text, value = self._broker[key.name]
            synonyms.append((name, text, ConfigSource.STATIC_BROKER_CONFIG))
        if key.synonyms and key.shows_default:
            synonyms.append((key.synonyms[0].name, key.default, ConfigSource.DEFAULT_CONFIG))
        if key.name in overrides:
            value = overrides[key.name]
            synonyms.insert(0, (key.name, value, ConfigSource.TOPIC_CONFIG))
        source = synonyms[0][2] if synonyms else ConfigSource.DEFAULT_CONFIG
        return EffectiveConfig(key, value, source, tuple(synonyms))

    def value(self, name: str, overrides: Mapping[str, str]) -> ConfigValue:
        """The parsed value of one property. Raises InvalidConfig, KeyError for a name that does not exist."""
        key = TOPIC_CONFIG_KEYS[name]
        return key.parse(self.effective(key, overrides).value)

    def validate(self, overrides: Mapping[str, str]) -> None:
        """Raises InvalidConfig for an unknown name, a bad value, or values that contradict each other."""
        for name, text in overrides.items():
            if name == INTERNAL_SEGMENT_BYTES.name:
                INTERNAL_SEGMENT_BYTES.parse(text)
                continue
            if name not in TOPIC_CONFIG_KEYS:
                raise InvalidConfig(f"Unknown topic config name: {name}")
            TOPIC_CONFIG_KEYS[name].parse(text)
        shortest, longest = (
            self._int("min.compaction.lag.ms", overrides),
            self._int("max.compaction.lag.ms", overrides),
        )
        if shortest > longest:
            raise InvalidConfig(
                f"min.compaction.lag.ms ({shortest}) exceeds max.compaction.lag.ms ({longest})"
            )
        if self.value("remote.storage.enable", overrides) is True:
            raise InvalidConfig("remote.storage.enable cannot be true: tiered storage is not offered here")

    def parse(self, overrides: Mapping[str, str]) -> TopicValues:
        """Everything that acts, parsed once. Raises InvalidConfig."""
        policies = self.value("cleanup.policy", overrides)
        assert isinstance(policies, list)
        dirty_ratio = self.value("min.cleanable.dirty.ratio", overrides)
        assert isinstance(dirty_ratio, float)
        log = LogConfig(
            segment_bytes=self._segment_bytes(overrides),
            segment_ms=self._int("segment.ms", overrides),
            segment_index_bytes=self._int("segment.index.bytes", overrides),
            index_interval_bytes=self._int("index.interval.bytes", overrides),
            retention_ms=self._int("retention.ms", overrides),
            retention_bytes=self._int("retention.bytes", overrides),
            cleanup_policy=",".join(policies),
            min_cleanable_dirty_ratio=dirty_ratio,
            min_compaction_lag_ms=self._int("min.compaction.lag.ms", overrides),
            max_compaction_lag_ms=self._int("max.compaction.lag.ms", overrides),
            delete_retention_ms=self._int("delete.retention.ms", overrides),
        )
        return TopicValues(
            log=log,
            max_message_bytes=self._int("max.message.bytes", overrides),
            max_decompressed_message_bytes=self._int("max.decompressed.message.bytes", overrides),
            is_log_append_time=self.value("message.timestamp.type", overrides) == "LogAppendTime",
            timestamp_before_max_ms=self._int("message.timestamp.before.max.ms", overrides),
            timestamp_after_max_ms=self._int("message.timestamp.after.max.ms", overrides),
            is_compacted="compact" in policies,
            is_deleted_by_age="delete" in policies,
        )

    def _segment_bytes(self, overrides: Mapping[str, str]) -> int:
        text = overrides.get(INTERNAL_SEGMENT_BYTES.name)
        value = self.value("segment.bytes", overrides) if text is None else INTERNAL_SEGMENT_BYTES.parse(text)
        assert isinstance(value, int)
        return value

    def _int(self, name: str, overrides: Mapping[str, str]) -> int:
        value = self.value(name, overrides)
        assert isinstance(value, int)
        return value
