"""Settings with which a server starts, and the configs of the data plane and of DescribeConfigs that follow
from its properties.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from coordinator.config.initial_topics import InitialTopic
from coordinator.config.listener_properties import create_listener_key, parse_listener_property
from coordinator.config.listeners import Listener
from coordinator.config.properties import PROPERTIES, TOPIC_PROPERTIES, Config
from coordinator.core.shared_types import LogFlush
from coordinator.topics.data_plane_config import BrokerConfig, DataPlaneConfig
from storage.files import Files, OsFiles

if TYPE_CHECKING:
    from coordinator.config.listener_settings import ListenerSettings

UNLIMITED: Final = 2**31


class ServerSettings(Struct):
    """The config, the listeners and the files of a server."""

    config: Config
    listeners: list[Listener]
    data_dir: str
    """An absolute path."""
    topics: list[tuple[str, int]] = field(default_factory=list)
    """Topics to declare, with their partition counts."""
    properties: dict[str, str] = field(default_factory=dict)
    """What was set explicitly, by Kafka's names: passwords, too."""
    cluster_id: str | None = None
    """For a data directory that has none yet; default: a random one."""
    security: Mapping[str, "ListenerSettings"] = field(default_factory=dict)
    """What listeners ask of a client, by name; those that are PLAINTEXT are missing."""
    brokers: int = 1
    """How many there are in this process, with node ids from `node.id` on."""
    initial_topics: Sequence[InitialTopic] = ()
    """Topics that are created at the start unless they exist. One that cannot be created is a warning."""
    in_image: bool = False
    """Whether groupd runs in its image, in the place of an image of Kafka."""
    files: Files = field(default_factory=OsFiles)

    def __repr__(self) -> str:
        """Show the data directory alone: properties may be passwords."""
        return f"ServerSettings({self.data_dir!r})"


def create_data_plane_config(
    config: Config, explicit: Mapping[str, str], max_open_files: int = UNLIMITED
) -> DataPlaneConfig:
    """What the data plane obeys. In: also the properties that were set explicitly, by Kafka's names: they give
    topics their defaults; how many files the process may have open."""
    return config.view(
        DataPlaneConfig,
        log_flush=LogFlush(config.log_flush or LogFlush.OS),
        broker_properties=dict(explicit),
        max_open_files=max_open_files,
        default_replication_factor=config.default_replication_factor if config.is_cluster else 1,
    )


def list_broker_configs(explicit: Mapping[str, str]) -> list[BrokerConfig]:
    """Every property that acts here, by name, as DescribeConfigs shows them; listeners' own as far as set."""
    of_listeners = {
        name: create_listener_key(name, found)
        for name in explicit
        if (found := parse_listener_property(name)) is not None
    }
    keys = {**TOPIC_PROPERTIES, **PROPERTIES, **of_listeners}
    return [BrokerConfig(keys[name], explicit.get(name)) for name in sorted(keys)]
