"""One process with all components. They crash together and send requests to each other as in the real server."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from coordinator.apis.transaction_markers import OnMarkerWritten, TransactionEnd, TransactionMarkerManager
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.core.time_budget import RunQueue
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_shard import GroupShard
from coordinator.transactions.transaction_requests import (
    AddPartitions,
    AddPartitionsResult,
    TransactionConfig,
    WriteMarkers,
)
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.codec import decode, encode
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from storage.producers.producer_state import ProducerState
from storage.topic_partition import TopicPartition
from tests.simulation.network import Connection, Request
from tests.simulation.shell import NotCoordinator
from tests.simulation.transactions.checks import Checks
from tests.simulation.transactions.coordinator import Coordinator, MakeShard
from tests.simulation.transactions.groups import Groups, MakeGroups
from tests.simulation.transactions.log import Log
from tests.simulation.transactions.partition import MakeProducers, Partition, Question
from tests.simulation.world import World

NAMES: Final = (("orders", 0), ("orders", 1), ("payments", 0))
ADDS_SINCE: Final = 12
VERIFICATION_RETRY_MS: Final = 20
VERIFICATION_RETRIES: Final = 5


def _as_it_is(_: TopicPartition, end: TransactionEnd) -> TransactionEnd | None:
    return end


@dataclass(frozen=True)
class Parts:
    """The components of a server; a mutant replaces one of them.

    `spoil` returns the end to write for a marker. It returns None to drop the write but still acknowledge it.
    """

    transactions: MakeShard = TransactionShard
    groups: MakeGroups = GroupShard
    producers: MakeProducers = ProducerState
    coordinator: type[Coordinator] = Coordinator
    partition: type[Partition] = Partition
    spoil: Callable[[TopicPartition, TransactionEnd], TransactionEnd | None] = _as_it_is


class _Loop:
    """An event loop with the methods that the sender of markers needs."""

    def __init__(self, world: World) -> None:
        self._world = world

    def call_soon(self, call: Callable[..., None], *arguments: Any) -> None:
        self._world.after(0, partial(call, *arguments))

    def call_later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> None:
        self._world.after(round(delay_s * 1000), partial(call, *arguments))


class Server:
    """A process; `up` is true while it runs."""

    def __init__(
        self, world: World, config: TransactionConfig, groups: GroupConfig, parts: Parts, checks: Checks
    ) -> None:
        self.world = world
        self.up = True
        self.marker_ms = (0, 5)
        self._parts = parts
        self._life = 0
        self._connections: dict[Connection, None] = {}
        make = parts.transactions
        self.coordinator = parts.coordinator(
            world, config, make, checks, lambda key, markers: self._send_markers(key, markers)
        )
        producers = parts.producers
        self.partitions = {name: parts.partition(world, name, self.verify, producers) for name in NAMES}
        self.groups = Groups(world, groups, parts.groups, self.verify, producers)
        self._markers = self._new_markers()
        self.coordinator.load()

    def _new_markers(self) -> TransactionMarkerManager:
        loop, coordinator = cast("Any", _Loop(self.world)), cast("Any", self.coordinator)
        return TransactionMarkerManager(
            loop, RunQueue(loop), cast("Any", self), coordinator, on_transaction_ended=lambda _: None
        )

    def _send_markers(self, key: str, markers: WriteMarkers) -> None:
        self._markers.deliver_markers(key, markers)

    @property
    def logs(self) -> list[Log[Any]]:
        """The logs of all partitions."""
        return [self.coordinator.log, self.groups.log, *(each.log for each in self.partitions.values())]

    # Life

    def crash(self) -> None:
        """Stop the machine; it restarts later."""
        if not self.up:
            return
        self.world.say("server", "crash")
        self.up = False
        self._life += 1
        self._markers.close()
        self.coordinator.stop()
        for log in self.logs:
            log.lose(is_crash=True)
        for connection in list(self._connections):
            connection.close()
        self.world.after(self.world.random.randint(10, 2_000), self._restart)

    def _restart(self) -> None:
        self.up = True
        for partition in self.partitions.values():
            partition.load()
        self.groups.load()
        self._markers = self._new_markers()
        self.coordinator.load()

    # Markers and verification

    def write_marker(self, name: TopicPartition, end: TransactionEnd, done: OnMarkerWritten) -> None:
        """Write one marker after a delay, as `LocalMarkerWriter` does."""
        spoiled, life = self._parts.spoil(name, end), self._life

        def write() -> None:
            if life != self._life:
                return
            if spoiled is None:
                done(ErrorCode.NONE)
            elif name.topic == CONSUMER_OFFSETS:
                self.groups.write_marker(spoiled, done)
            else:
                self.partitions[name.topic, name.partition].write_marker(spoiled, done)

        self.world.after(self.world.random.randint(*self.marker_ms), write)

    def verify(
        self, question: Question, then: Callable[[ErrorCode], None], retries: int = VERIFICATION_RETRIES
    ) -> None:
        """Verify a partition with the transaction coordinator; retry briefly while the previous end is pending."""
        life = self._life
        added = AddPartitions(
            question.transactional_id,
            question.producer_id,
            question.producer_epoch,
            [question.partition],
            not question.adds,
            2,
        )

        def heard(error: ErrorCode) -> None:
            if life == self._life:
                then(error)

        def answered(response: Any) -> None:
            if life != self._life:
                return
            if isinstance(response, NotCoordinator):
                then(ErrorCode.NOT_COORDINATOR)
                return
            error = response.errors[question.partition]
            if error is ErrorCode.CONCURRENT_TRANSACTIONS and question.adds and retries:
                self.world.after(VERIFICATION_RETRY_MS, lambda: self.verify(question, then, retries - 1))
            else:
                # Deliver the response later, so that other events may come first.
                self.world.after(self.world.random.randint(0, 3), lambda: heard(error))

        self.coordinator.ask(added, 0, answered)

    # Requests

    def lost(self, connection: Connection) -> None:
        """Handle a closed connection."""
        self._connections.pop(connection, None)

    def receive(self, connection: Connection, request: Request) -> None:
        """Handle a request that has arrived."""
        if not self.up:
            connection.close()
            return
        self._connections[connection] = None
        message, version = decode(request.api, request.version, request.body), request.version

        def answer(response: Any) -> None:
            if not isinstance(response, NotCoordinator):
                response = decode(type(response), version, encode(response, version))
            connection.answer(request, response)

        match message:
            case InitProducerIdRequest() | EndTxnRequest():
                self.coordinator.ask(message, version, answer)
            case AddPartitionsToTxnRequest():
                self._add_partitions(message, answer)
            case AddOffsetsToTxnRequest():
                self._add_offsets(message, answer)
            case TxnOffsetCommitRequest():
                self.groups.commit(message, version, lambda error: answer(_committed(message, error)))
            case ProduceRequest():
                self._produce(message, version, answer)
            case _:
                raise AssertionError(message)

    def _add_partitions(self, message: AddPartitionsToTxnRequest, answer: Callable[[Any], None]) -> None:
        names = [(topic.name, number) for topic in message.v3_and_below_topics for number in topic.partitions]
        asked = AddPartitions(
            message.v3_and_below_transactional_id,
            message.v3_and_below_producer_id,
            message.v3_and_below_producer_epoch,
            names,
            False,
            0,
        )

        def added(response: Any) -> None:
            if isinstance(response, AddPartitionsResult):
                results = [
                    AddPartitionsToTxnTopicResult(
                        name=topic,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=number, partition_error_code=error
                            )
                        ],
                    )
                    for (topic, number), error in response.errors.items()
                ]
                response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
            answer(response)

        self.coordinator.ask(asked, 0, added)

    def _add_offsets(self, message: AddOffsetsToTxnRequest, answer: Callable[[Any], None]) -> None:
        producer = message.producer_id, message.producer_epoch
        asked = AddPartitions(message.transactional_id, *producer, [self.groups.name], False, 0)

        def added(response: Any) -> None:
            if isinstance(response, AddPartitionsResult):
                (error,) = response.errors.values()
                response = AddOffsetsToTxnResponse(error_code=error)
            answer(response)

        self.coordinator.ask(asked, 0, added)

    def _produce(self, message: ProduceRequest, version: int, answer: Callable[[Any], None]) -> None:
        (topic,) = message.topic_data
        (data,) = topic.partition_data
        assert data.records is not None
        assert message.transactional_id is not None

        def done(error: ErrorCode) -> None:
            result = PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)
            answer(
                ProduceResponse(
                    responses=[TopicProduceResponse(name=topic.name, partition_responses=[result])]
                )
            )

        partition = self.partitions[topic.name, data.index]
        adds = version >= ADDS_SINCE
        partition.produce(bytes(data.records), message.transactional_id, adds=adds, done=done)


def _committed(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    results = [TxnOffsetCommitResponsePartition(partition_index=0, error_code=error)]
    return TxnOffsetCommitResponse(
        topics=[TxnOffsetCommitResponseTopic(name=request.topics[0].name, partitions=results)]
    )
