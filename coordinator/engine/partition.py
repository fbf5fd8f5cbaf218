"""One partition of an internal topic: its machine, its log, and who waits for either.

    ABSENT ──▶ LOADING ──▶ OWNED ──▶ LOADING (after a failure, from what the disk holds)
       ▲          ├──▶ FAILED │         └──▶ READ_ONLY ──▶ OWNED (while the disk refuses, and when it does not)
       └──────────┴───────────┘ (released)

Records of one iteration of the loop are kept as they come, encoded and appended as one batch at its end; what has a
producer (`producer_batch.py`) is a batch of its own between them. The *position* of an answer is where the log will
end with all records that were made before it; the gate holds the answer until that offset is readable: synced, or
only written where the flush policy says so.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, Generic

from coordinator import clock
from coordinator.engine.gate import Gate
from coordinator.engine.machine import InternalTopic, M
from coordinator.engine.place import Place
from coordinator.engine.producer_batch import BASE_SEQUENCE, ProducerBatch, header_in_transaction
from coordinator.machine.outcome import Context, EncodedFact, Message, Now, Outcome
from coordinator.names import LogFlush
from protocol.errors import ErrorCode
from storage.batch import encode_batch
from storage.log import PartitionLog
from storage.producers.log_producers import LogProducers
from storage.producers.producer_state import ProducerState, Verification
from storage.record import Record, records_of
from storage.topic_partition import TopicPartition

MAX_BATCH_BYTES: Final = 1024 * 1024
"""An iteration's records are split in batches of about this size, never within the records of one outcome."""


class PartitionState(Enum):
    """What a partition can do."""

    ABSENT = "absent"
    LOADING = "loading"
    OWNED = "active"
    READ_ONLY = "read-only"
    FAILED = "failed"


