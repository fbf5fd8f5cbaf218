"""A second machine, as small as one can be that uses everything: named counters, kept in an internal topic.

It shows what the engine asks of a machine, and that nothing of the engine is about groups.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from coordinator.machine.outcome import (
    NO_PRODUCER_ID,
    Context,
    EncodedFact,
    Event,
    Fact,
    Message,
    Now,
    Outcome,
    Work,
    WorkDone,
)
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.malformed import Malformed

RING_AFTER_MS: Final = 1


@dataclass(frozen=True)
class Add:
    """Adds to a counter; answered with its new value when that is durable."""

    name: str
    amount: int


@dataclass(frozen=True)
class AwaitValue:
    """Answered with the value of a counter once it is at least that much."""

    name: str
    at_least: int


@dataclass(frozen=True)
class Tell:
    """Sends a request to another machine, once a fact of its own is durable."""

    message: Message


@dataclass(frozen=True)
class Square:
    """Has the square of a counter worked out elsewhere, and sets the counter to it."""

    name: str


@dataclass(frozen=True)
class Ring:
    """Adds one to a counter by a timer."""

    name: str


@dataclass(frozen=True)
class Break:
    """Contradicts itself."""


@dataclass(frozen=True)
class Refused:
    """The answer that says an error."""

    error: ErrorCode


class Counted(Event):
    """A counter has a new value."""

    name: str
    value: int


class Values(dict[str, int]):
    """What the log says."""

    def facts(self) -> Iterator[Fact]:
        """The facts that make this of nothing."""
        return (Fact(name, value) for name, value in self.items())


class Counters:
    """The counters of one partition."""

    def __init__(self, number: int, leader_epoch: int) -> None:
        self.number, self.leader_epoch = number, leader_epoch
        self.values = Values()
        self._parked: dict[int, AwaitValue] = {}

    def handle(self, request: Any, context: Context, now: Now) -> Outcome:
        """Acts on one of the requests of this module."""
        turn = Turn(now, self.replay)
        match request:
            case Add(name, amount):
                self._set(name, self.values.get(name, 0) + amount, turn)
                turn.reply(context.waiter, self.values[name])
            case AwaitValue():
                self._parked[context.waiter] = request
            case Tell(message):
                self._set("told", self.values.get("told", 0) + 1, turn)
                turn.send(message)
                turn.reply(context.waiter, self.values["told"])
            case Square(name):
                turn.begin(Work("square", (name, self.values.get(name, 0))))
                turn.reply(context.waiter, None)
            case Ring(name):
                turn.arm(name, now.monotonic_ms + RING_AFTER_MS)
                turn.reply(context.waiter, None)
            case WorkDone(work, result, error):
                assert isinstance(work.argument, tuple)
                self._set(work.argument[0], result if isinstance(result, int) and not error else -1, turn)
            case _:
                raise AssertionError("a counter was asked what it cannot be asked")
        self._answer_parked(turn)
        return turn.outcome()

    def fire(self, key: str, now: Now) -> Outcome:
        """A timer of Ring."""
        turn = Turn(now, self.replay)
        self._set(key, self.values.get(key, 0) + 1, turn)
        self._answer_parked(turn)
        return turn.outcome()

    def replay(self, fact: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        """The only writer of values. Nobody writes counters in transactions."""
        assert producer_id == NO_PRODUCER_ID, producer_id
        if fact.value is None:
            self.values.pop(fact.key, None)
        else:
            self.values[fact.key] = fact.value

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Of transactions that wrote no counters."""

    @property
    def has_open_transactions(self) -> bool:
        """Nobody writes counters in transactions."""
        return False

    def loaded(self, now: Now) -> Outcome:
        """There is nothing to make of the values."""
        return Outcome()

    def unload(self) -> list[tuple[int, object]]:
        """Everybody who is parked looks elsewhere."""
        return [(waiter, Refused(ErrorCode.NOT_COORDINATOR)) for waiter in self._parked]

    @property
    def durable_keys(self) -> int:
        """How many counters there are."""
        return len(self.values)

    def copy_durable(self) -> Values:
        """The values now."""
        return Values(self.values)

    def _set(self, name: str, value: int, turn: Turn) -> None:
        turn.write(Fact(name, value))
        turn.tell(Counted(name, value))

    def _answer_parked(self, turn: Turn) -> None:
        for waiter, awaited in list(self._parked.items()):
            value = self.values.get(awaited.name, 0)
            if value >= awaited.at_least:
                del self._parked[waiter]
                turn.reply(waiter, value)


class CounterCodec:
    """Keys are a type (7) and a name; values are JSON."""

    contents: Final = "counters"

    def encode(self, fact: Fact) -> EncodedFact:
        """Key and value of a fact."""
        value = None if fact.value is None else json.dumps(fact.value).encode()
        return EncodedFact(b"\0\7" + fact.key.encode(), value)

    def encoder(self) -> Callable[[Fact], EncodedFact]:
        """There is nothing to remember."""
        return self.encode

    def canonical_key(self, key: bytes) -> bytes | None:
        """Keys of other types are not ours."""
        return key if key.startswith(b"\0\7") else None

    def decode(self, key: bytes, value: bytes) -> Fact:
        """A fact of the log. Raises Malformed."""
        try:
            return Fact(key[2:].decode(), json.loads(value))
        except ValueError as error:
            raise Malformed(f"no counter: {error}") from error


def refuse(request: object, api_version: int, error: ErrorCode) -> object:
    """The answer that says an error."""
    return Refused(error)
