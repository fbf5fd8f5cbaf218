"""A second machine, as small as one can be that uses everything: named counters, kept in an internal topic.

It shows the methods that the runtime needs of a machine, and that the runtime does not depend on groups.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from coordinator.core.open_transaction_records import OpenTransactions
from coordinator.core.outcome import (
    NO_PRODUCER_ID,
    Context,
    EncodedFact,
    Fact,
    MachineEvent,
    Message,
    Now,
    Outcome,
    OutcomeBuilder,
    TransactionMarker,
    TransactionOwner,
    Work,
    WorkDone,
)
from protocol.error_codes import ErrorCode
from protocol.primitives import Malformed

RING_AFTER_MS: Final = 1
DEBT: Final = "debt"
DEBTS: Final = "__debts"
"""Where debts go: no machine runs there."""


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
class Forget:
    """Removes a counter."""

    name: str


@dataclass(frozen=True)
class AddWithin:
    """Adds to a counter within a transaction: it has the new value, which is answered, once that is committed."""

    name: str
    amount: int
    producer_id: int
    producer_epoch: int = 0


@dataclass(frozen=True)
class End:
    """Ends a transaction."""

    producer_id: int
    producer_epoch: int = 0
    is_committed: bool = True


@dataclass(frozen=True)
class Owe:
    """Sends debts to the receiver; a debt is sent again after each load of the counters."""

    debts: int = 1


@dataclass(frozen=True)
class Break:
    """Contradicts itself."""


@dataclass(frozen=True)
class Refused:
    """The answer that says an error."""

    error: ErrorCode


class Counted(MachineEvent):
    """A counter has a new value."""

    name: str
    value: int


class Values(dict[str, int]):
    """Return the content of the log."""

    def facts(self) -> Iterator[Fact]:
        """The facts that make this of nothing."""
        return (Fact(name, value) for name, value in self.items())


class Counters:
    """The counters of one partition."""

    def __init__(self, number: int, leader_epoch: int) -> None:
        self.number, self.leader_epoch = number, leader_epoch
        self.values = Values()
        self.open: OpenTransactions[str, int] = OpenTransactions()
        self._parked: dict[int, AwaitValue] = {}

    def handle(self, request: Any, context: Context, now: Now) -> Outcome:
        """Acts on a request to a counter."""
        builder = OutcomeBuilder(now, self.replay)
        match request:
            case Add(name, amount):
                self._set(name, self.values.get(name, 0) + amount, builder)
                builder.reply(context.waiter, self.values[name])
            case Forget(name):
                builder.write_fact(Fact(name, None))
                builder.reply(context.waiter, None)
            case AddWithin(name, amount, producer_id, producer_epoch):
                builder.in_transaction = TransactionOwner(producer_id, producer_epoch)
                value = self.values.get(name, 0) + amount
                builder.write_fact(Fact(name, value))
                builder.reply(context.waiter, value)
            case End(producer_id, producer_epoch, is_committed):
                self.end_transaction(producer_id, is_committed=is_committed)
                builder.marker = TransactionMarker(
                    producer_id, producer_epoch, self.leader_epoch, is_committed
                )
                builder.reply(context.waiter, None)
            case Owe(debts):
                self._set(DEBT, 1, builder)
                for _ in range(debts):
                    builder.add_message(Message(DEBTS, "", self.leader_epoch))
                builder.reply(context.waiter, None)
            case AwaitValue():
                self._parked[context.waiter] = request
            case Tell(message):
                self._set("told", self.values.get("told", 0) + 1, builder)
                builder.add_message(message)
                builder.reply(context.waiter, self.values["told"])
            case Square(name):
                builder.add_work(Work("square", (name, self.values.get(name, 0))))
                builder.reply(context.waiter, None)
            case Ring(name):
                builder.arm_timer(name, now.monotonic_ms + RING_AFTER_MS)
                builder.reply(context.waiter, None)
            case WorkDone(work, result, error):
                assert isinstance(work.argument, tuple)
                self._set(work.argument[0], result if isinstance(result, int) and not error else -1, builder)
            case _:
                raise AssertionError("a counter does not support this request")
        self._answer_parked(builder)
        return builder.build()

    def fire_timer(self, key: str, now: Now) -> Outcome:
        """A timer of Ring."""
        builder = OutcomeBuilder(now, self.replay)
        self._set(key, self.values.get(key, 0) + 1, builder)
        self._answer_parked(builder)
        return builder.build()

    def replay(self, fact: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        """The only writer of values, but for the ends of transactions."""
        if fact.value is None:
            self.values.pop(fact.key, None)
            self.open.remove_key(fact.key)
        elif producer_id != NO_PRODUCER_ID:
            self.open.add_record(producer_id, fact.key, fact.value)
        else:
            self.values[fact.key] = fact.value
            if self.open:
                self.open.supersede(fact.key)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """What it wrote counts now, or never will."""
        self.values.update(self.open.end_transaction(producer_id, is_committed=is_committed).committed)

    @property
    def has_open_transactions(self) -> bool:
        """Whether values wait for the end of their transaction."""
        return bool(self.open)

    def on_loaded(self, now: Now) -> Outcome:
        """Debts are sent again."""
        owed = [Message(DEBTS, "", self.leader_epoch)] if self.values.get(DEBT) else []
        return Outcome(messages=owed)

    def unload(self) -> list[tuple[int, object]]:
        """Reject all blocked requests with NOT_COORDINATOR."""
        return [(waiter, Refused(ErrorCode.NOT_COORDINATOR)) for waiter in self._parked]

    @property
    def durable_keys(self) -> int:
        """How many counters there are."""
        return len(self.values)

    def copy_durable(self) -> Values:
        """The values now."""
        return Values(self.values)

    def _set(self, name: str, value: int, builder: OutcomeBuilder) -> None:
        builder.write_fact(Fact(name, value))
        builder.add_event(Counted(name, value))

    def _answer_parked(self, builder: OutcomeBuilder) -> None:
        for waiter, awaited in list(self._parked.items()):
            value = self.values.get(awaited.name, 0)
            if value >= awaited.at_least:
                del self._parked[waiter]
                builder.reply(waiter, value)


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