class Partition(Generic[M]):
    """See the top of this file. All methods belong to the event loop's thread."""

    __slots__ = (
        "_compression",
        "_encode",
        "_expected",
        "_flush",
        "_pending",
        "_refuse",
        "bare",
        "durable_end",
        "epoch",
        "fronts",
        "gate",
        "is_dirty",
        "loaded_records",
        "log",
        "machine",
        "missed",
        "name",
        "number",
        "outbound",
        "pending_records",
        "producers",
        "state",
        "tenure",
        "waiting",
    )

    def __init__(self, topic: InternalTopic[M], number: int) -> None:
        self.name = TopicPartition(topic.name, number)
        self.number = number
        self.state = PartitionState.ABSENT
        self.epoch = -1
        """Of the ownership: counted up by whoever decides who owns what."""
        self.tenure = 0
        """How often the partition was taken when it was not here. Epochs may change while it is."""
        self.machine: M | None = None
        """Who is asked; None unless the partition is OWNED or READ_ONLY."""
        self.bare: M | None = None
        """The same without what was put in front of it."""
        self.fronts: list[Callable[[M], M]] = []
        """What stands in front of the machine, and of every one that is loaded later, the nearest first."""
        self.log: PartitionLog | None = None
        self.producers: LogProducers | None = None
        """Who has written transactions to the log. There while the machine is."""
        self.durable_end = 0
        """Where the machine of a READ_ONLY partition has stopped reading whose log is being opened anew, and None
        meanwhile."""
        self.gate = Gate()
        self.waiting: dict[int, Place] = {}
        self.pending_records = 0
        self.is_dirty = False
        """Whether the end of this iteration has something to append."""
        self.loaded_records = 0
        self.missed: list[object] = []
        """What every partition was told while this one was being read, or could not be written."""
        self.outbound: deque[tuple[int, Sequence[Message]]] = deque()
        """Messages to other machines, with the position that has to be readable before they leave."""
        self._pending: list[tuple[int, list[EncodedFact], ProducerBatch | None]] = []
        """The records of each outcome, with the bytes of their keys and values; or the batch that they are, where
        they have a producer."""
        self._expected: ProducerState | None = None
        """The same with what is kept for the end of the iteration, and with who waits for consent to begin one."""
        self._encode = topic.codec.encoder()
        self._flush = topic.flush
        self._compression = topic.compression
        self._refuse = topic.refuse

    def is_loading(self, tenure: int) -> bool:
        """Whether what was begun in this tenure still goes on."""
        return self.state is PartitionState.LOADING and self.tenure == tenure

    def fronted(self, machine: M) -> M:
        """A machine with what stands in front."""
        for put_in_front in self.fronts:
            machine = put_in_front(machine)
        return machine

    def put_in_front(self, front: Callable[[M], M]) -> None:
        """Has something hear all that the machine is asked, and say what comes of it; through reloads, too. In:
        what makes of a machine one with that in front."""
        self.fronts.append(front)
        self._ask_through()

    def put_nearest(self, front: Callable[[M], M]) -> None:
        """The same, behind all that stands in front already: it hears what the machine hears, whoever changes that.
        It is still behind what is put there later."""
        self.fronts.insert(0, front)
        self._ask_through()

    def take_away(self, front: Callable[[M], M]) -> None:
        """Undoes the same."""
        self.fronts.remove(front)
        self._ask_through()

    def _ask_through(self) -> None:
        if self.bare is not None:
            self.machine = self.fronted(self.bare)

    @property
    def readable_offset(self) -> int:
        """Where answers and consumers may look up to."""
        log = self.log
        if log is None:
            return self.durable_end
        return log.durability.offset if self._flush is LogFlush.ALWAYS else log.log_end_offset

    reached = readable_offset
    """The position up to which answers may leave."""

    is_replicated = False
    """Whether an engine has the log, and has to be asked before any answer leaves."""

    @property
    def end_offset(self) -> int:
        """Where the log ends once this iteration's records are in it."""
        end_offset = self.durable_end if self.log is None else self.log.log_end_offset
        return end_offset + self.pending_records

    position = end_offset
    """What an answer that is made now has to wait for. Positions never fall."""

    @property
    def is_settled(self) -> bool:
        """Whether it takes records, and an answer has none to wait for."""
        if self.state is not PartitionState.OWNED or self.pending_records:
            return False
        return self.end_offset <= self.readable_offset

    def keep(self, outcome: Outcome) -> None:
        """Takes the records of one outcome, or its marker, for the end of the iteration."""
        unit: list[EncodedFact] = []
        size = 0
        for fact in outcome.records:
            encoded = self._encode(fact)
            key, value = encoded
            size += len(key) + (len(value) if value else 0)
            unit.append(encoded)
        if outcome.in_transaction is None and outcome.marker is None:
            self._pending.append((size, unit, None))
            self.pending_records += len(unit)
        else:
            self._keep_of_producer(outcome, unit)

    def _keep_of_producer(self, outcome: Outcome, unit: list[EncodedFact]) -> None:
        wall_ms = clock.wall_ms()
        if outcome.marker is not None:
            assert not unit, "a marker is a batch of its own"
            batch = ProducerBatch.of_marker(outcome.marker, wall_ms)
        else:
            assert outcome.in_transaction is not None
            batch = ProducerBatch.of_transaction(unit, outcome.in_transaction, self._compression, wall_ms)
        batch.expect(self.expected, self.end_offset)
        self._pending.append((0, [], batch))
        self.pending_records += batch.header.records_count

    def write(self, wall_ms: int) -> bool:
        """Appends this iteration's records, with their timestamp; whether that began a segment.

        Raises StorageError, OSError; the partition then has to be reloaded.
        """
        log = self.log
        assert log is not None
        units, self._pending, self.pending_records = self._pending, [], 0
        batch: list[Record] = []
        size = 0
        is_rolled = False
        for unit_size, unit, of_producer in units:
            if of_producer is not None:
                if batch:
                    is_rolled |= self._append(log, batch)
                    batch, size = [], 0
                is_rolled |= self._append_of_producer(log, of_producer)
                continue
            if batch and size + unit_size > MAX_BATCH_BYTES:
                is_rolled |= self._append(log, batch)
                batch, size = [], 0
            batch += records_of(unit, wall_ms)
            size += unit_size
        if batch:
            is_rolled |= self._append(log, batch)
        return is_rolled

    def _append_of_producer(self, log: PartitionLog, batch: ProducerBatch) -> bool:
        producers = self.producers
        assert producers is not None, self.name
        is_rolled = batch.append(log, producers)
        producers.last_stable_offset(self.readable_offset)  # forgets what has ended before
        return is_rolled

    def _append(self, log: PartitionLog, batch: Sequence[Record]) -> bool:
        data = encode_batch(batch, base_sequence=BASE_SEQUENCE, codec=self._compression)
        return log.append(data).is_rolled

    # Producers

    def use_producers(self, producers: LogProducers | None) -> None:
        """Takes up what the log says of producers, when it was read; None where nothing is known of it any more."""
        self.producers = producers
        self._expected = None if producers is None else producers.state.copy()

    @property
    def expected(self) -> ProducerState:
        """The producers of a partition that has a machine, with what is kept for the end of the iteration: what
        would be written next is checked against them, and they know who asks for consent to begin a transaction."""
        assert self._expected is not None, self.name
        return self._expected

    @property
    def last_stable_offset(self) -> int:
        """Up to where consumers of committed records may look."""
        readable_offset = self.readable_offset
        return (
            readable_offset if self.producers is None else self.producers.last_stable_offset(readable_offset)
        )

    @property
    def has_open_transactions(self) -> bool:
        """Whether a transaction has begun here that has no end yet, also one whose every record was removed
        meanwhile."""
        machine, expected = self.machine, self._expected
        has_pending = machine is not None and machine.has_open_transactions
        return has_pending or (expected is not None and bool(expected.open_transactions))

    def needs_verification(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether records of a producer would begin a transaction here. Raises InvalidProducerEpoch."""
        return self.expected.needs_verification(header_in_transaction(producer_id, producer_epoch))

    def verify(self, producer_id: int, producer_epoch: int, now_ms: int, *, adds: bool) -> Verification:
        """What whoever would write them holds while the coordinator of the transaction is asked; see
        `ProducerState.verify`."""
        return self.expected.verify(header_in_transaction(producer_id, producer_epoch), now_ms, adds=adds)

    def check_producer(
        self,
        producer_id: int,
        producer_epoch: int,
        verification: Verification | None,
        *,
        is_verified: bool = True,
    ) -> None:
        """Whether records of a producer's transaction may be written; whether anything has to be held for that.

        Raises InvalidProducerEpoch, InvalidTransactionState.
        """
        header = header_in_transaction(producer_id, producer_epoch)
        self.expected.check(header, verification, is_verified=is_verified, is_sequenced=False)

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> bool:
        """Whether a marker may be written; whether it repeats one, which is then written again. Raises
        InvalidProducerEpoch, CoordinatorFenced."""
        return self.expected.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)

    def expire_producers(self, now_ms: int) -> None:
        """Forgets those that are idle, by the wall clock; those with a transaction open are not."""
        if self.producers is not None:
            self.producers.state.expire(now_ms)
            self.expected.expire(now_ms)

    # Waiting

    def open_gate(self) -> None:
        """Gives the answers that the log has caught up with."""
        waiting = self.waiting
        for waiter, response in self.gate.release(self.reached):
            place = waiting.pop(waiter, None)
            if place is not None:
                place.fill(response)

    def answer(self, waiter: int, response: object) -> None:
        """Gives an answer, if anybody still waits for it."""
        place = self.waiting.pop(waiter, None)
        if place is not None:
            place.fill(response)

    def take_outbound(self) -> Iterator[Sequence[Message]]:
        """Takes out the messages that may leave by now, in order."""
        outbound = self.outbound
        while outbound and outbound[0][0] <= self.reached:
            yield outbound.popleft()[1]

    def await_answer(self, place: Place, waiter: int, request: object) -> None:
        """Enters where an answer goes that is held or parked."""
        place.request, place.registry, place.waiter = request, self.waiting, waiter
        self.waiting[waiter] = place

    def give_up(self, error: ErrorCode) -> None:
        """Takes the machine out of service: everybody who waits is told `error`. Messages that have not left never
        will: a machine that is loaded again sends them again.

        A machine that refuses to unload raises; the machine is gone, and who waits there waits still.
        """
        machine, self.machine, self.bare = self.machine, None, None
        self.use_producers(None)
        self._pending, self.pending_records = [], 0
        self.durable_end = 0
        self.gate.clear()
        self.outbound.clear()
        answers: dict[int, Any] = {}
        if machine is not None and error is ErrorCode.NOT_COORDINATOR:
            answers = dict(machine.unload())
        for waiter in list(self.waiting):
            place = self.waiting.pop(waiter, None)
            if place is None:
                continue
            response = answers.get(waiter)
            if response is None:
                response = self._refuse(place.request, place.api_version, error)
            place.fill(response)

    def handle(self, request: Any, context: Context, now: Now) -> Outcome:
        """Asks the machine; the partition is OWNED."""
        assert self.machine is not None
        return self.machine.handle(request, context, now)
