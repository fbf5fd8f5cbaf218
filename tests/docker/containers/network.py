"""Networks of containers: namespaces with a loopback interface each, and forwarded ports between them."""

import asyncio
import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Self

_NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET
_SET_FLAGS: Final = 0x8914  # SIOCSIFFLAGS
_SET_ADDRESS: Final = 0x8916  # SIOCSIFADDR
_UP: Final = 0x1 | 0x40  # IFF_UP, IFF_RUNNING
_CHUNK: Final = 1 << 16
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
LOCALHOST: Final = "127.0.0.1"


class NetworkNamespace:
    """A network of its own with nothing but the loopback interface."""

    def __init__(self) -> None:
        with _restored():
            _check(_LIBC.unshare(_NEW_NETWORK))
            self.descriptor: Final = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            self._configure(_SET_FLAGS, b"lo", struct.pack("h", _UP))

    @property
    def path(self) -> str:
        """The path by which other programs enter the namespace."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def add_address(self, address: str) -> None:
        """Add an address besides 127.0.0.0/8 to the loopback interface."""
        with self.entered():
            value = struct.pack("hH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
            self._configure(_SET_ADDRESS, b"lo:1", value)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Enter the namespace with this thread. Sockets that are opened inside stay in it."""
        with _restored():
            _check(_LIBC.setns(self.descriptor, _NEW_NETWORK))
            yield

    def close(self) -> None:
        """Give the namespace up. It ends with its last process and socket."""
        os.close(self.descriptor)

    @staticmethod
    def _configure(operation: int, interface: bytes, value: bytes) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, operation, struct.pack("16s24s", interface, value))


class ForwardedPort:
    """A forwarded port. Its listening socket belongs to the thread of the forwarder."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: socket.socket) -> None:
        self.port: Final = int(server.getsockname()[1])
        self._loop = loop
        self._server = server

    def close(self) -> None:
        """Stop listening. New connections are refused once this has returned."""
        asyncio.run_coroutine_threadsafe(self._close_in_loop(), self._loop).result()

    async def _close_in_loop(self) -> None:
        """Stop listening, in the thread of the forwarder."""
        if self._server.fileno() >= 0:
            self._loop.remove_reader(self._server)
            self._server.close()


class PortForwarder:
    """Forwards TCP connections from a port in one namespace to a port in another, in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._ports: list[ForwardedPort] = []
        self._relays: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for port in self._ports:
            port.close()
        asyncio.run_coroutine_threadsafe(self._cancel_relays(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def forward(
        self,
        source: NetworkNamespace | None,
        listen: tuple[str, int],
        target: NetworkNamespace,
        connect: tuple[str, int],
    ) -> ForwardedPort:
        """Listen on an address. `source` None is the network of this process."""
        with source.entered() if source else _restored():
            server = socket.create_server(listen)
        server.setblocking(False)

        # `sock_accept` would lose a connection that arrives while it is cancelled; a removed reader accepts none.
        def accept() -> None:
            with suppress(BlockingIOError, ConnectionAbortedError):
                connection, _ = server.accept()
                task = self._loop.create_task(self._relay(connection, target, connect))
                self._relays.add(task)
                task.add_done_callback(self._relays.discard)

        self._loop.call_soon_threadsafe(self._loop.add_reader, server, accept)
        port = ForwardedPort(self._loop, server)
        self._ports.append(port)
        return port

    async def _relay(
        self, connection: socket.socket, target: NetworkNamespace, connect: tuple[str, int]
    ) -> None:
        connection.setblocking(False)
        with target.entered():
            upstream = socket.socket()
        upstream.setblocking(False)
        with connection, upstream:
            try:
                await self._loop.sock_connect(upstream, connect)
                # Neither socket may be closed while a pump waits for it: the loop would watch a later socket with
                # the same number in its place.
                async with asyncio.TaskGroup() as pumps:
                    pumps.create_task(self._pump(connection, upstream))
                    pumps.create_task(self._pump(upstream, connection))
            except* OSError:
                pass  # a reset connection ends

    async def _pump(self, source: socket.socket, target: socket.socket) -> None:
        while data := await self._loop.sock_recv(source, _CHUNK):
            await self._loop.sock_sendall(target, data)
        target.shutdown(socket.SHUT_WR)

    async def _cancel_relays(self) -> None:
        relays = list(self._relays)
        for relay in relays:
            relay.cancel()
        await asyncio.gather(*relays, return_exceptions=True)


@contextmanager
def _restored() -> Iterator[None]:
    """Return to the namespace of this thread at the end."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        yield
    finally:
        try:
            _check(_LIBC.setns(own, _NEW_NETWORK))
        finally:
            os.close(own)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
