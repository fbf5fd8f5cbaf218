"""Connections that send invalid or excessive bytes."""

import asyncio
import contextlib
import socket
import struct
from typing import Any, Final, TypeVar

from protocol.apis import APIS
from protocol.codec import decode
from protocol.error_codes import ErrorCode
from protocol.framing import encode_request, response_body_position
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.schema import message_info
from tests.hostile.siege.place import PASSWORD, PLAIN, USER, Place

ANSWER_TIMEOUT_S: Final = 240
CLIENT_ID: Final = "attacker"

T = TypeVar("T")


def frame(request: Any, version: int, correlation_id: int = 1) -> bytes:
    """A request as it is sent. To be made before the attack: making it can take longer than answering it."""
    key = message_info(type(request)).api_key
    return bytes(encode_request(key, version, correlation_id, CLIENT_ID, request))


def read(response: type[T], version: int, answered: bytes | None) -> T:
    """An answer, decoded; there has to be one."""
    assert answered is not None, "the daemon has hung up"
    key = message_info(response).api_key
    return decode(response, version, answered, response_body_position(key, version, answered))


class Hostile:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait only for the socket. A connection that the daemon closes is not a failure."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError:
            pass

    async def answer(self) -> bytes | None:
        """The next frame, without its size; None when the daemon has hung up."""
        try:
            return await asyncio.wait_for(self._read(), ANSWER_TIMEOUT_S)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def _read(self) -> bytes:
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return await self._reader.readexactly(size)

    async def call(self, request: Any, version: int) -> Any:
        """Sends a request and reads its answer; None when the daemon has hung up."""
        await self.send(frame(request, version))
        answered = await self.answer()
        if answered is None:
            return None
        return read(APIS[message_info(type(request)).api_key].response, version, answered)

    async def end(self) -> None:
        """Reads until the daemon has hung up."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                while await self._reader.read(4096):
                    pass

    def throw(self, data: bytes) -> None:
        """Sends bytes, and waits for nothing at all."""
        self._writer.write(data)

    async def log_in(self, password: str = PASSWORD) -> bool:
        """Authenticates by SASL; whether it is let in."""
        answer = await self.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert answer.error_code == ErrorCode.NONE
        token = f"\0{USER}\0{password}".encode()
        answer = await self.call(SaslAuthenticateRequest(auth_bytes=token), 2)
        return answer is not None and bool(answer.error_code == ErrorCode.NONE)

    async def close(self) -> None:
        """Close the connection, with its unread bytes."""
        self._writer.transport.abort()

    async def reset(self) -> None:
        """Hangs up as a machine that has lost its memory does: with a RST."""
        linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        await self.close()


class Attacker:
    """Whoever sends it: as many connections as it takes."""

    def __init__(self, port: int, place: Place = PLAIN) -> None:
        self._port = port
        self._place = place
        self._tls = place.client_context()
        self._open: list[Hostile] = []

    async def connect(self, *, receive_bytes: int | None = None) -> Hostile:
        """Open a connection; `receive_bytes` bounds the bytes that are read ahead."""
        limit = {} if receive_bytes is None else {"limit": receive_bytes}
        opened = asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls, **limit)
        hostile = Hostile(*await asyncio.wait_for(opened, ANSWER_TIMEOUT_S))
        self._open.append(hostile)
        if self._place.logs_in:
            assert await hostile.log_in()
        return hostile

    async def connect_plain(self) -> Hostile:
        """A new connection that does not shake hands, nor log in."""
        hostile = Hostile(*await asyncio.open_connection("127.0.0.1", self._port))
        self._open.append(hostile)
        return hostile

    async def close(self) -> None:
        """Ends all of them."""
        for hostile in self._open:
            await hostile.close()
        self._open.clear()
