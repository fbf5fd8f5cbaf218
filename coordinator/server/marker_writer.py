"""Writes the ends of transactions: to a partition of a topic as a control batch, to one of the groups as a request.

Whoever asks is told once per marker what came of it, when it is as durable as what it ends. Source: Kafka's
`KafkaApis.handleWriteTxnMarkersRequest`, `GroupCoordinatorService.completeTransaction`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from coordinator import clock
from coordinator.answers import Later
from coordinator.engine.partition import PartitionState
from coordinator.engine.place import Taker
from coordinator.group.requests import EndTransaction
from coordinator.machine.outcome import Context
from coordinator.names import CONSUMER_OFFSETS
from coordinator.server.handlers.groups import GroupPartition, GroupRouter
from coordinator.server.handlers.topics import TopicsHandler
from coordinator.topics.answer import TopicChange
from coordinator.topics.data_plane import DataPlane
from protocol.errors import ErrorCode
from storage.producers.marker import EndMarker
from storage.producers.producer_state import CoordinatorFenced, InvalidProducerEpoch
from storage.topic_partition import TopicPartition

Done = Callable[[ErrorCode], None]
"""Takes what came of one marker."""


class TransactionEnd(NamedTuple):
    """What a marker says. The level is that of the transaction (`transaction.version`)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool
    transaction_version: int


class WritesMarkers(Protocol):
    """Whoever writes markers."""

    def write(self, partition: TopicPartition, end: TransactionEnd, done: Done) -> None:
        """Writes one marker."""


class MarkerWriter:
    """All methods belong to the event loop's thread."""

    def __init__(
        self,
        data_plane: DataPlane,
        topics: TopicsHandler,
        groups: GroupRouter,
        arrival: clock.Arrival,
        changed: Callable[[Sequence[TopicChange]], None],
    ) -> None:
        """In: the instant that the engine takes for that of the request at hand; who is told what became of
        topics."""
        self._data_plane = data_plane
        self._topics = topics
        self._groups = groups
        self._arrival = arrival
        self._changed = changed

    def write(self, partition: TopicPartition, end: TransactionEnd, done: Done) -> None:
        """Writes one marker."""
        if partition.topic == CONSUMER_OFFSETS:
            self._write_to_groups(partition.partition, end, done)
        else:
            self._write_to_topic(partition, end, done)

    # Topics

    def _write_to_topic(self, partition: TopicPartition, end: TransactionEnd, done: Done) -> None:
        if self._data_plane.ownership.is_far(partition):
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        marker = EndMarker(end.is_committed, end.coordinator_epoch)
        written = self._data_plane.write_marker(
            partition.topic,
            partition.partition,
            end.producer_id,
            end.producer_epoch,
            marker,
            end.transaction_version,
            clock.now(),
        )
        if written.changes:
            self._changed(written.changes)
        self._topics.complete(written.completions)
        log = written.log
        if written.error is not ErrorCode.NONE or log is None or log.durable_offset >= written.end_offset:
            done(written.error)
        else:
            self._topics.durable.await_durable(log, written.end_offset, done)

    # Groups

    def _write_to_groups(self, number: int, end: TransactionEnd, done: Done) -> None:
        runtime = self._groups.runtime
        if not 0 <= number < len(runtime.partitions):
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        partition: GroupPartition = runtime.partitions[number]
        if partition.state is not PartitionState.OWNED:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        try:
            partition.check_marker(
                end.producer_id, end.producer_epoch, end.coordinator_epoch, end.transaction_version
            )
        except InvalidProducerEpoch:
            done(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        except CoordinatorFenced:
            done(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
            return
        request = EndTransaction(end.producer_id, end.producer_epoch, end.coordinator_epoch, end.is_committed)

        def take(response: object) -> None:
            assert isinstance(response, ErrorCode)
            # A partition that is not in service now may be soon.
            done(response if response is ErrorCode.NONE else ErrorCode.NOT_LEADER_OR_FOLLOWER)

        self._arrival.advance(clock.monotonic_ns())
        context = Context(runtime.next_waiter(), 0, "", "")
        response = runtime.ask(partition, request, context, Taker(take))
        if not isinstance(response, Later):
            take(response)
