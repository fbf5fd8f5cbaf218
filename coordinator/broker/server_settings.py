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
    """The absolute path of the data directory."""
    topics: list[tuple[str, int]] = field(default_factory=list)
    """The topics to declare, with their partition counts."""
    properties: dict[str, str] = field(default_factory=dict)
    """Explicitly set properties by Kafka's names, including passwords."""
    cluster_id: str | None = None
    """Cluster id of a new data directory; default: a random one."""
    security: Mapping[str, "ListenerSettings"] = field(default_factory=dict)
    """Security settings by listener name, without the PLAINTEXT listeners."""
    brokers: int = 1
    """Number of brokers in this process, with node ids from `node.id` on."""
    initial_topics: Sequence[InitialTopic] = ()
    """Topics that are created at the start unless they exist. One that cannot be created is a warning."""
    in_image: bool = False
    """Whether groupd runs in its image, which can replace an image of Kafka."""
    files: Files = field(default_factory=OsFiles)

    def __repr__(self) -> str:
        """Return only the data directory: properties may contain passwords."""
        return f"ServerSettings({self.data_dir!r})"


def create_data_plane_config(
    config: Config, explicit: Mapping[str, str], max_open_files: int = UNLIMITED
) -> DataPlaneConfig:
    """Return the config of the data plane.

    Args:
        config: Configuration of the broker.
        explicit: Explicitly set properties by Kafka's names, which are also defaults of topics.
        max_open_files: Maximum number of open files of the process.
    """
    return config.view(
        DataPlaneConfig,
        log_flush=LogFlush(config.log_flush or LogFlush.OS),
        broker_properties=dict(explicit),
        max_open_files=max_open_files,
        default_replication_factor=config.default_replication_factor if config.is_cluster else 1,
    )


def list_broker_configs(explicit: Mapping[str, str]) -> list[BrokerConfig]:
    """Return every supported property by name, for DescribeConfigs, and the explicit properties of listeners."""
    of_listeners = {
        name: create_listener_key(name, found)
        for name in explicit
        if (found := parse_listener_property(name)) is not None
    }
    keys = {**TOPIC_PROPERTIES, **PROPERTIES, **of_listeners}
    return [BrokerConfig(keys[name], explicit.get(name)) for name in sorted(keys)]
