"""One namespace: a server and its control plane, on sockets that outlive both, and the settings of the
server.

The settings are the daemon's properties without those for security, cluster, ports and directories. The
offsets topic and the transaction log have one partition each. Properties of the creating request come last.
"""

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from coordinator.broker.server import Server
from coordinator.broker.server_settings import ServerSettings
from coordinator.config.cluster_properties import ClusterProperties, NamespaceProperties
from coordinator.config.config_def import list_property_names
from coordinator.config.config_errors import ConfigError
from coordinator.config.listeners import Address, Listener
from coordinator.config.properties import SYNONYMS, is_property, parse_config
from coordinator.config.security_properties import SecurityProperties
from coordinator.config.setting_sources import format_unknown_property
from coordinator.config.unsupported_settings import is_ignored_property
from coordinator.control.control_plane import ControlPlane
from coordinator.control.group_removals import GroupRemovals
from coordinator.core import clock
from coordinator.core.shared_types import SecurityProtocol
from storage.files import Files

LISTENER: Final = "PLAINTEXT"
SettingsFactory = Callable[[], ServerSettings]
"""Creates the settings of a new server, with empty files or with those of an earlier namespace."""


class NamespaceBroker:
    """`open` creates it and `close` ends it. All methods belong to the event loop's thread."""

    def __init__(
        self,
        name: str,
        sockets: Sequence[socket.socket],
        make_settings: SettingsFactory,
        topics: Mapping[str, int],
        open_server: Callable[[ServerSettings], Server],
        *,
        is_durable: bool,
    ) -> None:
        """Create a broker that is not open yet.

        Args:
            name: the name of the namespace.
            sockets: bound sockets, which the broker then owns.
            make_settings: creates the settings of a server.
            topics: the initial topics with their numbers of partitions.
            open_server: creates the server.
            is_durable: whether its files are on the disk.
        """
        self.name: Final = name
        self.created_ms: Final = clock.wall_ms()
        self._sockets = sockets
        self._make_settings = make_settings
        self._topics = topics
        self._open_server = open_server
        self._group_removals = GroupRemovals()
        self._is_durable = is_durable
        self._touched_ms = clock.monotonic_ms()
        self._advertised: dict[str, Address] = {}
        self._server: Server | None = None
        self._control: ControlPlane | None = None

    @property
    def control(self) -> ControlPlane:
        """Return the control plane; until a reset is complete, the one of the old server."""
        assert self._control is not None, "opened"
        return self._control

    @property
    def server(self) -> Server:
        """Return the server; until a reset is complete, the old one."""
        assert self._server is not None, "opened"
        return self._server

    # Use

    def touch(self) -> None:
        """Record that a client used the namespace."""
        self._touched_ms = clock.monotonic_ms()

    def idle_ms(self) -> int:
        """Return the milliseconds since the last connection or request."""
        if self.server.connections.open:
            self.touch()
        return clock.monotonic_ms() - self._touched_ms

    # Life cycle

    async def open(self) -> None:
        """Start a server, and wait until it is ready and has its topics.

        Raises:
            StartFailed: the server cannot start.
            Problem: a topic cannot be created.

        After an error the server and the sockets are closed.
        """
        try:
            self._server, self._control = await self._start()
        except BaseException:
            self._close_sockets()
            raise

    async def _start(self) -> tuple[Server, ControlPlane]:
        settings = self._make_settings()
        server = self._open_server(settings)
        control = ControlPlane(server, self._group_removals)
        try:
            [listener] = settings.listeners
            await server.listen({listener.name: [bound.dup() for bound in self._sockets]})
        except BaseException:
            control.close()
            server.abandon()
            raise
        try:
            for name, address in self._advertised.items():
                server.listeners.set_advertised_address(name, address)
            await server.ready.wait()
            if self._topics:
                await control.topics.create_topics(self._topics)
        except BaseException:
            await _stop_broker(server, control, None)
            raise
        return server, control

    async def reset(self, forget: Callable[[], Awaitable[None]], by: str | None) -> None:
        """Close all connections and replace the server by a new one. `forget` deletes the files of the old one;
        `by` is the operator's name, if known. Raises as `open`; the namespace has no server then."""
        shards = [partition.machine for partition in self.server.runtime.partitions]
        group_ids = [group_id for shard in shards if shard is not None for group_id in shard.list_group_ids()]
        self._group_removals.on_namespace_reset(self.name, group_ids, by)
        try:
            await _stop_broker(self.server, self.control, None)
            await forget()
        except BaseException:
            self._close_sockets()
            raise
        await self.open()
        self.touch()

    async def close(self, *, keeps_files: bool) -> None:
        """Stop the broker. `keeps_files` keeps files that are on the disk. Raises OSError, StorageError."""
        try:
            await _stop_broker(
                self.server,
                self.control,
                f"namespace {self.name}" if keeps_files and self._is_durable else None,
            )
        finally:
            self._close_sockets()

    def _close_sockets(self) -> None:
        for bound in self._sockets:
            bound.close()

    def advertise(self, addresses: Mapping[str, Address]) -> None:
        """Change the advertised addresses for new connections, also after a reset. `addresses` is by listener."""
        for name, address in addresses.items():
            self.server.listeners.set_advertised_address(name, address)
            self._advertised[name] = address


