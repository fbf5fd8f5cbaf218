"""One namespace: a server, and the control room about it, on sockets that outlive both."""

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from coordinator import clock
from coordinator.config.listeners import Address
from coordinator.control.group_removals import GroupRemovals
from coordinator.server.server import Server
from coordinator.server.settings import ServerSettings

if TYPE_CHECKING:
    from coordinator.control.control import Control

MakeSettings = Callable[[], ServerSettings]
"""Makes the settings of a new server, with files that have nothing, or what was kept."""


class Namespace:
    """Made by `open`, gone after `close`. All methods belong to the event loop's thread."""

    def __init__(
        self,
        name: str,
        sockets: Sequence[socket.socket],
        make_settings: MakeSettings,
        topics: Mapping[str, int],
        make_server: Callable[[ServerSettings], Server],
        make_control: Callable[[Server, GroupRemovals], "Control"],
        *,
        is_durable: bool,
    ) -> None:
        """In: sockets that are bound, which belong to it from now on; the partitions of the topics that it begins
        with; whether its files are on the disk."""
        self.name: Final = name
        self.created_ms: Final = clock.wall_ms()
        self._sockets = sockets
        self._make_settings = make_settings
        self._topics = topics
        self._make_server = make_server
        self._make_control = make_control
        self._group_removals = GroupRemovals()
        self._is_durable = is_durable
        self._touched_ms = clock.monotonic_ms()
        self._advertised: dict[str, Address] = {}
        self._control: Control | None = None

    @property
    def control(self) -> "Control":
        """The control room; that of the old server until a reset is through."""
        assert self._control is not None, "opened"
        return self._control

    @property
    def server(self) -> Server:
        """The same of the server."""
        return self.control.server

    # Whether anybody is there

    def touch(self) -> None:
        """Somebody has asked for it."""
        self._touched_ms = clock.monotonic_ms()

    def idle_ms(self) -> int:
        """How long nobody has been connected, and nobody has asked."""
        if self.server.connections.open:
            self.touch()
        return clock.monotonic_ms() - self._touched_ms

    # Its life

    async def open(self) -> None:
        """Starts a server, and waits until it is ready and has its topics. Raises StartFailed and Problem; then
        nothing is left of it."""
        try:
            self._control = await self._start()
        except BaseException:
            self._close_sockets()
            raise

    async def _start(self) -> "Control":
        settings = self._make_settings()
        server = self._make_server(settings)
        server.open()
        control = self._make_control(server, self._group_removals)
        try:
            [listener] = settings.listeners
            await server.listen({listener.name: [bound.dup() for bound in self._sockets]})
        except BaseException:
            control.close()
            server.abandon()
            raise
        try:
            for name, address in self._advertised.items():
                server.listeners.advertise(name, address)
            await server.ready.wait()
            if self._topics:
                await control.topics.make_all(self._topics)
        except BaseException:
            await _stop(control, None)
            raise
        return control

    async def reset(self, forget: Callable[[], Awaitable[None]], by: str | None) -> None:
        """Close all connections and replace the server by a new one. `forget` deletes the files of the old one;
        `by` is the operator's name, if known. Raises as `open`; the namespace has no server then."""
        shards = [partition.machine for partition in self.server.runtime.partitions]
        group_ids = [group_id for shard in shards if shard is not None for group_id in shard.group_ids()]
        self._group_removals.on_namespace_reset(self.name, group_ids, by)
        try:
            await _stop(self.control, None)
            await forget()
        except BaseException:
            self._close_sockets()
            raise
        await self.open()
        self.touch()

    async def close(self, *, keeps_files: bool) -> None:
        """Stops it. In: whether files that are on the disk stay there. Raises what the disk refused."""
        try:
            await _stop(self.control, f"namespace {self.name}" if keeps_files and self._is_durable else None)
        finally:
            self._close_sockets()

    def _close_sockets(self) -> None:
        for bound in self._sockets:
            bound.close()

    def advertise(self, addresses: Mapping[str, Address]) -> None:
        """Clients that connect from now on are told to come there, also after a reset. In: by listener, of those
        that there are."""
        for name, address in addresses.items():
            self.server.listeners.advertise(name, address)
            self._advertised[name] = address


async def _stop(control: "Control", ends: str | None) -> None:
    """Stops a server, and the control room about it. In: see `Control.close`. Raises what the disk refused."""
    control.close(ends)
    await control.server.close()
    await control.finish()
