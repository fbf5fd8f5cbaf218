"""Brings the ends of transactions to every partition that they wrote to, and tells their coordinator when all know.

A marker that cannot be written now is written again after a moment, for as long as its partition is there: there is
no other way out of a transaction that has been decided. A partition that was deleted needs none. Where a partition
knows a newer incarnation of the producer, or of the coordinator, the transaction is not this one's to end.

Source: Kafka's `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler`.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from coordinator.engine.runtime import Runtime
from coordinator.net.peer import printable
from coordinator.server.marker_writer import MarkerWriter, TransactionEnd
from coordinator.transactions.requests import WriteMarkers
from coordinator.transactions.shard import TransactionShard
from protocol.errors import ErrorCode
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("TransactionMarkerChannelManager")

RETRY_MS: Final = 100
AT_ONCE: Final = 200
"""Markers of one transaction that are written before others have their turn."""

AGAIN: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class Markers:
    """The deliveries that are under way, one for each transactional id at most."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, writer: MarkerWriter, runtime: Runtime[TransactionShard]
    ) -> None:
        self._loop = loop
        self._writer = writer
        self._runtime = runtime
        self._under_way: dict[str, _Delivery] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._under_way)

    def receive(self, transactional_id: str, request: object) -> None:
        """Takes a WriteMarkers. One for an id whose last one is still under way takes its place: its coordinator
        was loaded again."""
        assert isinstance(request, WriteMarkers)
        delivery = self._under_way[transactional_id] = _Delivery(request)
        self._go_on(delivery)

    def close(self) -> None:
        """Writes no more. What is not written is by the next start."""
        self._is_closed = True
        self._under_way.clear()

    def _is_current(self, delivery: "_Delivery") -> bool:
        return self._under_way.get(delivery.request.transactional_id) is delivery

    def _go_on(self, delivery: "_Delivery") -> None:
        """Writes the next markers."""
        if not self._is_current(delivery):
            return
        some, delivery.unwritten = delivery.unwritten[:AT_ONCE], delivery.unwritten[AT_ONCE:]
        delivery.awaited += len(some)
        for partition in some:
            self._writer.write(partition, delivery.end, partial(self._written, delivery, partition))
        if delivery.unwritten:
            self._loop.call_soon(self._go_on, delivery)

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
        delivery.unwritten, delivery.again = delivery.again, []
        if not delivery.unwritten:
            del self._under_way[request.transactional_id]
        elif not self._is_closed:
            self._loop.call_later(RETRY_MS / 1000, self._go_on, delivery)
        if done or not delivery.unwritten:
            self._tell(
                request, request.written([(partition.topic, partition.partition) for partition in done])
            )

    def _tell(self, request: WriteMarkers, message: object) -> None:
        self._runtime.receive(request.transactional_id, message)


class _Delivery:
    """The markers of one transaction: those to be written, those on their way, and what came of the others."""

    __slots__ = ("again", "awaited", "done", "end", "request", "unwritten")

    def __init__(self, request: WriteMarkers) -> None:
        self.request = request
        self.end = TransactionEnd(
            request.producer_id,
            request.producer_epoch,
            request.coordinator_epoch,
            request.is_committed,
            request.transaction_version,
        )
        self.unwritten: Sequence[TopicPartition] = [
            TopicPartition(name, number) for name, number in request.partitions
        ]
        self.awaited = 0
        self.done: list[TopicPartition] = []
        self.again: list[TopicPartition] = []
