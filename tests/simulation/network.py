"""Connections: requests go one way in order, responses the other; any of it may be late, lost or repeated.

As over TCP, a message is lost only with its connection. A repeated one comes on a connection of its own, as
from a client that gave up waiting and asked again elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tests.simulation.world import World


@dataclass(slots=True)
class Request:
    """An encoded request in flight, with the data for decoding its response.

    A request with owned partitions is not repeated later: it would be outdated, and no protocol could detect that.
    """

    api: type[Any]
    version: int
    body: bytes
    client_id: str
    reply: Callable[[Any], None] | None
    answered: bool = False
    may_repeat: bool = True


class Receiver(Protocol):
    """The far end of a connection."""

    def receive(self, connection: "Connection", request: Request) -> None:
        """A request has arrived."""

    def lost(self, connection: "Connection") -> None:
        """The connection is closed."""


@dataclass(slots=True)
class Weather:
    """How bad the network is."""

    delay_ms: tuple[int, int] = (0, 20)
    breaks: float = 0.0
    repeats: float = 0.0


class Connection:
    """The connection of one client; it calls `broken` once when it is closed."""

    def __init__(
        self, world: World, far: Receiver, weather: Weather, broken: Callable[["Connection"], None]
    ) -> None:
        self._world = world
        self._far = far
        self._weather = weather
        self._broken = broken
        self._there_ms = 0
        self._back_ms = 0
        self.open = True

    def send(self, request: Request) -> None:
        """Let a request travel; it may break the connection, or arrive once more from elsewhere."""
        if not self.open:
            return
        self._there_ms = self._arrival(self._there_ms)
        self._world.after(self._there_ms - self._world.now_ms, lambda: self._arrive(request))
        if self._world.chance(self._weather.breaks):
            self._world.after(self._world.random.randint(0, 50), self.close)
        if request.may_repeat and self._world.chance(self._weather.repeats):
            twin = Request(request.api, request.version, request.body, request.client_id, None)
            other = Connection(self._world, self._far, self._weather, lambda _: None)
            self._world.after(self._world.random.randint(0, 2_000), lambda: other._arrive(twin))

    def answer(self, request: Request, response: Any) -> None:
        """Let a response travel back."""
        if not self.open or request.reply is None:
            return
        self._back_ms = self._arrival(self._back_ms)
        self._world.after(self._back_ms - self._world.now_ms, lambda: self._return(request, response))

    def close(self) -> None:
        """Break the connection.

        messages in flight are lost. The server learns at once, the client a little later.
        """
        if self.open:
            self.open = False
            self._far.lost(self)
            self._world.after(self._world.random.randint(*self._weather.delay_ms), lambda: self._broken(self))

    def _arrival(self, earliest_ms: int) -> int:
        return max(earliest_ms, self._world.now_ms + self._world.random.randint(*self._weather.delay_ms))

    def _arrive(self, request: Request) -> None:
        if self.open:
            self._far.receive(self, request)

    def _return(self, request: Request, response: Any) -> None:
        if self.open and not request.answered and request.reply is not None:
            request.answered = True
            request.reply(response)
