"""A raw Kafka connection for set-up: one request at a time, with decoded responses."""

import asyncio
from struct import Struct
from typing import Any, Final, TypeVar, cast

from benchmarks.process import Server
from protocol.codec import decode
from protocol.framing import encode_request, response_body_position
from protocol.schema import message_info

_INT32: Final = Struct(">i")
CORRELATION_ID: Final = 7

T = TypeVar("T")


def encode_frame(message: Any, version: int) -> bytes:
    """Encode a request with its size prefix. The correlation id is constant."""
    return bytes(
        encode_request(message_info(type(message)).api_key, version, CORRELATION_ID, "bench", message)
    )


class Connection(asyncio.Protocol):
    """A connection that waits for each response."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._received = bytearray()
        self._waiting: asyncio.Future[bytes] | None = None

    @classmethod
    async def open(cls, server: Server) -> "Connection":
        """Connect, and log in if the listener requires it."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, server.host, server.port, ssl=server.login.tls)
        await server.login.log_in(connection)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport but do not inherit from it.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) >= 4:
            end = 4 + _INT32.unpack_from(self._received)[0]
            if len(self._received) >= end:
                frame = bytes(self._received[:end])
                del self._received[:end]
                waiting, self._waiting = self._waiting, None
                assert waiting is not None, "an answer that nobody asked for"
                if not waiting.cancelled():
                    waiting.set_result(frame)

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError(f"closed by the server: {error}"))

    async def exchange(self, frame: bytes) -> bytes:
        """Send a frame and return the response frame, both with size prefix."""
        assert self._waiting is None, "one request at a time"
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(frame)
        return await self._waiting

    async def request(self, message: Any, version: int, response: type[T]) -> T:
        """Send a request and return the decoded response."""
        frame = (await self.exchange(encode_frame(message, version)))[4:]
        position = response_body_position(message_info(type(message)).api_key, version, frame)
        return decode(response, version, frame, position)
