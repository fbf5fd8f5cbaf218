"""A shard of groups for tests, with the default config of consumer groups and without topics."""

from typing import Final

from coordinator.group.group_config import GroupConfig
from coordinator.group.group_shard import GroupShard
from coordinator.group.topics_image import NO_TOPICS, TopicsImage
from tests.group.config import consumer_group_config, group_config

CONSUMER_CONFIG: Final = consumer_group_config()


def new_shard(
    config: GroupConfig | None = None, topics: TopicsImage = NO_TOPICS, kind: type[GroupShard] = GroupShard
) -> GroupShard:
    """Create a shard, with default properties unless `config` is given; `kind` may be a mutant."""
    return kind(group_config() if config is None else config, topics, CONSUMER_CONFIG)
