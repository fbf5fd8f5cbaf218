"""Stands between clients and a broker, passes on what each says and writes it down.

The broker advertises the proxy's address, so that whatever a client learns leads it back here. One thread does
everything: what arrives first is passed on first, on whichever connection it came.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.framing import UnknownApi, UnsupportedVersion, parse_request_header
from protocol.primitives import Malformed
from tests.frames.recording import Exchange

_AT_ONCE_BYTES: Final = 1 << 16
_MAX_FRAME_BYTES: Final = 1 << 24
_BEFORE_BARE_TOKENS: Final = (ApiKey.SASL_HANDSHAKE, 0)
"""What follows has no headers, until the client is let in."""
_UNSUPPORTED: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


@dataclass
class Conversation:
    """All bytes of one connection."""

    client: str
    sent: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)

    def exchanges(self) -> Iterator[Exchange]:
        """Every request that had an answer, as far as the bytes are frames and the API is one of ours."""
        answers = {frame[:4]: frame for frame in _frames(self.received)}
        times = Counter(request[4:8] for request in _frames(self.sent))
        for request in _frames(self.sent):
            # Nobody knows which of two with one correlation id an answer is to.
            response = answers.get(request[4:8]) if times[request[4:8]] == 1 else None
            try:
                header = parse_request_header(request)
            except (UnknownApi, UnsupportedVersion):
                continue
            except Malformed:
                return
            if response is None:
                continue
            if header.api_key == ApiKey.API_VERSIONS and response[4:6] == _UNSUPPORTED:
                continue  # the response has the format of version 0, whatever the request's version
            yield Exchange(self.client, APIS[header.api_key], header.api_version, request, response)
            if (header.api_key, header.api_version) == _BEFORE_BARE_TOKENS:
                return


def _frames(data: bytes | bytearray) -> Iterator[bytes]:
    position = 0
    while position + 4 <= len(data):
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        end = position + 4 + size
        if not 4 <= size <= _MAX_FRAME_BYTES or end > len(data):
            return
        yield bytes(data[position + 4 : end])
        position = end


class Proxy:
    """A proxy on a port of the loopback."""

    def __init__(self, port: int, upstream: str) -> None:
        """Create a proxy on `port` for the broker at `upstream`, HOST:PORT."""
        self.client = ""
        """The client of new connections; connections without a client are not recorded."""
        self.conversations: list[Conversation] = []
        self._host, _, self._port = upstream.rpartition(":")
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", port))
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends every connection."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        conversation = Conversation(self.client)
        if self.client:
            self.conversations.append(conversation)
        try:
            broker_reader, broker_writer = await asyncio.open_connection(self._host, int(self._port))
            await asyncio.gather(
                _pass_on(reader, broker_writer, conversation.sent),
                _pass_on(broker_reader, writer, conversation.received),
            )
        except ConnectionError:
            writer.close()
        finally:
            self._tasks.discard(task)


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, kept: bytearray) -> None:
    """Until one side ends; then the other ends too."""
    try:
        while data := await source.read(_AT_ONCE_BYTES):
            kept += data
            target.write(data)
            await target.drain()
    finally:
        target.close()
