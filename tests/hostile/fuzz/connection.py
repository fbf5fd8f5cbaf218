"""A target that is a whole daemon: frames of any kind into a connection, and nothing may fail but the connection.

The daemon keeps its state from input to input, so that they meet groups and topics that others have left. Its files
are in memory, and there is no socket: what a connection writes goes nowhere.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from coordinator.net.connection import Connection
from coordinator.server.server import Server
from tests.frames.recording import read
from tests.hostile.fuzz.target import Target
from tests.server.harness import settings, start
from tests.storage.faulty_files import FaultyFiles

_TURNS = 3
"""Of the loop, after each input: enough for the disk, which is memory, and for the answers that waited for it."""


class Nowhere(asyncio.Transport):
    """The other end of a connection without a socket."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.1.2.3", 4567), "sockname": ("127.0.0.1", 9092)})
        self.written_bytes = 0
        self._is_closing = False

    def write(self, data: Any) -> None:
        assert not self._is_closing, "written to after it was closed"
        self.written_bytes += len(data)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    abort = close

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """There is nobody to stop."""

    def resume_reading(self) -> None:
        """There is nobody to start."""


class _Failures(logging.Handler):
    """Keeps what was logged with an exception: what no peer should be able to cause."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


class House:
    """A daemon, and connections to it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._failures = _Failures()
        logging.getLogger().addHandler(self._failures)
        properties = {"auto.create.topics.enable": "false", "max.incremental.fetch.session.cache.slots": "10"}
        self._loop.set_exception_handler(
            lambda _, context: self._failures.found.append(f"{context.get('exception')!r}")
        )
        self._server: Server = self._loop.run_until_complete(
            start(settings("/data", properties, topics=[("orders", 2)], files=FaultyFiles()))
        )

    def close(self) -> None:
        """Stops the daemon, which has to be able to."""
        self._loop.run_until_complete(self._server.close())
        self._loop.close()
        logging.getLogger().removeHandler(self._failures)

    def feed(self, frame: bytes) -> None:
        """A connection that sends one frame, in two pieces, and goes."""
        self._failures.found.clear()
        connection = Connection(self._server.endpoints[0], ("10.1.2.3", 4567))
        assert self._server.connections.admit(connection) is None
        transport = Nowhere()
        connection.connection_made(transport)
        data = len(frame).to_bytes(4, "big") + frame
        for part in (data[: len(data) // 2], data[len(data) // 2 :]):
            if not transport.is_closing():
                connection.data_received(part)
        self._loop.run_until_complete(self._turns())
        connection.connection_lost(None)
        assert not self._failures.found, self._failures.found
        assert connection not in self._server.connections.open
        # What has begun to change something goes on, and keeps the memory of its request until then.
        while self._server.topics.underway:
            self._loop.run_until_complete(self._turns())
        assert self._server.connections.memory.taken_bytes == 0

    async def _turns(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)


@contextmanager
def connection_target() -> Iterator[Target]:
    """The target; the daemon behind it runs as long as the context."""
    seeds = {(one.api.key, one.version): one.request for one in read()}
    house = House()
    try:
        # What an input does depends on what others have left: the bounds are for what runs away.
        yield Target(
            "connection",
            tuple(seeds.values()),
            house.feed,
            (),
            steps_a_byte=20_000,
            bytes_a_byte=20_000,
        )
    finally:
        house.close()
