"""Transaction markers: the end of a transaction, written to every partition of the transaction.

The coordinator gets a report when all partitions have their marker. A partition of a topic gets a control batch, a
partition of `__consumer_offsets` a request. The callback of a marker runs once, when the marker is as durable as
the records that it ends.

A marker that cannot be written is retried after a pause, as long as its partition exists: a decided transaction
must end. A deleted partition needs no marker. A partition that knows a newer epoch of the producer or of the
coordinator fences the transaction, which is then not ended there.

Thousands of transactions may end together, each in many partitions. The manager writes a few markers of one
transaction, then a few of the next one, for one slice in the next iteration of the loop. Then it continues in its
turns of the run queue. It is a `QueuedWorker` and not a coroutine, because it belongs to no request and never
suspends.

Source: Kafka's `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler`,
`KafkaApis.handleWriteTxnMarkersRequest`, `GroupCoordinatorService.completeTransaction`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from coordinator.apis.data_plane_handler import DataPlaneHandler
from coordinator.apis.group_handlers import GroupPartition, GroupRouter
from coordinator.core import clock
from coordinator.core.message_text import printable
from coordinator.core.outcome import Context
from coordinator.core.reply import InternalReply
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.core.time_budget import RunQueue, TimeBudget
from coordinator.group.group_requests import EndTransaction
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.runtime.runtime import Runtime
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import TopicChange
from coordinator.transactions.transaction_requests import WriteMarkers
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.error_codes import ErrorCode
from storage.producers.end_transaction_marker import EndMarker
from storage.producers.producer_state import CoordinatorFenced, InvalidProducerEpoch
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("TransactionMarkerChannelManager")
INITIAL_RETRY_MS: Final = 100
"""The first pause before a retry. It doubles up to the maximum."""
MAX_RETRY_MS: Final = 3_200
MARKERS_PER_TURN: Final = 20
"""Markers of one transaction that are written before other transactions get their turn."""
RETRIABLE_ERRORS: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
FENCING_ERRORS: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)

OnMarkerWritten = Callable[[ErrorCode], None]
"""Called with the result of one marker."""


class TransactionEnd(NamedTuple):
    """The content of a marker. The version is the level of the transaction (`transaction.version`)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool
    transaction_version: int


class TransactionMarkerWriter(Protocol):
    """A writer of markers to partitions of any kind."""

    def write_marker(
        self, partition: TopicPartition, end: TransactionEnd, on_written: OnMarkerWritten
    ) -> None:
        """Write one marker to a partition."""


