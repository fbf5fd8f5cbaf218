"""Brings the ends of transactions to every partition that they wrote to, and tells their coordinator when all know.

A marker that cannot be written now is written again after a moment, for as long as its partition is there: there is
no other way out of a transaction that has been decided. A partition that was deleted needs none. Where a partition
knows a newer incarnation of the producer, or of the coordinator, the transaction is not this one's to end.

Thousands of transactions may end at once, each in many partitions: markers are written in slices, a few of one
transaction after a few of another, with everybody else in between.

Source: Kafka's `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from coordinator import clock
from coordinator.engine.runtime import Runtime
from coordinator.net.peer import printable
from coordinator.net.run_queue import SLICE_NS
from coordinator.server.marker_writer import TransactionEnd, WritesMarkers
from coordinator.transactions.requests import WriteMarkers
from coordinator.transactions.shard import TransactionShard
from protocol.errors import ErrorCode
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("TransactionMarkerChannelManager")

RETRY_MS: Final = 100
"""After the first time; then twice as long each time, up to the other one."""
MOST_RETRY_MS: Final = 3_200
AT_ONCE: Final = 20
"""Markers of one transaction that are written before others have their turn."""

AGAIN: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class Markers:
    """The deliveries that are under way, one for each transactional id at most."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        writer: WritesMarkers,
        runtime: Runtime[TransactionShard],
        ended: Callable[[str], None],
    ) -> None:
        """In: who is told of transactional ids when the coordinator knows that their transactions have ended
        everywhere."""
        self._loop = loop
        self._writer = writer
        self._runtime = runtime
        self._ended = ended
        self._under_way: dict[str, _Delivery] = {}
        self._in_line: deque[_Delivery] = deque()
        """Those with markers to be written now."""
        self._is_due = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._under_way)

    def receive(self, transactional_id: str, request: object) -> None:
        """Takes a WriteMarkers. One for an id whose last one is still under way takes its place: its coordinator
        was loaded again."""
        assert isinstance(request, WriteMarkers)
        if not self._is_closed:
            delivery = self._under_way[transactional_id] = _Delivery(request)
            self._get_in_line(delivery)

    def forget(self, number: int) -> None:
        """The coordinator of this partition is elsewhere, or is to be read again: whoever it is asks for what is
        left to be written."""
        partition_of = self._runtime.partition_of
        for transactional_id in [each for each in self._under_way if partition_of(each).number == number]:
            del self._under_way[transactional_id]

    def close(self) -> None:
        """Writes no more. What is not written is by the next start."""
        self._is_closed = True
        self._under_way.clear()
        self._in_line.clear()

    def _is_current(self, delivery: "_Delivery") -> bool:
        return self._under_way.get(delivery.request.transactional_id) is delivery

    def _get_in_line(self, delivery: "_Delivery") -> None:
        self._in_line.append(delivery)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        """Writes markers for a slice."""
        self._is_due = False
        started_ns = clock.monotonic_ns()
        while self._in_line and clock.monotonic_ns() - started_ns < SLICE_NS:
            delivery = self._in_line.popleft()
            self._write_some(delivery)
            if delivery.unwritten and self._is_current(delivery):
                self._in_line.append(delivery)
        if self._in_line:
            self._is_due = True
            self._loop.call_soon(self._work)

    def _write_some(self, delivery: "_Delivery") -> None:
        for _ in range(AT_ONCE):
            if not delivery.unwritten or not self._is_current(delivery):
                return
            partition = delivery.unwritten.popleft()
            delivery.awaited += 1
            done = partial(self._written, delivery, partition)
            try:
                self._writer.write(partition, delivery.end, done)
            except Exception as problem:  # noqa: BLE001 - the others are written all the same, and this one again
                _LOG.error("The marker for %s could not be written", partition, exc_info=problem)
                done(ErrorCode.KAFKA_STORAGE_ERROR)

    def _written(self, delivery: "_Delivery", partition: TopicPartition, error: ErrorCode) -> None:
        if not self._is_current(delivery):
            return
        delivery.awaited -= 1
        if error in AGAIN:
            delivery.again.append(partition)
        elif error in FENCED:
            self._give_up(delivery, partition, error)
            return
        else:
            if error is not ErrorCode.NONE:
                _LOG.info(
                    "%s: no marker for %s, which is not there any more (%s)",
                    printable(delivery.request.transactional_id),
                    partition,
                    error.name,
                )
            delivery.done.append(partition)
        if not delivery.awaited and not delivery.unwritten:
            self._round_is_over(delivery)

    def _give_up(self, delivery: "_Delivery", partition: TopicPartition, error: ErrorCode) -> None:
        request = delivery.request
        del self._under_way[request.transactional_id]
        if delivery.done:
            self._tell(request, request.written(_pairs(delivery.done)))
        _LOG.warning(
            "%s: its transaction is not ended in %s, which knows a newer epoch (%s); no further marker is written",
            printable(request.transactional_id),
            partition,
            error.name,
        )
        self._tell(request, request.refused([(partition.topic, partition.partition)], error))

    def _round_is_over(self, delivery: "_Delivery") -> None:
        """Tells what is done, and does again what is not."""
        request = delivery.request
        done, delivery.done = delivery.done, []
        again, delivery.again = delivery.again, []
        if not again:
            del self._under_way[request.transactional_id]
        else:
            self._loop.call_later(delivery.retry_ms / 1000, self._try_again, delivery, again)
            delivery.retry_ms = min(2 * delivery.retry_ms, MOST_RETRY_MS)
        if done or not again:
            self._tell(request, request.written(_pairs(done)))
        if not again:
            self._ended(request.transactional_id)

    def _try_again(self, delivery: "_Delivery", partitions: list[TopicPartition]) -> None:
        if self._is_current(delivery):
            delivery.unwritten.extend(partitions)
            self._get_in_line(delivery)

    def _tell(self, request: WriteMarkers, message: object) -> None:
        self._runtime.receive(request.transactional_id, message)


class _Delivery:
    """The markers of one transaction: those to be written, those on their way, and what came of the others."""

    __slots__ = ("again", "awaited", "done", "end", "request", "retry_ms", "unwritten")

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
        self.done: list[TopicPartition] = []
        self.again: list[TopicPartition] = []
        self.retry_ms = RETRY_MS


def _pairs(partitions: list[TopicPartition]) -> list[tuple[str, int]]:
    return [(partition.topic, partition.partition) for partition in partitions]
