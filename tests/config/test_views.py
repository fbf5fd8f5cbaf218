"""A config class has properties by their names. The test finds a class that differs from the declaration."""

from typing import Any, get_type_hints

import pytest

from coordinator.config.properties import PROPERTIES, Config
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.config.topic_configs import TopicDefaults, TopicValues
from coordinator.group.group_config import ConsumerGroupConfig, GroupConfig
from coordinator.network.connection_limits import ConnectionLimits
from coordinator.topics.data_plane_config import DataPlaneConfig
from storage.log_config import LogConfig

ELSEWHERE = {"broker_properties", "max_open_files", "log_flush", "per_ip_overrides"}
"""Fields that hold more than the text of one property."""


@pytest.mark.parametrize("view", [GroupConfig, ConsumerGroupConfig, DataPlaneConfig, ConnectionLimits])
def test_a_field_is_a_property_of_the_broker_and_has_its_type_and_no_default(view: type[Any]) -> None:
    types = get_type_hints(Config)
    found = {name: kind for name, kind in get_type_hints(view).items() if name not in ELSEWHERE}
    assert found == {name: types[name] for name in found}
    assert {name.replace("_", ".") for name in found} <= PROPERTIES.keys()
    with pytest.raises(TypeError):
        view()


def test_a_configuration_has_known_fields_alone_and_never_changes() -> None:
    config = Config(group_max_size=7)
    assert (config.group_max_size, Config().group_max_size) == (7, 2**31 - 1)
    with pytest.raises(AttributeError):
        setattr(config, "group_max_size", 8)  # noqa: B010 - to mypy it is immutable
    with pytest.raises(TypeError, match="group_maximum_size"):
        Config(group_maximum_size=8)  # type: ignore[call-arg]


def test_a_log_without_properties_is_that_of_a_topic_without_any() -> None:
    assert TopicDefaults({}).parse({}).log == LogConfig()


@pytest.mark.parametrize("view", [LogConfig, TopicValues])
def test_a_field_is_a_property_of_a_topic(view: type[Any]) -> None:
    own = {"sync_on_roll", "log", "is_log_append_time"}
    names = {name.replace("_", ".") for name in view.__struct_fields__ if name not in own}
    assert names <= TOPIC_CONFIG_KEYS.keys()
