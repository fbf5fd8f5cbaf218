"""Connections, which deliver requests and responses in order, but may delay, lose and repeat them.

As over TCP, a message is lost only with its connection. A repeated request arrives over another connection, as from
a client that timed out and repeated its request.
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
        """Handle a request that has arrived."""

    def lost(self, connection: "Connection") -> None:
        """Handle the end of a connection."""


@dataclass(slots=True)
class Weather:
    """The probabilities of network faults, and the delays."""

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
        """Send a request. It may break the connection, or arrive a second time over another connection."""
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
        """Send a response to the client."""
        if not self.open or request.reply is None:
            return
        self._back_ms = self._arrival(self._back_ms)
        self._world.after(self._back_ms - self._world.now_ms, lambda: self._return(request, response))

    def close(self) -> None:
        """Close the connection and lose messages in flight. The server notices at once, the client later."""
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
