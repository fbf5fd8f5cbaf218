"""What a namespace is started with: the properties of the daemon but those that say who it is and who may reach it,
one partition each for offsets and transactions, and what whoever makes it has asked for."""

from collections.abc import Mapping
from typing import Final

from coordinator.config.cluster_properties import ClusterProperties
from coordinator.config.errors import ConfigError
from coordinator.config.ignored_names import is_ignored_property
from coordinator.config.listeners import Address, Listener
from coordinator.config.namespace_properties import NamespaceProperties
from coordinator.config.properties import SYNONYMS, is_property, parse_config
from coordinator.config.property import declared_names
from coordinator.config.security_properties import SecurityProperties
from coordinator.config.sources import unknown_property
from coordinator.names import SecurityProtocol
from coordinator.server.settings import ServerSettings
from storage.files import Files

LISTENER: Final = "PLAINTEXT"

_DEFAULTS: Final = {"oracle.commits": "true"}
"""Defaults of namespaces that differ from the daemon's: a namespace exists for a test."""
_OWN: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
_IN_MEMORY: Final = {"log.flush": "os", "log.journal.file.bytes": "0"}
"""There a sync would do nothing, but take its turn."""
_OF_THE_DAEMON: Final = declared_names(SecurityProperties, ClusterProperties, NamespaceProperties) - {
    "broker.rack"
} | {"socket.listen.backlog.size"}
"""The properties that cannot act in a namespace: it has no security and no cluster; the daemon opens its port."""
_BEGINNINGS_OF_THE_DAEMON: Final = (
    *("listener", "advertised.listeners", "controller.listener", "early.start.listeners"),
    *("http.", "control.", "log.dir", "ledger.file", "node.id", "broker.id"),
)
"""The beginnings of the names of others: its ports and directories are the daemon's choice."""


def settings_of(
    daemon: ServerSettings,
    given: Mapping[str, str],
    address: Address,
    files: Files,
    data_dir: str,
    *,
    in_memory: bool,
) -> ServerSettings:
    """In: what the daemon was started with, and the properties that were asked for; where to listen; where files
    lie. Raises ConfigError that names a property which a namespace cannot have, or a bad value."""
    for name in given:
        if _is_of_the_daemon(name):
            raise ConfigError(
                f"{name} cannot act in a namespace, which has no security, no cluster, and ports and directories "
                "from the daemon. Leave it out, or set it where the daemon is started",
                name,
            )
        if is_ignored_property(name):
            raise ConfigError(f"{name} has no effect in groupd. Leave it out", name)
        if not is_property(name):
            raise ConfigError(unknown_property(name), name)
    inherited = {name: text for name, text in daemon.properties.items() if not _is_of_the_daemon(name)}
    asked = {SYNONYMS.get(name, name): text for name, text in given.items()}
    texts = _DEFAULTS | inherited | _OWN | (_IN_MEMORY if in_memory else {}) | asked
    texts |= {"node.id": str(daemon.config.node_id), "control.enable": daemon.config.control_enable}
    advertised = daemon.listeners[0].advertised
    return ServerSettings(
        config=parse_config(texts),
        listeners=[
            Listener(
                LISTENER,
                address,
                None if advertised is None else Address(advertised.host, 0),
                SecurityProtocol.PLAINTEXT,
            )
        ],
        data_dir=data_dir,
        properties=texts,
        files=files,
    )


def _is_of_the_daemon(name: str) -> bool:
    return name in _OF_THE_DAEMON or name.startswith(_BEGINNINGS_OF_THE_DAEMON)
