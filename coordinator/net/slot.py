"""A place in the order of a connection's answers.

Answers leave a connection in the order of its requests. A request that cannot be answered at once takes a slot;
later answers wait behind it, in slots of their own, until it is filled.
"""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from coordinator.net.api_counts import ApiCounts


class AnswerForm(Protocol):
    """How the answers of one version of one API are written, and counted."""

    @property
    def version(self) -> int:
        """Of the API."""

    @property
    def counts(self) -> ApiCounts:
        """Of the API."""

    def write(
        self, response: Any, correlation_id: int, out: bytearray, most_bytes: int | None = None
    ) -> None:
        """Appends the frame of a response, size included. Raises TooLong for more than `most_bytes`; None: for more
        than may be written while others wait."""


class SlotOwner(Protocol):
    """Whoever sends what slots are filled with."""

    @property
    def peer(self) -> str:
        """Host and port, for a log line."""

    @property
    def answer_bytes(self) -> int:
        """The size of the answers that have not left yet."""

    @property
    def read_bytes(self) -> int:
        """How many bytes have left, all in all."""

    def fill(self, slot: "Slot", response: object) -> None:
        """Takes the answer of a slot, once. Never raises."""

    def fill_written(self, slot: "Slot", frame: bytearray) -> None:
        """Takes the same, as it is sent."""

    def park(self, slot: "Slot") -> None:
        """Has a slot park that did not."""

    def close(self) -> None:
        """Closes the connection when what it has to send is sent."""

    def abort(self) -> None:
        """Closes it at once."""

    def has_failed(self, problem: Exception) -> None:
        """There is no answer: the connection is closed."""


class Slot(Struct, eq=False):
    """One open answer. `parks`: nothing else of this connection is processed until it is filled."""

    owner: SlotOwner
    form: AnswerForm
    correlation_id: int
    parks: bool
    opened_ns: int
    data: bytes | bytearray | None = None
    """The frame to send, once there is one; empty for no answer at all."""
    finish: Callable[[Any], object] | None = None
    """What makes the answer for this client of the one that comes."""
    request: object = None
    """What is being answered, for the case that there will be no answer."""
    registry: dict[int, Any] | None = None
    """Where the slot waits, as `waiter`."""
    waiter: int = 0
    ends: bool = False
    """Whether it is filled soon whatever anybody else does: the daemon is at work on it."""
    done: Callable[[], object] | None = None
    """Called when the daemon is no longer at work on the request, also where nobody waits for it any more; None
    where nobody calls it, since the request is let go of at once."""
    dropped: Callable[[], object] | None = None
    """Called when the connection is lost before the slot is filled."""

    @property
    def api_version(self) -> int:
        """Of the request."""
        return self.form.version

    def fill(self, response: object) -> None:
        """Gives the slot its answer, once; nothing happens when its connection is gone. Never raises."""
        self.owner.fill(self, response)

    def drop(self) -> None:
        """The connection is lost: nobody waits here any more."""
        if self.registry is not None:
            self.registry.pop(self.waiter, None)
        if self.dropped is not None:
            self.dropped()
