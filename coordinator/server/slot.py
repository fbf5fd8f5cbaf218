"""A place in the order of a connection's answers.

Answers leave a connection in the order of its requests. A request that cannot be answered at once takes a slot;
later answers wait behind it, in slots of their own, until it is filled.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from coordinator.server.connection import Connection
    from coordinator.server.route import Route


class Silence:
    """Stands for "no answer" where an answer is expected."""


NO_ANSWER: Final = Silence()
"""A request that is answered with nothing at all (Produce with acks 0)."""

GOODBYE: Final = Silence()
"""The connection is closed instead of an answer."""


class Answerable(Protocol):
    """Whatever takes one answer."""

    def fill(self, response: object) -> None:
        """Takes it."""


class Awaiting(Answerable, Protocol):
    """Whoever waits for an answer, with the request, for the case that there will be none."""

    @property
    def request(self) -> object:
        """What was asked."""

    @property
    def api_version(self) -> int:
        """In which version."""


class Slot:
    """One open answer. `parks`: nothing else of this connection is processed until it is filled."""

    __slots__ = (
        "connection",
        "correlation_id",
        "data",
        "dropped",
        "finish",
        "opened_ns",
        "parks",
        "registry",
        "request",
        "route",
        "waiter",
    )

    def __init__(
        self, connection: "Connection", route: "Route", correlation_id: int, parks: bool, opened_ns: int
    ) -> None:
        self.connection = connection
        self.route = route
        self.correlation_id = correlation_id
        self.parks = parks
        self.opened_ns = opened_ns
        self.data: bytes | bytearray | None = None
        """The frame to send, once there is one; empty for no answer at all."""
        self.request: object = None
        """What is being answered, for the case that there will be no answer."""
        self.finish: Callable[[object], object] | None = None
        """What makes the answer for this client of the one that comes."""
        self.registry: dict[int, Awaiting] | None = None
        """Where the slot waits, as `waiter`."""
        self.waiter = 0
        self.dropped: Callable[[], None] | None = None
        """Called when the connection is lost before the slot is filled."""

    @property
    def api_version(self) -> int:
        """Of the request."""
        return self.route.version

    def fill(self, response: object) -> None:
        """Gives the slot its answer, once; nothing happens when its connection is gone. Never raises."""
        self.connection.fill(self, response)

    def drop(self) -> None:
        """The connection is lost: nobody waits here any more."""
        if self.registry is not None:
            self.registry.pop(self.waiter, None)
        if self.dropped is not None:
            self.dropped()