async def _stop_broker(server: Server, control: ControlPlane, ended_scope: str | None) -> None:
    """Stop a server and its control plane. `ended_scope` names in the log the owner of the clocks that end
    although files remain; None if the files are deleted as well. Raises OSError, StorageError."""
    control.close(ended_scope)
    await server.close()
    await control.finish()


_DEFAULTS: Final = {"oracle.commits": "true"}
"""The defaults that differ from the daemon's, because a namespace is meant for a test."""
_FIXED: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
_IN_MEMORY: Final = {"log.flush": "os", "log.journal.file.bytes": "0"}
"""Settings for files in memory, where a sync has no effect and only takes time."""
_DAEMON_PROPERTIES: Final = list_property_names(
    SecurityProperties, ClusterProperties, NamespaceProperties
) - {"broker.rack"} | {"socket.listen.backlog.size"}
"""The properties that have no effect in a namespace. It has no security and no cluster, and the daemon opens its
port."""
_DAEMON_PREFIXES: Final = (
    *("listener", "advertised.listeners", "controller.listener", "early.start.listeners"),
    *("http.", "control.", "log.dir", "ledger.file", "node.id", "broker.id"),
)
"""Prefixes of further such properties: the daemon chooses the ports and directories of a namespace."""


def build_settings(
    daemon: ServerSettings,
    given: Mapping[str, str],
    address: Address,
    files: Files,
    data_dir: str,
    *,
    in_memory: bool,
) -> ServerSettings:
    """Return the settings of a namespace.

    Args:
        daemon: The settings of the daemon.
        given: The properties of the namespace.
        address: The address to listen on.
        files: The files of the namespace.
        data_dir: The directory in `files`.
        in_memory: Whether the files are in memory.

    Raises:
        ConfigError: a property has no effect in a namespace, or its value is invalid.
    """
    for name in given:
        if _is_daemon_property(name):
            raise ConfigError(
                f"{name} has no effect in a namespace, which has no security and no cluster, and gets its "
                "ports and directories from the daemon. Remove it, or set it for the daemon",
                name,
            )
        if is_ignored_property(name):
            raise ConfigError(f"{name} has no effect in groupd. Remove it", name)
        if not is_property(name):
            raise ConfigError(format_unknown_property(name), name)
    inherited = {name: text for name, text in daemon.properties.items() if not _is_daemon_property(name)}
    requested = {SYNONYMS.get(name, name): text for name, text in given.items()}
    texts = _DEFAULTS | inherited | _FIXED | (_IN_MEMORY if in_memory else {}) | requested
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


def _is_daemon_property(name: str) -> bool:
    return name in _DAEMON_PROPERTIES or name.startswith(_DAEMON_PREFIXES)
