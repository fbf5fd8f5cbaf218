"""A connection with vices."""

import asyncio
from random import Random
from typing import Any, Final, Self

from protocol.apis import APIS
from protocol.codec import decode
from protocol.framing import encode_request, response_body_position
from protocol.schema import message_info

ANSWER_TIMEOUT_S: Final = 60
"""Longer than any request can be parked by a member of these plays."""


class Unanswered(AssertionError):
    """A request that got no answer, on a connection that the client did not close."""


class Wire:
    """One connection. Requests may be sent one after the other and read later, in order."""

    def __init__(self, chance: Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._chance = chance
        self._reader, self._writer = reader, writer
        self._sent: list[tuple[int, int, int]] = []
        self._correlation_id = chance.randrange(-(2**31), 2**31 - 10_000)

    @classmethod
    async def open(cls, chance: Random, port: int) -> Self:
        """Connects."""
        return cls(chance, *await asyncio.open_connection("127.0.0.1", port))

    async def send(self, request: Any, version: int, client_id: str | None) -> None:
        """Sends a request, whole or in pieces."""
        key = message_info(type(request)).api_key
        self._correlation_id += 1
        self._sent.append((key, version, self._correlation_id))
        frame = bytes(encode_request(key, version, self._correlation_id, client_id, request))
        if self._chance.random() < 0.1:
            cut = self._chance.randrange(1, len(frame))
            self._writer.write(frame[:cut])
            await asyncio.sleep(0.002)
            frame = frame[cut:]
        self._writer.write(frame)

    async def send_half(self, request: Any, version: int) -> None:
        """Sends the beginning of a request that will have no end."""
        frame = encode_request(message_info(type(request)).api_key, version, 0, "half", request)
        self._writer.write(bytes(frame[: self._chance.randrange(1, len(frame))]))
        await asyncio.sleep(0)

    async def receive(self) -> Any:
        """The next answer. Raises Unanswered."""
        key, version, correlation_id = self._sent.pop(0)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                frame = await self._reader.readexactly(size)
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError) as problem:
            raise Unanswered(f"{APIS[key].name} v{version}: {problem!r}") from problem
        found = int.from_bytes(frame[:4], "big", signed=True)
        assert found == correlation_id, f"answer {found} where {correlation_id} is due"
        return decode(APIS[key].response, version, frame, response_body_position(key, version, frame))

    async def dawdle(self) -> None:
        """Does not read for a moment."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(self._chance.random() * 0.05)
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    def vanish(self) -> None:
        """Close the connection abruptly. Unread bytes are lost."""
        self._writer.transport.abort()
