"""The broker's properties as each part of the daemon takes them: by the names of its own fields."""

from collections.abc import Mapping
from typing import Final

from coordinator.config.listener_properties import key_of, parse_name
from coordinator.config.properties import PROPERTIES, TOPIC_PROPERTIES, Config
from coordinator.names import LogFlush
from coordinator.topics.broker_configs import BrokerConfig
from coordinator.topics.config import TopicsConfig

UNLIMITED: Final = 2**31


def topics_config(
    config: Config, explicit: Mapping[str, str], max_open_files: int = UNLIMITED
) -> TopicsConfig:
    """What the data plane obeys. In: also the properties that were set explicitly, by Kafka's names: they give
    topics their defaults; how many files the process may have open."""
    return config.view(
        TopicsConfig,
        log_flush=LogFlush(config.log_flush or LogFlush.OS),
        broker_properties=dict(explicit),
        max_open_files=max_open_files,
        default_replication_factor=config.default_replication_factor if config.is_cluster else 1,
    )


def broker_configs(explicit: Mapping[str, str]) -> list[BrokerConfig]:
    """Every property that acts here, by name, as DescribeConfigs shows them; listeners' own as far as set."""
    of_listeners = {name: key_of(name, found) for name in explicit if (found := parse_name(name)) is not None}
    keys = {**TOPIC_PROPERTIES, **PROPERTIES, **of_listeners}
    return [BrokerConfig(keys[name], explicit.get(name)) for name in sorted(keys)]
