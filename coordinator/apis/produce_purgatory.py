"""Who waits until records of topics are durable: answers to Produce, and who writes markers."""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from coordinator.engine.durability import Durability
from coordinator.engine.routed_durability import RoutedDurability
from coordinator.net.slot import Slot
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceResponse
from storage.errors import StorageError
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition

Done = Callable[[ErrorCode], None]


class Ears(NamedTuple):
    """Who is told what becomes of logs."""

    advanced: Callable[[TopicPartition], None]
    """More of it is durable."""
    failed: Callable[[TopicPartition, StorageError], None]
    """The disk refused."""


class _Waiting:
    """An answer to Produce that waits until its records are durable."""

    __slots__ = ("logs", "response", "slot")

    def __init__(self, slot: Slot, response: object, logs: dict[PartitionLog, int]) -> None:
        self.slot = slot
        self.response = response
        self.logs = logs

    def reached(self, log: PartitionLog) -> None:
        """It waits for a log no longer."""
        del self.logs[log]
        if not self.logs and self.slot.data is None:
            self.slot.fill(self.response)


class DurableAnswers:
    """All methods belong to the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        durability: Durability,
        topic_id: Callable[[str], bytes],
        ears: Ears,
    ) -> None:
        """In: what makes logs durable; the id of a topic by its name, empty for one that is gone."""
        self.not_written: Callable[[TopicPartition, PartitionLog], None] = lambda *_: None
        """Told that nobody knows what the engine of a cluster has of a log; set by whoever has such logs."""
        self._loop = loop
        self._durability = durability
        self._topic_id = topic_id
        self._ears = ears
        self._waiting: dict[PartitionLog, list[_Waiting]] = {}
        self._awaited: dict[PartitionLog, list[tuple[int, Done]]] = {}
        """Who, besides, waits until a log is durable up to an offset."""

    def replicates(self, engine: Durability) -> None:
        """Some logs are copies of what an engine has from now on."""
        self._durability = RoutedDurability(self._durability, engine)

    # Waiting

    def wait_for(self, logs: dict[PartitionLog, int], response: object, slot: Slot) -> None:
        """Fills a slot once logs are durable up to offsets; where one is not, its part of the answer says so."""
        for log in [each for each in logs if _is_given_up(each)]:
            self._refuse(response, log)
            del logs[log]
        if not logs:
            slot.fill(response)
            return
        self.have_synced(logs)
        entry = _Waiting(slot, response, logs)
        for log in logs:
            self._waiting.setdefault(log, []).append(entry)

    def await_durable(self, log: PartitionLog, end_offset: int, done: Done) -> None:
        """Has `done` called once a log is durable up to an offset, or is gone for good; or its error is."""
        self._awaited.setdefault(log, []).append((end_offset, done))
        self.have_synced([log])

    def have_synced(self, logs: Iterable[PartitionLog]) -> None:
        """Has logs made durable, with what others need that are answered in the same iteration of the loop."""
        for log in logs:
            self._durability.need(log, self._synced)
        self._loop.call_soon(self._durability.kick)

    def sync(self, logs: Iterable[PartitionLog]) -> None:
        """The same, at once."""
        for log in logs:
            self._durability.need(log, self._synced)
        self._durability.kick()

    @property
    def answers(self) -> int:
        """How many answers are owed."""
        return len({entry for waiting in self._waiting.values() for entry in waiting})

    @property
    def logs(self) -> Iterable[PartitionLog]:
        """The logs that answers wait for, or others."""
        return {**self._waiting, **self._awaited}

    def forget(self) -> None:
        """What makes logs durable, which others share, goes on without it."""
        self._durability.forget(self._synced)

    # What became of it

    def _synced(self, log: PartitionLog, error: StorageError | None) -> None:
        if log in self._awaited:
            self._tell_awaiting(log, error)
        waiting = self._waiting.pop(log, None)
        if waiting is not None and log.is_closed and log.failure is None:
            self._settle_deleted(log, waiting)
        elif waiting is not None:
            self._settle(log, waiting, error)
        if error is None:
            self._ears.advanced(_partition_of(log))

    def _settle(self, log: PartitionLog, waiting: list[_Waiting], error: StorageError | None) -> None:
        later: list[_Waiting] = []
        for entry in waiting:
            if entry.slot.data is not None:
                continue
            if error is not None:
                self._refuse(entry.response, log)
                entry.reached(log)
            elif log.durable_offset >= entry.logs[log]:
                entry.reached(log)
            else:
                later.append(entry)
        if error is not None:
            self._tell_failed(log, error)
        if later:
            self._waiting[log] = later
            self.sync([log])

    def _tell_failed(self, log: PartitionLog, error: StorageError) -> None:
        if log.durability.outgoing is None:
            self._ears.failed(_partition_of(log), error)
        else:
            self.not_written(_partition_of(log), log)

    def let_go(self, log: PartitionLog) -> None:
        """A log that the engine of a cluster has is not led here any more: whoever waits for it is told so."""
        for end_offset, done in self._awaited.pop(log, ()):
            done(ErrorCode.NONE if log.durable_offset >= end_offset else _refusal(log))
        for entry in self._waiting.pop(log, ()):
            self._refuse(entry.response, log)
            entry.reached(log)

    def topic_deleted(self, name: str, *, is_gone: bool) -> None:
        """Logs of a topic that the engine of a cluster has are closed. In: whether the engine has none of it any
        more; where the deletion was refused, what is under way may be lost."""
        for log in [each for each in self.logs if each.is_deleted and _partition_of(each).topic == name]:
            if log.durability.outgoing is None:
                continue  # the disk tells of it
            if is_gone:
                self._tell_awaiting(log, None)
                self._settle_deleted(log, self._waiting.pop(log, []))
            else:
                self.let_go(log)

    @staticmethod
    def _settle_deleted(log: PartitionLog, waiting: list[_Waiting]) -> None:
        """The topic was deleted after these records were appended: nothing of it has to last any more."""
        for entry in waiting:
            entry.reached(log)

    def _refuse(self, response: object, log: PartitionLog) -> None:
        """What was appended to this log may be lost: its partition's part of an answer to Produce says so."""
        assert isinstance(response, ProduceResponse)
        name, partition = _partition_of(log)
        topic_id = self._topic_id(name)
        for answered in response.responses:
            if answered.name != name and answered.topic_id != topic_id:
                continue
            for part in answered.partition_responses:
                if part.index == partition and part.error_code == ErrorCode.NONE:
                    part.error_code = _refusal(log)
                    part.base_offset = -1

    def _tell_awaiting(self, log: PartitionLog, error: StorageError | None) -> None:
        later = []
        for end_offset, done in self._awaited.pop(log, ()):
            if log.is_deleted or log.durable_offset >= end_offset:
                done(ErrorCode.NONE)
            elif error is not None or log.is_closed:
                done(_refusal(log))
            else:
                later.append((end_offset, done))
        if later:
            self._awaited[log] = later
            self.sync([log])


def _is_given_up(log: PartitionLog) -> bool:
    """Whether nobody brings a log to the engine of a cluster any more, which may not have all of it."""
    return log.durability.outgoing is not None and not log.is_open and not log.is_deleted


def _refusal(log: PartitionLog) -> ErrorCode:
    """What is told of records of which nobody knows whether they last. Where the engine of a cluster has the log,
    the next leader knows."""
    is_copy = log.durability.outgoing is not None
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_copy else ErrorCode.KAFKA_STORAGE_ERROR


def _partition_of(log: PartitionLog) -> TopicPartition:
    """The topic and number in the name of a log's directory."""
    topic, _, number = log.directory.rpartition("/")[2].rpartition("-")
    return TopicPartition(topic, int(number))
