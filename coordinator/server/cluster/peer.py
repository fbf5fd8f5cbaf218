"""A connection to another broker of the cluster: one question after the other, in Kafka's protocol.

Source: Kafka's `InterBrokerSendThread`, `NetworkClient`.
"""

import asyncio
from typing import Any, Final

from protocol.apis import APIS
from protocol.codec import decode
from protocol.framing import encode_request, response_body_position
from protocol.malformed import Malformed
from protocol.schema import message_info
from storage.os_error import reason_of

_MOST_BYTES: Final = 64 << 20
_CONNECT_S: Final = 2.0
ANSWER_S: Final = 5.0
"""As long as an answer is waited for. Whoever asks asks again, maybe another broker."""


class Unreachable(Exception):
    """A broker did not answer; whether it did what was asked is not known."""


class Peer:
    """Opened with the first question, and anew after a failure. One question at a time is the caller's business."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._address: tuple[str, int] | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._correlation_id = 0

    async def ask(self, address: tuple[str, int], request: Any, version: int) -> Any:
        """The answer. In: where that broker is now. Raises Unreachable."""
        try:
            reader, writer = await self._opened(address)
            async with asyncio.timeout(ANSWER_S):
                return await self._ask(reader, writer, request, version)
        except (OSError, EOFError, Malformed, TimeoutError) as error:
            self.close()
            reason = reason_of(error) or type(error).__name__
            raise Unreachable(f"{address[0]}:{address[1]}: {reason}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Lets go of the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _opened(self, address: tuple[str, int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and (self._address != address or self._streams[0].at_eof()):
            self.close()
        if self._streams is None:
            async with asyncio.timeout(_CONNECT_S):
                self._streams = await asyncio.open_connection(*address)
            self._address = address
        return self._streams

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Any, version: int
    ) -> Any:
        key = message_info(type(request)).api_key
        self._correlation_id += 1
        writer.write(encode_request(key, version, self._correlation_id, self._client_id, request))
        await writer.drain()
        size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
        if not 4 <= size <= _MOST_BYTES:
            raise Malformed(f"it announced an answer of {size} bytes")
        frame = await reader.readexactly(size)
        if int.from_bytes(frame[:4], "big") != self._correlation_id:
            raise Malformed("it answered another question")
        return decode(APIS[key].response, version, frame, response_body_position(key, version, frame))
