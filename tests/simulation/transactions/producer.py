"""A transactional producer that behaves as Kafka's clients do.

At level 2 it adds partitions implicitly and gets a new epoch with each end. It sends one request at a time and
retries it until it gets a response. A fatal error ends it (`ended`). Another producer with its transactional id may
be alive at the same time and fences it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from storage.batch import encode_batch
from storage.record import Record
from tests.simulation.client import REQUEST_TIMEOUT_MS, RETRY_MS, Caller, error_of
from tests.simulation.network import Receiver, Weather
from tests.simulation.transactions.checks import Attempt, Checks, End
from tests.simulation.transactions.groups import GROUP
from tests.simulation.world import World

OWN_TOPIC: Final = "own"
"""A topic for offsets. Only one transaction commits an offset of each of its partitions."""
SHARED_TOPIC: Final = "orders"
SHARED_PARTITIONS: Final = 2
MOST_TRIES: Final = 8
_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Producer(Caller):
    """One producer process with a transactional id."""

    def __init__(
        self,
        world: World,
        far: Receiver,
        weather: Weather,
        name: str,
        transactional_id: str,
        level: int,
        partitions: tuple[tuple[str, int], ...],
        checks: Checks,
        ended: Callable[["Producer"], None],
    ) -> None:
        super().__init__(world, far, weather, name)
        self.transactional_id = transactional_id
        self.level = level
        self.is_closing = False
        self.timeout_ms = world.random.choice([1_500, 4_000, 10_000])
        self._partitions = partitions
        self._checks = checks
        self._ended = ended
        self._id, self._epoch = -1, -1
        self._sequences: dict[tuple[str, int], int] = {}
        self._attempt: Attempt
        self._plan: list[Callable[[], None]] = []
        self._added: set[tuple[str, int]] = set()
        self._init()

    def _ask(
        self, message: Any, version: int, then: Callable[[Any], None], *, tries: int | None = None
    ) -> None:
        """Retry a request until its error is not retriable; after `tries` attempts call `then` with None."""

        def heard(response: Any) -> None:
            if not self.alive:
                return
            if _error(response) not in _AGAIN:
                then(response)
            elif tries is not None and tries <= 1:
                then(None)
            else:
                left = None if tries is None else tries - 1
                self.world.after(RETRY_MS, lambda: self._again(message, version, then, left))

        self.call(message, version, heard, REQUEST_TIMEOUT_MS)

    def _again(self, message: Any, version: int, then: Callable[[Any], None], tries: int | None) -> None:
        if self.alive:
            self._ask(message, version, then, tries=tries)

    def _die(self, why: str) -> None:
        if self.alive:
            self.world.say(self.name, f"gives up: {why}")
            self.alive = False
            self._ended(self)

    # Beginning

    def _init(self) -> None:
        """Get an id and an epoch, or the next epoch after an abort."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=self._id,
            producer_epoch=self._epoch,
        )
        self._ask(request, 4 if self.level < 2 else 5, self._inited)

    def _inited(self, response: Any) -> None:
        if not isinstance(response, InitProducerIdResponse) or response.error_code:
            self._die(f"InitProducerId: {_error(response).name}")
            return
        self._take(response.producer_id, response.producer_epoch)
        self._begin_later()

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._id, self._epoch):
            self.world.say(self.name, f"is {producer_id}, epoch {epoch}")
            self._sequences.clear()
        self._id, self._epoch = producer_id, epoch

    def _begin_later(self) -> None:
        self.world.after(self.world.random.randint(0, 500), self._begin)

    def _begin(self) -> None:
        if self.is_closing:
            self.alive = False
        if not self.alive:
            return
        self._attempt = self._checks.begin()
        self._added.clear()
        random = self.world.random
        count = random.randint(1, 4)
        self.world.say(self.name, f"begins transaction {self._attempt.number}, {count} records")
        self._plan = [partial(self._send, record, random.choice(self._partitions)) for record in range(count)]
        if random.random() < 0.5:
            self._plan.insert(random.randint(0, count), self._send_offsets)
        self._go_on()

    def _go_on(self) -> None:
        if not self.alive:
            return
        if self._plan:
            self._plan.pop(0)()
        elif self.world.chance(0.04):
            self.world.say(self.name, "hesitates")
            self.world.after(self.timeout_ms + 2_000, lambda: self._end(is_committed=True))
        else:
            self._end(is_committed=self.world.chance(0.75))

    def _went_well(self, response: Any) -> bool:
        """Return whether the transaction can continue. If not, the producer aborts it, or ends at a fatal error."""
        error = ErrorCode.UNKNOWN_SERVER_ERROR if response is None else _error(response)
        if error is ErrorCode.NONE:
            return True
        self.world.say(self.name, f"has to abort: {error.name}")
        self._plan.clear()
        if error is ErrorCode.PRODUCER_FENCED:
            self._die(error.name)
        else:
            self._end(is_committed=False)
        return False

    # Records and offsets

    def _send(self, record: int, where: tuple[str, int]) -> None:
        if self.level >= 2 or where in self._added:
            self._produce(record, where)
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=where[0], partitions=[where[1]])],
        )

        def added(response: Any) -> None:
            if self._went_well(response):
                self._added.add(where)
                self._produce(record, where)

        self._ask(request, 3, added, tries=MOST_TRIES)

    def _produce(self, record: int, where: tuple[str, int]) -> None:
        sequence = self._sequences.get(where, 0)
        value = b"%d %d" % (self._attempt.number, record)
        data = encode_batch(
            [Record(0, self.world.now_ms, b"", value)],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        topic = TopicProduceData(
            name=where[0], partition_data=[PartitionProduceData(index=where[1], records=data)]
        )
        request = ProduceRequest(
            transactional_id=self.transactional_id, acks=-1, timeout_ms=1_000, topic_data=[topic]
        )

        def written(response: Any) -> None:
            if self._went_well(response):
                self._sequences[where] = sequence + 1
                self._attempt.records.add(record)
                self._go_on()

        self._ask(request, 11 if self.level < 2 else 12, written, tries=MOST_TRIES)

    def _send_offsets(self) -> None:
        if self.level >= 2:
            self._commit_offsets()
            return
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._id,
            producer_epoch=self._epoch,
            group_id=GROUP,
        )

        def added(response: Any) -> None:
            if self._went_well(response):
                self._commit_offsets()

        self._ask(request, 3, added, tries=MOST_TRIES)

    def _commit_offsets(self) -> None:
        number = self._attempt.number
        places = ((OWN_TOPIC, number), (SHARED_TOPIC, number % SHARED_PARTITIONS))
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=GROUP,
            producer_id=self._id,
            producer_epoch=self._epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=number, committed_metadata=""
                        )
                    ],
                )
                for topic, partition in places
            ],
        )

        def committed(response: Any) -> None:
            if self._went_well(response):
                self._attempt.has_offsets = True
                self._go_on()

        self._ask(request, 3 if self.level < 2 else 5, committed, tries=MOST_TRIES)

    # The end

    def _end(self, *, is_committed: bool) -> None:
        if not self.alive:
            return
        attempt = self._attempt
        attempt.is_commit_asked |= is_committed
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=is_committed,
        )

        def answered(response: Any) -> None:
            error = _error(response)
            self.world.say(
                self.name,
                f"transaction {attempt.number}, {'commit' if is_committed else 'abort'}: {error.name}",
            )
            if error is not ErrorCode.NONE:
                # A level 1 abort of a transaction that never began, or the end of a producer.
                self._die(f"EndTxn: {error.name}")
                return
            assert isinstance(response, EndTxnResponse)
            attempt.end = End.COMMITTED if is_committed else End.ABORTED
            if self.level >= 2:
                self._take(response.producer_id, response.producer_epoch)
                self._begin_later()
            elif is_committed:
                self._begin_later()
            else:
                self._init()

        self._ask(request, 4 if self.level < 2 else 5, answered)


def _error(response: Any) -> ErrorCode:
    """Return the first error in a response; a missing response counts as a retriable error."""
    for outer, inner in (
        ("responses", "partition_responses"),
        ("results_by_topic_v3_and_below", "results_by_partition"),
        ("topics", "partitions"),
    ):
        topics = getattr(response, outer, None)
        if topics:
            result = getattr(topics[0], inner)[0]
            return ErrorCode(getattr(result, "error_code", getattr(result, "partition_error_code", 0)))
    return error_of(response)
