"""The broker's properties as the data plane wants them: the defaults of topics, and what DescribeConfigs shows."""

from collections.abc import Mapping

from coordinator.config.config_key import ConfigType
from coordinator.config.properties import PROPERTIES, TOPIC_PROPERTIES
from coordinator.topics.broker_configs import BrokerConfig


def broker_properties(explicit: Mapping[str, str]) -> dict[str, str]:
    """What was set explicitly, by Kafka's names."""
    return dict(explicit)


def broker_configs(explicit: Mapping[str, str]) -> list[BrokerConfig]:
    """Every property that acts here, by name."""
    found = []
    for name, key in sorted({**TOPIC_PROPERTIES, **PROPERTIES}.items()):
        default = key.default if key.default or key.kind in (ConfigType.STRING, ConfigType.LIST) else None
        found.append(BrokerConfig(name, explicit.get(name, default), default, key.kind, key.documentation))
    return found
