"""What a server is started with."""

from dataclasses import dataclass, field

from coordinator.config.listeners import Listener
from coordinator.config.properties import Config
from storage.files import Files, OsFiles


@dataclass(slots=True)
class ServerSettings:
    """See the top of this file."""

    config: Config
    listeners: list[Listener]
    data_dir: str
    """An absolute path."""
    topics: list[tuple[str, int]] = field(default_factory=list)
    """Topics to declare, with their partition counts."""
    properties: dict[str, str] = field(default_factory=dict)
    """What was set explicitly, by Kafka's names."""
    cluster_id: str | None = None
    """For a data directory that has none yet; default: a random one."""
    files: Files = field(default_factory=OsFiles)
