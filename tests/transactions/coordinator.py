"""A shard with a clock, timers and a log in memory, and those who draw producer ids and write markers for it:
what a test of the core talks to.

After every call the invariants are checked, and that a second shard, fed with the bytes of the records so far,
holds the same durable state. Producer ids come at once unless a test holds them; markers are written when it says
so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from coordinator.core.outcome import Context, Fact, Now, Outcome, Work, WorkDone
from coordinator.runtime.machine import Machine, RecordCodec
from coordinator.transactions.transaction_records import TransactionRecordCodec
from coordinator.transactions.transaction_requests import (
    PRODUCER_ID,
    TRANSACTION_MARKERS,
    AddPartitions,
    AddPartitionsResult,
    DescribeTransaction,
    ListTransactions,
    Request,
    TransactionConfig,
    TransactionTimerKey,
    WriteMarkers,
)
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsTransactionState
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_transactions import ListTransactionsResponse
from protocol.records.transaction_state import TransactionLogValue
from tests.transactions.config import transaction_config

E = TypeVar("E")
T = TypeVar("T")
START = Now(1_000_000, 1_700_000_000_000)
TID = "payments"
FIRST_ID = 1000
A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
NEWEST_INIT, NEWEST_END, OLDER_END = 5, 5, 4
NOBODY = Context(0, 0, "", "")
_CODEC: RecordCodec = TransactionRecordCodec()
_NEW_MACHINE: Callable[[TransactionConfig, int], Machine] = TransactionShard
"""What the engine takes."""


class Answer(NamedTuple):
    """The error, producer id and epoch of a response."""

    error: ErrorCode
    producer_id: int = -1
    epoch: int = -1


@dataclass(eq=False)
class Ask:
    """A request that was sent; `reply` None means that it is parked."""

    waiter: int
    reply: object | None = None

    def answer(self, kind: type[T]) -> T:
        """The reply, which must be there and of that class."""
        assert isinstance(self.reply, kind), self.reply
        return self.reply

    @property
    def given(self) -> Answer:
        """Return the result of an InitProducerId or EndTxn."""
        assert isinstance(self.reply, InitProducerIdResponse | EndTxnResponse), self.reply
        reply = self.reply
        return Answer(ErrorCode(reply.error_code), reply.producer_id, reply.producer_epoch)


class Coordinator:
    """Sends requests, keeps time, fires timers, remembers everything that came out."""

    def __init__(
        self, config: TransactionConfig | None = None, records: Sequence[Fact] = (), **changed: Any
    ) -> None:
        """Load a shard from `records`, with `config` or the default config with the `changed` fields."""
        self.config = transaction_config(**changed) if config is None else config
        self.now = START
        self.records: list[Fact] = []
        self.events: list[object] = []
        self.timers: dict[TransactionTimerKey, int] = {}
        self.markers: list[WriteMarkers] = []
        """Asked for and not written."""
        self.works: list[Work] = []
        self.holds_works = False
        self.epoch = 0
        self.next_id = FIRST_ID
        self._requests: dict[int, Ask] = {}
        self._start(records)

    def _start(self, records: Sequence[Fact]) -> None:
        self.epoch += 1
        self.shard = TransactionShard(self.config, self.epoch)
        self._replica = TransactionShard(self.config, 0)
        for record in records:
            self.shard.replay(through_bytes(record))
            self._replica.replay(record)
        self.records = list(records)
        self.timers.clear()
        self.markers.clear()
        self.works.clear()
        self._take(self.shard.on_loaded(self.now))

    def restart(self, config: TransactionConfig | None = None) -> None:
        """Lose all that was not written, and load the log."""
        self.config = self.config if config is None else config
        self.events.clear()
        self._start(self.records)

    def unload(self) -> None:
        """Give the transactions up."""
        self._deliver(self.shard.unload())

    def send(self, request: Request, version: int = 0) -> Ask:
        """Hand a request to the shard."""
        ask = Ask(len(self._requests) + 1)
        self._requests[ask.waiter] = ask
        self._take(self.shard.handle(request, Context(ask.waiter, version, "client", "/10.0.0.1"), self.now))
        return ask

    def tell(self, request: Request) -> Outcome:
        """Handle an internal event, which has no response."""
        outcome = self.shard.handle(request, NOBODY, self.now)
        self._take(outcome)
        return outcome

    def fire(self, key: TransactionTimerKey) -> Outcome:
        """Fire a timer now, due or not."""
        self.timers.pop(key, None)
        outcome = self.shard.fire_timer(key, self.now)
        self._take(outcome)
        return outcome

    def advance(self, duration_ms: int) -> None:
        """Let time pass, and fire the timers that are due."""
        end_ms = self.now.monotonic_ms + duration_ms
        while self.timers:
            key, deadline_ms = min(self.timers.items(), key=lambda timer: timer[1])
            if deadline_ms > end_ms:
                break
            self.skip(max(deadline_ms - self.now.monotonic_ms, 0))
            self.fire(key)
        self.skip(end_ms - self.now.monotonic_ms)

    def skip(self, duration_ms: int) -> None:
        """Let time pass; nothing fires."""
        self.now = Now(self.now.monotonic_ms + duration_ms, self.now.wall_ms + duration_ms)

    def _take(self, outcome: Outcome) -> None:
        self.records.extend(outcome.records)
        self.events.extend(outcome.events)
        self._deliver(outcome.replies)
        for key, deadline_ms in outcome.timers.items():
            if deadline_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = deadline_ms
        for message in outcome.messages:
            assert isinstance(message.request, WriteMarkers)
            assert (message.topic, message.key) == (TRANSACTION_MARKERS, message.request.transactional_id)
            self.markers.append(message.request)
        self.shard.check_invariants()
        for record in outcome.records:
            self._replica.replay(through_bytes(record))
        if outcome.records:
            assert self.shard.snapshot_durable() == self._replica.snapshot_durable()
        self.works.extend(outcome.work)
        if not self.holds_works:
            self.finish_works()

    def _deliver(self, replies: Sequence[tuple[int, object]]) -> None:
        for waiter, message in replies:
            assert self._requests[waiter].reply is None, f"waiter {waiter} is answered twice"
            self._requests[waiter].reply = message

    def finish_works(self, error: str | None = None) -> None:
        """Complete all pending requests for a producer id, with an id or an error."""
        while self.works:
            work = self.works.pop(0)
            assert work.name == PRODUCER_ID
            self.next_id += 1
            done = WorkDone(work, None, error) if error else WorkDone(work, self.next_id - 1)
            self.tell(done)

    def finish_markers(self) -> None:
        """Complete all requested markers."""
        while self.markers:
            markers = self.markers.pop(0)
            self.tell(markers.build_markers_written(markers.partitions))

    def find_events(self, kind: type[E]) -> list[E]:
        """The events of one class, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    # Requests

    def init(
        self,
        producer_id: int = -1,
        epoch: int = -1,
        *,
        timeout_ms: int = 60_000,
        tid: str | None = TID,
        version: int = NEWEST_INIT,
    ) -> Answer:
        """Send an InitProducerId and return its result."""
        request = InitProducerIdRequest(
            transactional_id=tid,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        return self.send(request, version).given

    def add(
        self,
        *partitions: tuple[str, int],
        producer_id: int = FIRST_ID,
        epoch: int = 0,
        tid: str = TID,
        level: int = 0,
        verifies: bool = False,
    ) -> dict[tuple[str, int], ErrorCode]:
        """Add or verify partitions and return the error of each."""
        request = AddPartitions(tid, producer_id, epoch, partitions, verifies, level)
        return dict(self.send(request).answer(AddPartitionsResult).errors)

    def end(
        self,
        is_committed: bool,
        producer_id: int = FIRST_ID,
        epoch: int = 0,
        *,
        tid: str = TID,
        version: int = NEWEST_END,
    ) -> Answer:
        """Send an EndTxn and return its result."""
        request = EndTxnRequest(
            transactional_id=tid, producer_id=producer_id, producer_epoch=epoch, committed=is_committed
        )
        return self.send(request, version).given

    def describe(self, tid: str = TID) -> DescribeTransactionsTransactionState:
        """Describe one transactional id."""
        return self.send(DescribeTransaction(tid)).answer(DescribeTransactionsTransactionState)

    def listed(self, **filters: Any) -> list[str]:
        """The transactional ids that pass these filters."""
        response = self.send(ListTransactions(**filters)).answer(ListTransactionsResponse)
        assert response.error_code == ErrorCode.NONE
        return [one.transactional_id for one in response.transaction_states]

    def value(self, tid: str = TID) -> TransactionLogValue:
        """Return the record of a transactional id in the log."""
        return self.shard.snapshot_durable()[tid]

    def state(self, tid: str = TID) -> str:
        """Its state, as clients see it; "" where it is not known."""
        return self.describe(tid).transaction_state

    def current(self, tid: str = TID) -> tuple[int, int]:
        """Its producer id and epoch."""
        value = self.value(tid)
        return value.producer_id, value.producer_epoch


def through_bytes(record: Fact) -> Fact:
    """The record as it comes back from the log."""
    key, value = _CODEC.encode(record)
    assert _CODEC.canonical_key(key) == key
    return Fact(record.key, None) if value is None else _CODEC.decode(key, value)
