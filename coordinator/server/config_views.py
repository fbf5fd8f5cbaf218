"""The broker's properties as each part of the daemon takes them: by the names of its own fields."""

from collections.abc import Mapping

from coordinator.config.properties import PROPERTIES, TOPIC_PROPERTIES, Config
from coordinator.names import LogFlush
from coordinator.topics.broker_configs import BrokerConfig
from coordinator.topics.config import TopicsConfig


def topics_config(config: Config, explicit: Mapping[str, str]) -> TopicsConfig:
    """What the data plane obeys. In: also the properties that were set explicitly, by Kafka's names: they give
    topics their defaults."""
    log_flush = LogFlush(config.log_flush or LogFlush.OS)
    return config.view(TopicsConfig, log_flush=log_flush, broker_properties=dict(explicit))


def broker_configs(explicit: Mapping[str, str]) -> list[BrokerConfig]:
    """Every property that acts here, by name, as DescribeConfigs shows them."""
    keys = {**TOPIC_PROPERTIES, **PROPERTIES}
    return [BrokerConfig(keys[name], explicit.get(name)) for name in sorted(keys)]
