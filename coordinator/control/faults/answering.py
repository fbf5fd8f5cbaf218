"""Callers and owners of slots that let a fault in between: a request that is reached late, an answer on its way."""

from collections.abc import Callable

from coordinator.answers import NO_ANSWER
from coordinator.names import Node
from coordinator.net.caller import Caller
from coordinator.net.slot import Slot, SlotOwner
from coordinator.security.principal import Principal

Answered = Callable[[Slot, object], None]
"""Takes a slot, and the answer that was to fill it."""


class LateCaller:
    """Who sent a request that is answered later than it came: its slot is taken already."""

    __slots__ = (
        "api_name",
        "api_version",
        "client_host",
        "client_id",
        "connection_id",
        "is_large",
        "node",
        "principal",
        "slot",
    )

    def __init__(self, sender: Caller, slot: Slot) -> None:
        self.client_id = sender.client_id
        self.client_host = sender.client_host
        self.connection_id = sender.connection_id
        self.node: Node = sender.node
        self.principal: Principal = sender.principal
        self.api_name = sender.api_name
        self.api_version = sender.api_version
        self.is_large = sender.is_large
        self.slot = slot

    def answer_later(self, *, parks: bool) -> Slot:
        """The slot that it has; it parks in any case."""
        return self.slot


class Answering:
    """A caller whose answer, where it comes later, is handed to somebody else first."""

    __slots__ = ("_answered", "_caller")

    def __init__(self, caller: Caller, answered: Answered) -> None:
        self._caller = caller
        self._answered = answered

    @property
    def client_id(self) -> str:
        """See `Caller`."""
        return self._caller.client_id

    @property
    def client_host(self) -> str:
        """See `Caller`."""
        return self._caller.client_host

    @property
    def connection_id(self) -> int:
        """See `Caller`."""
        return self._caller.connection_id

    @property
    def node(self) -> Node:
        """See `Caller`."""
        return self._caller.node

    @property
    def principal(self) -> Principal:
        """See `Caller`."""
        return self._caller.principal

    @property
    def api_name(self) -> str:
        """See `Caller`."""
        return self._caller.api_name

    @property
    def api_version(self) -> int:
        """See `Caller`."""
        return self._caller.api_version

    @property
    def is_large(self) -> bool:
        """See `Caller`."""
        return self._caller.is_large

    def answer_later(self, *, parks: bool) -> Slot:
        """A slot whose answer is handed over first."""
        slot = self._caller.answer_later(parks=parks)
        slot.owner = _Between(slot.owner, self._answered)
        return slot


class _Between:
    """Stands in for the owner of a slot until its answer is there."""

    __slots__ = ("_answered", "_owner")

    def __init__(self, owner: SlotOwner, answered: Answered) -> None:
        self._owner = owner
        self._answered = answered

    @property
    def peer(self) -> str:
        """See `SlotOwner`."""
        return self._owner.peer

    @property
    def answer_bytes(self) -> int:
        """See `SlotOwner`."""
        return self._owner.answer_bytes

    @property
    def read_bytes(self) -> int:
        """See `SlotOwner`."""
        return self._owner.read_bytes

    def fill(self, slot: Slot, response: object) -> None:
        """Hands the answer over, as the client would get it."""
        slot.owner = self._owner
        if response is NO_ANSWER:
            slot.fill(response)
            return
        try:
            if slot.finish is not None:
                finish, slot.finish = slot.finish, None
                response = finish(response)
            self._answered(slot, response)
        except Exception as problem:  # noqa: BLE001 - whoever answers many must get on to the others
            self._owner.has_failed(problem)

    def fill_written(self, slot: Slot, frame: bytearray) -> None:
        """See `SlotOwner`: what is written is not changed any more."""
        slot.owner = self._owner
        self._owner.fill_written(slot, frame)

    def park(self, slot: Slot) -> None:
        """See `SlotOwner`."""
        self._owner.park(slot)

    def close(self) -> None:
        """See `SlotOwner`."""
        self._owner.close()

    def abort(self) -> None:
        """See `SlotOwner`."""
        self._owner.abort()

    def has_failed(self, problem: Exception) -> None:
        """See `SlotOwner`."""
        self._owner.has_failed(problem)
