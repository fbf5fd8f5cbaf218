"""One partition of `__consumer_offsets`: its groups, its log, and who waits for either.

    LOADING ──▶ ACTIVE ──▶ LOADING (after a failure, from what the disk holds)
       └──────▶ FAILED

Records of a turn are kept as they come, encoded and appended as one batch at its end. The *position* of an answer
is where the log will end with all records that were made before it; the gate holds the answer until that offset is
readable: synced, or only written where the flush policy says so.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from coordinator.group.outcome import Context, Now, Outcome
from coordinator.group.outcome import Record as Fact
from coordinator.group.shard import Shard
from coordinator.server.error_responses import error_response
from coordinator.server.gate import Gate
from coordinator.server.record_bytes import RecordBytes
from coordinator.server.slot import Awaiting
from coordinator.topics.config import LogFlush
from protocol.errors import ErrorCode
from storage.batch import encode_batch
from storage.log import PartitionLog
from storage.record import Record
from storage.topic_partition import TopicPartition

BASE_SEQUENCE: Final = 0
"""What Kafka's coordinator writes, although its batches have no producer."""
MAX_BATCH_BYTES: Final = 1024 * 1024
"""A turn's records are split in batches of about this size, never within the records of one outcome."""


class PartitionState(Enum):
    """What a partition can do."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class OffsetsPartition:
    """See the top of this file. All methods belong to the event loop's thread."""

    __slots__ = (
        "_bytes",
        "_codec",
        "_flush",
        "_pending",
        "deleted_topics",
        "gate",
        "is_dirty",
        "loaded_records",
        "log",
        "name",
        "number",
        "pending_records",
        "shard",
        "state",
        "waiting",
    )

    def __init__(self, name: TopicPartition, flush: LogFlush, codec: int) -> None:
        self.name = name
        self.number = name.partition
        self.state = PartitionState.LOADING
        self.shard: Shard | None = None
        """The groups; None unless the partition is ACTIVE."""
        self.log: PartitionLog | None = None
        self.gate = Gate()
        self.waiting: dict[int, Awaiting] = {}
        self.pending_records = 0
        self.is_dirty = False
        """Whether the end of this turn has something to append."""
        self.loaded_records = 0
        self.deleted_topics: list[str] = []
        """Topics that were deleted while the partition was not ACTIVE."""
        self._pending: list[list[Record]] = []
        self._bytes = RecordBytes()
        self._flush = flush
        self._codec = codec

    @property
    def readable_offset(self) -> int:
        """Where answers and consumers may look up to."""
        log = self.log
        if log is None:
            return 0
        return log.durable_offset if self._flush is LogFlush.ALWAYS else log.log_end_offset

    @property
    def position(self) -> int:
        """Where the log ends once this turn's records are in it."""
        assert self.log is not None
        return self.log.log_end_offset + self.pending_records

    def keep(self, facts: Sequence[Fact], wall_ms: int) -> None:
        """Takes the records of one outcome for the end of the turn."""
        encode = self._bytes.encode
        self._pending.append([encode(fact, wall_ms) for fact in facts])
        self.pending_records += len(facts)

    def write(self) -> bool:
        """Appends this turn's records; whether that began a segment.

        Raises StorageError, OSError; the partition then has to be reloaded.
        """
        log = self.log
        assert log is not None
        units, self._pending, self.pending_records = self._pending, [], 0
        batch: list[Record] = []
        size = 0
        is_rolled = False
        for unit in units:
            unit_size = sum(len(record.key or b"") + len(record.value or b"") for record in unit)
            if batch and size + unit_size > MAX_BATCH_BYTES:
                is_rolled |= self._append(log, batch)
                batch, size = [], 0
            batch += unit
            size += unit_size
        if batch:
            is_rolled |= self._append(log, batch)
        return is_rolled

    def _append(self, log: PartitionLog, batch: Sequence[Record]) -> bool:
        return log.append(encode_batch(batch, base_sequence=BASE_SEQUENCE, codec=self._codec)).is_rolled

    def release(self) -> None:
        """Gives the answers that the log has caught up with."""
        waiting = self.waiting
        for waiter, response in self.gate.release(self.readable_offset):
            entry = waiting.pop(waiter, None)
            if entry is not None:
                entry.fill(response)

    def answer(self, waiter: int, response: object) -> None:
        """Gives an answer, if anybody still waits for it."""
        entry = self.waiting.pop(waiter, None)
        if entry is not None:
            entry.fill(response)

    def forget(self, waiter: int) -> None:
        """Nobody waits for this answer any more: the connection is gone."""
        self.waiting.pop(waiter, None)

    def give_up(self, error: ErrorCode) -> None:
        """Takes the groups out of service: everybody who waits is told `error`."""
        shard, self.shard = self.shard, None
        self._pending, self.pending_records = [], 0
        self.gate.clear()
        answers: dict[int, Any] = {}
        if shard is not None and error is ErrorCode.NOT_COORDINATOR:
            answers = dict(shard.unload())
        waiting, self.waiting = self.waiting, {}
        for waiter, entry in waiting.items():
            response = answers.get(waiter)
            if response is None:
                response = error_response(entry.request, entry.api_version, error)
            entry.fill(response)

    def handle(self, request: Any, context: Context, now: Now) -> Outcome:
        """Asks the groups; the partition is ACTIVE."""
        assert self.shard is not None
        return self.shard.handle(request, context, now)
