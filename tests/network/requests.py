"""Stand-ins for connections, contexts and replies of requests, and authenticated clients."""

import asyncio

import pytest
from msgspec.structs import replace

from coordinator.core.reply import Reply
from coordinator.core.shared_types import NO_NODE
from coordinator.network.client_connection import Connection
from coordinator.network.request_context import ClientInfo, QueuedReply, ResponseEncoder
from coordinator.security.core.principal import ANONYMOUS, USER, Principal

TIMEOUT_S = 60
CLIENT = ClientInfo(
    client_id="client",
    host="/127.0.0.1",
    connection_id=1,
    principal=ANONYMOUS,
    node=NO_NODE,
    peer="127.0.0.1:1",
)


class AwaitedReply(Reply):
    """A reply that a test waits for."""

    blocks: bool
    response: asyncio.Future[object]

    def send(self, response: object) -> None:
        self.response.set_result(response)

    def fail(self, problem: Exception) -> None:
        self.response.set_exception(problem)

    @property
    def is_sent(self) -> bool:
        """Whether the response is there."""
        return self.response.done()

    async def wait(self) -> object:
        """Return the response when it is there."""
        return await asyncio.wait_for(self.response, TIMEOUT_S)


class Deferral:
    """Opens the reply of one request."""

    def __init__(self) -> None:
        self._reply: AwaitedReply | None = None

    def defer(self, blocks: bool) -> Reply:
        """Open the reply, once."""
        assert self._reply is None
        self._reply = AwaitedReply(blocks, asyncio.get_running_loop().create_future())
        return self._reply

    @property
    def reply(self) -> AwaitedReply:
        """The reply; the request was not answered at once."""
        assert self._reply is not None
        return self._reply


class StandInConnection:
    """A connection without an encoder. Tests override its methods."""

    client = CLIENT

    def __init__(self) -> None:
        self.answer_bytes = 0
        self.read_bytes = 0

    def open_reply(self, encoder: ResponseEncoder, correlation_id: int, blocks: bool) -> QueuedReply:
        return QueuedReply(self, encoder, correlation_id, blocks, opened_ns=1)

    def block(self, reply: QueuedReply) -> None:
        reply.blocks = True

    def add_frame(self, reply: QueuedReply, frame: bytearray) -> None:
        self.answer_bytes += len(frame)

    def encode_in_thread(self, reply: QueuedReply, response: object) -> None:
        raise AssertionError("no response is too long")

    def fail(self, problem: Exception) -> None:
        raise problem

    def close(self) -> None:
        raise AssertionError("the connection stays open")

    def abort(self) -> None:
        self.answer_bytes = 0


def trust_client_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the client id of each plain connection its principal."""
    set_client_id = Connection._set_client_id

    def set_both(connection: Connection, raw: bytes, length: int) -> None:
        set_client_id(connection, raw, length)
        if type(connection) is Connection:
            principal = Principal(USER, connection.client.client_id)
            connection.client = replace(connection.client, principal=principal)

    monkeypatch.setattr(Connection, "_set_client_id", set_both)
