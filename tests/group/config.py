"""The default config of the core with overrides."""

from coordinator.config.properties import Config
from coordinator.group.group_config import ConsumerGroupConfig, GroupConfig


def group_config(**changed: int) -> GroupConfig:
    """Return the default config with overrides such as `group_max_size=2`."""
    return Config(**changed).view(GroupConfig)  # type: ignore[arg-type]


def consumer_group_config(**changed: int | str | tuple[str, ...]) -> ConsumerGroupConfig:
    """Return the default config with overrides such as `group_consumer_max_size=2`."""
    return Config(**changed).view(ConsumerGroupConfig)  # type: ignore[arg-type]
