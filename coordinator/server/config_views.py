"""The broker's properties as each part of the daemon takes them: by the names of its own fields."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from coordinator.config.config_key import ConfigType
from coordinator.config.properties import PROPERTIES, TOPIC_PROPERTIES, Config
from coordinator.group.config import MESSAGE_MAX_BYTES, GroupConfig
from coordinator.names import LogFlush
from coordinator.topics.broker_configs import BrokerConfig
from coordinator.topics.config import TopicsConfig


def group_config(config: Config, explicit: Mapping[str, str]) -> GroupConfig:
    """What the groups obey. In: also the properties that were set explicitly, by Kafka's names."""
    shared = _shared(config, GroupConfig)
    return GroupConfig(**shared, message_max_bytes=int(explicit.get("message.max.bytes", MESSAGE_MAX_BYTES)))


def topics_config(config: Config, explicit: Mapping[str, str]) -> TopicsConfig:
    """What the data plane obeys; what was set explicitly gives topics their defaults."""
    shared = _shared(config, TopicsConfig) | {"log_flush": LogFlush(config.log_flush or LogFlush.OS)}
    return TopicsConfig(**shared, broker_properties=dict(explicit))


def _shared(config: Config, view: type[Any]) -> dict[str, Any]:
    """The properties that a view has a field for."""
    names = {entry.name for entry in fields(view)} & {entry.name for entry in fields(config)}
    return {name: getattr(config, name) for name in names}


def broker_configs(explicit: Mapping[str, str]) -> list[BrokerConfig]:
    """Every property that acts here, by name, as DescribeConfigs shows them."""
    found = []
    for name, key in sorted({**TOPIC_PROPERTIES, **PROPERTIES}.items()):
        default = key.default if key.default or key.kind in (ConfigType.STRING, ConfigType.LIST) else None
        found.append(BrokerConfig(name, explicit.get(name, default), default, key.kind, key.documentation))
    return found
