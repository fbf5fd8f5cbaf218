"""What a server is started with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coordinator.config.initial_topics import InitialTopic
from coordinator.config.listeners import Listener
from coordinator.config.properties import Config
from storage.files import Files, OsFiles

if TYPE_CHECKING:
    from coordinator.config.listener_settings import ListenerSettings


@dataclass(slots=True)
class ServerSettings:
    """See the top of this file."""

    config: Config
    listeners: list[Listener]
    data_dir: str
    """An absolute path."""
    topics: list[tuple[str, int]] = field(default_factory=list)
    """Topics to declare, with their partition counts."""
    properties: dict[str, str] = field(default_factory=dict, repr=False)
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
