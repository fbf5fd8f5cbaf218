"""Brings what this broker asks of others to them: what gathers for one while it has not answered goes with the
next request. Nothing is repeated here; who asked is told that there was no answer.

Source: Kafka's `TransactionMarkerChannelManager`, `AddPartitionsToTxnManager`, which have a connection of their own
to each broker, too.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from coordinator.server.cluster.peer import Peer
from coordinator.server.cluster.peer_security import (
    Denied,
    NotLetIn,
    PeerSecurity,
    Unanswered,
    Unreachable,
)

_LOG: Final = logging.getLogger("Cluster")
MOST_AT_ONCE: Final = 200
"""Items in one request."""
T = TypeVar("T")
A = TypeVar("A")


class Kind(NamedTuple, Generic[T, A]):
    """What is asked. `A` is what came of one item."""

    name: str
    """Who asks, as the other broker sees it."""
    version: int
    request: Callable[[Sequence[T]], Any]
    """Puts items into a request."""
    answers: Callable[[Sequence[T], Any], Sequence[A]]
    """Takes the same items, and the response: what it says of each. Raises Denied where it says
    that this broker may not ask."""
    unanswered: Callable[[T], A]
    """What is said of an item that nobody has answered."""
    tell: Callable[[T, A], None]


class Couriers(Generic[T, A]):
    """One for each broker, while there is something for it. All methods belong to the event loop's thread."""

    def __init__(
        self, kind: Kind[T, A], address: Callable[[int], tuple[str, int] | None], security: PeerSecurity
    ) -> None:
        """In: where a broker is, None where it does not live; what is shown to it."""
        self._kind = kind
        self._address = address
        self._security = security
        self._peers: dict[int, Peer] = {}
        self._in_line: dict[int, deque[T]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failing: dict[int, type[Unanswered]] = {}
        """Brokers of which it was told that they do not answer, or deny it."""
        self._is_closed = False

    def put(self, node_id: int, item: T) -> None:
        """Has something brought to a broker."""
        if self._is_closed:
            return
        self._in_line.setdefault(node_id, deque()).append(item)
        if node_id not in self._tasks:
            self._tasks[node_id] = asyncio.get_running_loop().create_task(self._work(node_id))

    def close(self) -> None:
        """Brings nothing any more; nobody is told."""
        self._is_closed = True
        for task in self._tasks.values():
            task.cancel()
        for peer in self._peers.values():
            peer.close()

    async def _work(self, node_id: int) -> None:
        in_line = self._in_line[node_id]
        while in_line:
            items = [in_line.popleft() for _ in range(min(len(in_line), MOST_AT_ONCE))]
            try:
                answers = await self._ask(node_id, items)
                self._failing.pop(node_id, None)
                self._security.let_in(node_id)
            except Unanswered as error:
                self._tell_failure(node_id, error)
                answers = [self._kind.unanswered(item) for item in items]
            except Exception as problem:  # noqa: BLE001 - who waits is told, and what is behind it is brought
                _LOG.error("%s: to broker %d", self._kind.name, node_id, exc_info=problem)
                answers = [self._kind.unanswered(item) for item in items]
            for item, answer in zip(items, answers, strict=True):
                self._tell(item, answer)
        # Here, and not when the task is done: what is put until then would wait for the next one.
        del self._tasks[node_id]

    def _tell_failure(self, node_id: int, error: Unanswered) -> None:
        """One line, however often that happens."""
        if isinstance(error, NotLetIn):
            self._failing.pop(node_id, None)
            self._security.refused(node_id, error)
        elif self._failing.get(node_id) is not type(error):
            self._failing[node_id] = type(error)
            if isinstance(error, Denied):
                _LOG.error("%s: broker %d denies what it is asked: %s", self._kind.name, node_id, error)
            else:
                _LOG.warning("%s: broker %d does not answer: %s", self._kind.name, node_id, error)

    async def _ask(self, node_id: int, items: Sequence[T]) -> Sequence[A]:
        address = self._address(node_id)
        if address is None:
            raise Unreachable("it does not live")
        peer = self._peers.setdefault(node_id, Peer(self._kind.name, self._security))
        response = await peer.ask(address, self._kind.request(items), self._kind.version)
        return self._kind.answers(items, response)

    def _tell(self, item: T, answer: A) -> None:
        try:
            self._kind.tell(item, answer)
        except Exception as problem:  # noqa: BLE001 - the others are told all the same
            _LOG.error("%s: what came of %r", self._kind.name, item, exc_info=problem)
