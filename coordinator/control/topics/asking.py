"""Requests to the data plane that come from people and not from a connection."""

import asyncio
from typing import Any, NamedTuple

from coordinator import clock
from coordinator.answers import PARKED
from coordinator.control.asking import CLIENT_HOST, CLIENT_ID
from coordinator.names import Node
from coordinator.net.api_counts import ApiCounts
from coordinator.net.slot import Slot
from coordinator.security.principal import ANONYMOUS
from coordinator.server.server import Server


class TopicAsker:
    """Puts requests to the topics of a server. All methods belong to the event loop's thread."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def ask(self, request: Any, api_name: str, api_version: int) -> Any:
        """Puts a request to the data plane, whose answer need not wait for records. Out: the response. A change
        that was begun comes to its end, whoever gives up waiting."""
        server = self._server
        server.arrival.advance(clock.monotonic_ns())
        asker = _Asker(api_name, api_version, Node(server.settings.config.node_id, "", -1))
        response = server.topics.handle(request, asker)
        return await asker.answer if response is PARKED else response


class _Asker:
    """A caller who asks once, and the owner of the slot that the answer comes to."""

    client_id = peer = CLIENT_ID
    client_host = CLIENT_HOST
    connection_id = 0
    principal = ANONYMOUS
    is_large = False
    answer_bytes = read_bytes = 0

    def __init__(self, api_name: str, api_version: int, node: Node) -> None:
        self.api_name = api_name
        self.api_version = api_version
        self.node = node
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answer_later(self, *, parks: bool) -> Slot:
        return Slot(self, _Unwritten(self.api_version), 0, parks, clock.monotonic_ns())

    def fill(self, slot: Slot, response: object) -> None:
        if not self.answer.done():
            self.answer.set_result(response)

    def fill_written(self, slot: Slot, frame: bytearray) -> None:
        raise AssertionError("no answer to a person is written as Kafka's")

    def park(self, slot: Slot) -> None:
        slot.parks = True

    def has_failed(self, problem: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(problem)

    def close(self) -> None:
        self.has_failed(ConnectionError("the server lets go of whoever asks"))

    abort = close


class _Unwritten(NamedTuple):
    """The form of an answer that stays a value."""

    version: int
    counts: ApiCounts = ApiCounts()

    def write(
        self, response: Any, correlation_id: int, out: bytearray, most_bytes: int | None = None
    ) -> None:
        raise AssertionError("no answer to a person is written as Kafka's")