class LocalMarkerWriter:
    """Writes markers to the partitions of this process. All methods belong to the event loop's thread."""

    def __init__(
        self,
        data_plane: DataPlane,
        topics: DataPlaneHandler,
        groups: GroupRouter,
        arrival: clock.Arrival,
        on_topics_changed: Callable[[Sequence[TopicChange]], None],
    ) -> None:
        """Create the writer.

        Args:
            arrival: the arrival time that the engine uses for the current request.
            on_topics_changed: called with the changes of topics.
        """
        self._data_plane = data_plane
        self._topics = topics
        self._groups = groups
        self._arrival = arrival
        self._on_topics_changed = on_topics_changed

    def write_marker(
        self, partition: TopicPartition, end: TransactionEnd, on_written: OnMarkerWritten
    ) -> None:
        """Write one marker to a partition."""
        if partition.topic == CONSUMER_OFFSETS:
            self._write_to_groups(partition.partition, end, on_written)
        else:
            self._write_to_topic(partition, end, on_written)

    # Topics

    def _write_to_topic(
        self, partition: TopicPartition, end: TransactionEnd, on_written: OnMarkerWritten
    ) -> None:
        if self._data_plane.ownership.is_remote(partition):
            on_written(ErrorCode.NOT_LEADER_OR_FOLLOWER)
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
            self._on_topics_changed(written.changes)
        self._topics.complete_fetches(written.completions)
        log = written.log
        if written.error is not ErrorCode.NONE or log is None or log.durable_offset >= written.end_offset:
            on_written(written.error)
        else:
            self._topics.produce_purgatory.call_when_durable(log, written.end_offset, on_written)

    # Groups

    def _write_to_groups(self, number: int, end: TransactionEnd, on_written: OnMarkerWritten) -> None:
        runtime = self._groups.runtime
        if not 0 <= number < len(runtime.partitions):
            on_written(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        partition: GroupPartition = runtime.partitions[number]
        if partition.state is not PartitionState.OWNED:
            on_written(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        try:
            partition.check_marker(
                end.producer_id, end.producer_epoch, end.coordinator_epoch, end.transaction_version
            )
        except InvalidProducerEpoch:
            on_written(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        except CoordinatorFenced:
            on_written(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
            return
        request = EndTransaction(end.producer_id, end.producer_epoch, end.coordinator_epoch, end.is_committed)

        def on_response(response: object) -> None:
            assert isinstance(response, ErrorCode)
            # A partition that is not in service now may return soon.
            on_written(response if response is ErrorCode.NONE else ErrorCode.NOT_LEADER_OR_FOLLOWER)

        self._arrival.advance(clock.monotonic_ns())
        context = Context(runtime.next_waiter(), 0, "", "")
        reply = InternalReply(on_response)
        reply.complete_with(runtime.execute_request, partition, request, context, reply.reopen)


class TransactionMarkerManager:
    """The deliveries in progress, at most one for each transactional id."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        run_queue: RunQueue,
        writer: TransactionMarkerWriter,
        runtime: Runtime[TransactionShard],
        on_transaction_ended: Callable[[str], None],
    ) -> None:
        """Create the manager.

        Args:
            on_transaction_ended: called with a transactional id when the coordinator knows that its transaction has
                ended in all partitions.
        """
        self._loop = loop
        self._run_queue = run_queue
        self._budget = TimeBudget(run_queue)
        self._writer = writer
        self._runtime = runtime
        self._on_transaction_ended = on_transaction_ended
        self._deliveries: dict[str, _MarkerDelivery] = {}
        self._queue: deque[_MarkerDelivery] = deque()
        """Deliveries with markers to write now."""
        self._is_due = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._deliveries)

    def deliver_markers(self, transactional_id: str, request: object) -> None:
        """Handle a WriteMarkers. It replaces an unfinished delivery of its transactional id: the coordinator was
        loaded again.
        """
        assert isinstance(request, WriteMarkers)
        if not self._is_closed:
            delivery = self._deliveries[transactional_id] = _MarkerDelivery(request)
            self._enqueue(delivery)

    def drop_partition(self, number: int) -> None:
        """Drop the deliveries of a coordinator partition that moved or is loaded again. Its next load sends the
        remaining markers.
        """
        find_partition = self._runtime.find_partition
        for transactional_id in [each for each in self._deliveries if find_partition(each).number == number]:
            del self._deliveries[transactional_id]

    def close(self) -> None:
        """Stop writing. The next start writes the remaining markers."""
        self._is_closed = True
        self._deliveries.clear()
        self._queue.clear()

    def _is_current(self, delivery: "_MarkerDelivery") -> bool:
        return self._deliveries.get(delivery.request.transactional_id) is delivery

    def _enqueue(self, delivery: "_MarkerDelivery") -> None:
        self._queue.append(delivery)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self.run_slice)

    def run_slice(self) -> None:
        """Write markers for a slice."""
        self._is_due = False
        self._budget.begin_slice()
        while self._queue:
            delivery = self._queue.popleft()
            self._write_some(delivery)
            if delivery.unwritten and self._is_current(delivery):
                self._queue.append(delivery)
            if self._queue and self._budget.is_slice_over:
                break
        if self._queue and not self._is_due:
            self._is_due = True
            self._run_queue.add(self)

    def _write_some(self, delivery: "_MarkerDelivery") -> None:
        for _ in range(MARKERS_PER_TURN):
            if not delivery.unwritten or not self._is_current(delivery):
                return
            partition = delivery.unwritten.popleft()
            delivery.awaited += 1
            on_written = partial(self._on_marker_written, delivery, partition)
            try:
                self._writer.write_marker(partition, delivery.end, on_written)
            except Exception as problem:  # noqa: BLE001 - other markers must be written; this one is retried
                _LOG.error("Failed to write the marker for %s", partition, exc_info=problem)
                on_written(ErrorCode.KAFKA_STORAGE_ERROR)

    def _on_marker_written(
        self, delivery: "_MarkerDelivery", partition: TopicPartition, error: ErrorCode
    ) -> None:
        if not self._is_current(delivery):
            return
        delivery.awaited -= 1
        if error in RETRIABLE_ERRORS:
            delivery.retriable.append(partition)
        elif error in FENCING_ERRORS:
            self._abandon_delivery(delivery, partition, error)
            return
        else:
            if error is not ErrorCode.NONE:
                _LOG.info(
                    "%s: no marker is needed for %s, because the partition was deleted (%s)",
                    printable(delivery.request.transactional_id),
                    partition,
                    error.name,
                )
            delivery.written.append(partition)
        if not delivery.awaited and not delivery.unwritten:
            self._finish_round(delivery)

    def _abandon_delivery(
        self, delivery: "_MarkerDelivery", partition: TopicPartition, error: ErrorCode
    ) -> None:
        request = delivery.request
        del self._deliveries[request.transactional_id]
        if delivery.written:
            self._notify_coordinator(request, request.build_markers_written(_to_pairs(delivery.written)))
        _LOG.warning(
            "%s: the marker for %s is dropped, because the partition has a newer epoch of the producer (%s)",
            printable(request.transactional_id),
            partition,
            error.name,
        )
        self._notify_coordinator(
            request, request.build_markers_refused([(partition.topic, partition.partition)], error)
        )

    def _finish_round(self, delivery: "_MarkerDelivery") -> None:
        """Report finished markers, and retry the others."""
        request = delivery.request
        written, delivery.written = delivery.written, []
        again, delivery.retriable = delivery.retriable, []
        if not again:
            del self._deliveries[request.transactional_id]
        else:
            self._loop.call_later(delivery.retry_ms / 1000, self._retry_markers, delivery, again)
            delivery.retry_ms = min(2 * delivery.retry_ms, MAX_RETRY_MS)
        if written or not again:
            self._notify_coordinator(request, request.build_markers_written(_to_pairs(written)))
        if not again:
            self._on_transaction_ended(request.transactional_id)

    def _retry_markers(self, delivery: "_MarkerDelivery", partitions: list[TopicPartition]) -> None:
        if self._is_current(delivery):
            delivery.unwritten.extend(partitions)
            self._enqueue(delivery)

    def _notify_coordinator(self, request: WriteMarkers, message: object) -> None:
        self._runtime.receive_message(request.transactional_id, message)


class _MarkerDelivery:
    """The markers of one transaction: unwritten ones, ones in progress, and results."""

    __slots__ = ("awaited", "end", "request", "retriable", "retry_ms", "unwritten", "written")

    def __init__(self, request: WriteMarkers) -> None:
        self.request = request
        self.end = TransactionEnd(
            request.producer_id,
            request.producer_epoch,
            request.coordinator_epoch,
            request.is_committed,
            request.transaction_version,
        )
        self.unwritten = deque(TopicPartition(name, number) for name, number in request.partitions)
        self.awaited = 0
        self.written: list[TopicPartition] = []
        self.retriable: list[TopicPartition] = []
        self.retry_ms = INITIAL_RETRY_MS


def _to_pairs(partitions: list[TopicPartition]) -> list[tuple[str, int]]:
    return [(partition.topic, partition.partition) for partition in partitions]
