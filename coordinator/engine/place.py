"""Where the answer goes that a machine gives later."""

from collections.abc import Callable
from typing import Protocol


class Place(Protocol):
    """Takes one answer. The engine notes on it what is asked, and where it waits, as which waiter."""

    request: object
    registry: "dict[int, Place] | None"
    waiter: int

    @property
    def api_version(self) -> int:
        """Of the request."""

    def fill(self, response: object) -> None:
        """Takes the answer, once. Never raises."""


class Asker(Protocol):
    """Whoever puts a request to a machine."""

    def answer_later(self, *, parks: bool) -> Place:
        """There is no answer yet: where it goes when there is. `parks`: nothing else of this asker may be processed
        until then. Whoever no longer waits takes the place out of its registry."""


class Taker:
    """Asks once, and takes the answer itself: for whoever asks a machine on its own behalf."""

    __slots__ = ("_take", "api_version", "registry", "request", "waiter")

    def __init__(self, take: Callable[[object], None], api_version: int = 0) -> None:
        self._take = take
        self.api_version = api_version
        self.request: object = None
        self.registry: dict[int, Place] | None = None
        self.waiter = 0

    def answer_later(self, *, parks: bool) -> Place:
        """Here."""
        return self

    def fill(self, response: object) -> None:
        """See `Place`."""
        self._take(response)
