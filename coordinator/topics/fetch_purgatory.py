"""Delayed fetches, by partition, so that an append wakes only the affected ones, and by deadline."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from coordinator.core.outcome import Context
from coordinator.topics.fetch_session import FetchContext
from coordinator.topics.partition import ReadablePartition
from storage.batch import read_header
from storage.log import PartitionLog
from storage.storage_errors import StorageError
from storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from protocol.messages.fetch import FetchRequest

_SPARE: Final = 64
MAX_PARTITIONS: Final = 200_000
"""The maximum number of partitions in all delayed fetches. Their memory is held for as long as clients choose to
wait.
"""


class AwaitedPartition:
    """A partition that a delayed fetch waits for, and how far its bytes have been counted."""

    __slots__ = ("_is_committed", "_partition", "counted_to", "left_bytes")

    def __init__(
        self, partition: ReadablePartition, fetch_offset: int, max_bytes: int, *, is_committed: bool
    ) -> None:
        """Create the entry of a partition. With `is_committed` only records before the last stable offset
        count."""
        self._partition = partition
        self._is_committed = is_committed
        self.counted_to = fetch_offset
        self.left_bytes = max_bytes
        """The number of bytes of this partition that still fit into the response."""

    @property
    def end_offset(self) -> int:
        """Return the offset at which reads end now."""
        return self._partition.last_stable_offset if self._is_committed else self._partition.high_watermark

    def count_new_bytes(self, most: int) -> int:
        """Count the bytes that became readable since the last count. Stop at `most` bytes or more."""
        log, end = self._partition.log, self.end_offset
        if log is None or end <= self.counted_to:
            return 0
        try:
            counted, self.counted_to = count_readable_bytes(
                log, self.counted_to, end, min(most, self.left_bytes)
            )
        except (StorageError, OSError):
            # The response reads from here and reports the error. If a later segment has no loaded indexes, the
            # response is early, as in Kafka for a fetch from an older segment.
            return most
        self.left_bytes -= counted
        return counted


def count_readable_bytes(log: PartitionLog, offset: int, end: int, most: int) -> tuple[int, int]:
    """Return the bytes of whole batches from `offset` to `end`, up to about `most`, and the offset after them."""
    size = 0
    while size < most and log.log_start_offset <= offset < end:
        data = log.read(offset, most - size, up_to=end)
        if not data:
            break
        size += len(data)
        position = 0
        while position < len(data):
            header = read_header(data, position)
            offset = header.next_offset
            position += header.size_bytes
    return min(size, most), offset


class DelayedFetch:
    """A fetch that found fewer bytes than it requires."""

    __slots__ = (
        "awaited",
        "context",
        "deadline_ms",
        "fetch",
        "is_done",
        "missing_bytes",
        "partitions",
        "request",
    )

    def __init__(
        self, request: "FetchRequest", context: Context, fetch: FetchContext, deadline_ms: int
    ) -> None:
        """`deadline_ms` is the monotonic time at which the fetch completes with any available records."""
        self.request = request
        """The limits of the request; `fetch` has the offsets."""
        request.topics, request.forgotten_topics_data = [], []
        self.context = context
        self.partitions = len(fetch.targets)
        self.fetch = fetch
        self.deadline_ms = deadline_ms
        self.awaited: dict[TopicPartition, AwaitedPartition] = {}
        self.missing_bytes = max(1, request.min_bytes)
        self.is_done = False

    def __lt__(self, other: "DelayedFetch") -> bool:
        return self.deadline_ms < other.deadline_ms

    def is_satisfied_by(self, name: TopicPartition) -> bool:
        """Return whether the present records of a partition satisfy the fetch."""
        awaited = self.awaited[name]
        if self.missing_bytes == 1 and awaited.left_bytes > 0:
            return awaited.end_offset > awaited.counted_to
        self.missing_bytes -= awaited.count_new_bytes(self.missing_bytes)
        return self.missing_bytes <= 0


class FetchPurgatory:
    """All delayed fetches, at most one for each waiter."""

    def __init__(self) -> None:
        self._by_waiter: dict[int, DelayedFetch] = {}
        self._by_partition: dict[TopicPartition, dict[int, DelayedFetch]] = {}
        self._by_deadline: list[DelayedFetch] = []
        self._partitions = 0
        self.interruption_count = 0
        """The number of deletions and leader changes of partitions."""

    def has_room(self, partitions: int) -> bool:
        """Return whether a fetch from this many partitions may wait. Otherwise the broker answers it at once."""
        return self._partitions + partitions <= MAX_PARTITIONS

    def __len__(self) -> int:
        return len(self._by_waiter)

    def add_fetch(self, delayed: DelayedFetch) -> None:
        """Add a fetch. It waits until an awaited partition satisfies it or its deadline passes."""
        waiter = delayed.context.waiter
        assert waiter not in self._by_waiter, waiter
        self._by_waiter[waiter] = delayed
        self._partitions += delayed.partitions
        heappush(self._by_deadline, delayed)
        for name in delayed.awaited:
            self._by_partition.setdefault(name, {})[waiter] = delayed

    def pop_satisfied(self, name: TopicPartition) -> list[DelayedFetch]:
        """Remove and return the fetches that a partition's new records satisfy."""
        waiting = self._by_partition.get(name)
        if not waiting:
            return []
        woken = [delayed for delayed in waiting.values() if delayed.is_satisfied_by(name)]
        for delayed in woken:
            self._remove_fetch(delayed)
        return woken

    def pop_interrupted(self, names: Sequence[TopicPartition]) -> list[DelayedFetch]:
        """Remove and return the fetches that await one of these partitions, which were deleted or have a new
        leader.
        """
        woken = []
        self.interruption_count += len(names)
        for name in names:
            for delayed in list(self._by_partition.get(name, {}).values()):
                self._remove_fetch(delayed)
                woken.append(delayed)
        return woken

    def pop_expired(self, monotonic_ms: int) -> list[DelayedFetch]:
        """Remove and return the fetches past their deadline."""
        expired = []
        while self._by_deadline and (
            self._by_deadline[0].is_done or self._by_deadline[0].deadline_ms <= monotonic_ms
        ):
            delayed = heappop(self._by_deadline)
            if not delayed.is_done:
                self._remove_fetch(delayed)
                expired.append(delayed)
        return expired

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline; None without delayed fetches."""
        while self._by_deadline and self._by_deadline[0].is_done:
            heappop(self._by_deadline)
        return self._by_deadline[0].deadline_ms if self._by_deadline else None

    def forget_waiter(self, waiter: int) -> None:
        """Remove the fetch of a waiter after its disconnect."""
        delayed = self._by_waiter.get(waiter)
        if delayed is not None:
            self._remove_fetch(delayed)

    def _remove_fetch(self, delayed: DelayedFetch) -> None:
        delayed.is_done = True
        waiter = delayed.context.waiter
        del self._by_waiter[waiter]
        self._partitions -= delayed.partitions
        for name in delayed.awaited:
            waiting = self._by_partition[name]
            del waiting[waiter]
            if not waiting:
                del self._by_partition[name]
        # Completed entries leave the heap at its top, or here once they are the majority.
        if len(self._by_deadline) > 2 * len(self._by_waiter) + _SPARE:
            self._by_deadline = [entry for entry in self._by_deadline if not entry.is_done]
            heapify(self._by_deadline)
