"""Who waits until records of topics are durable: answers to Produce, and who writes markers."""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from coordinator.core.reply import Reply
from coordinator.runtime.flusher import DurabilityBackend, RoutedDurability
from protocol.error_codes import ErrorCode
from protocol.messages.produce import ProduceResponse
from storage.log import PartitionLog
from storage.storage_errors import StorageError
from storage.topic_partition import TopicPartition

OnDurable = Callable[[ErrorCode], None]


class LogListeners(NamedTuple):
    """The listeners for the progress and the failures of logs."""

    on_log_advanced: Callable[[TopicPartition], None]
    """More of it is durable."""
    on_log_failed: Callable[[TopicPartition, StorageError], None]
    """The disk refused."""


class _DelayedProduce:
    """An answer to Produce that waits until its records are durable."""

    __slots__ = ("logs", "reply", "response")

    def __init__(self, reply: Reply, response: object, logs: dict[PartitionLog, int]) -> None:
        self.reply = reply
        self.response = response
        self.logs = logs

    def on_log_settled(self, log: PartitionLog) -> None:
        """It waits for a log no longer."""
        del self.logs[log]
        if not self.logs:
            self.reply.send(self.response)


class ProducePurgatory:
    """Keeps answers until the records that they promise are durable. All methods belong to the event loop's
    thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        durability: DurabilityBackend,
        topic_id: Callable[[str], bytes],
        listeners: LogListeners,
    ) -> None:
        """In: what makes logs durable; the id of a topic by its name, empty for one that is gone."""
        self.on_replication_failed: Callable[[TopicPartition, PartitionLog], None] = lambda *_: None
        """Told that nobody knows what the engine of a cluster has of a log; set by whoever has such logs."""
        self._loop = loop
        self._durability = durability
        self._topic_id = topic_id
        self._listeners = listeners
        self._waiting: dict[PartitionLog, list[_DelayedProduce]] = {}
        self._durability_callbacks: dict[PartitionLog, list[tuple[int, OnDurable]]] = {}
        """Who, besides, waits until a log is durable up to an offset."""

    def use_replication(self, replication: DurabilityBackend) -> None:
        """Some logs are copies of what an engine has from now on."""
        self._durability = RoutedDurability(self._durability, replication)

    # Waiting

    def delay_response(self, logs: dict[PartitionLog, int], response: object, reply: Reply) -> None:
        """Send a response once logs are durable up to offsets; where one is not, its part of the response has an
        error."""
        for log in [each for each in logs if _is_abandoned(each)]:
            self._set_partition_error(response, log)
            del logs[log]
        if not logs:
            reply.send(response)
            return
        self.schedule_sync(logs)
        entry = _DelayedProduce(reply, response, logs)
        for log in logs:
            self._waiting.setdefault(log, []).append(entry)

    def call_when_durable(self, log: PartitionLog, end_offset: int, on_durable: OnDurable) -> None:
        """Has `on_durable` called once a log is durable up to an offset, or is gone for good; or its error is."""
        self._durability_callbacks.setdefault(log, []).append((end_offset, on_durable))
        self.schedule_sync([log])

    def schedule_sync(self, logs: Iterable[PartitionLog]) -> None:
        """Has logs made durable, with what others need that are answered in the same iteration of the loop."""
        for log in logs:
            self._durability.request_sync(log, self._on_synced)
        self._loop.call_soon(self._durability.start_sync)

    def sync_now(self, logs: Iterable[PartitionLog]) -> None:
        """Start to make logs durable at once, not at the end of the iteration."""
        for log in logs:
            self._durability.request_sync(log, self._on_synced)
        self._durability.start_sync()

    @property
    def delayed_count(self) -> int:
        """How many answers are owed."""
        return len({entry for waiting in self._waiting.values() for entry in waiting})

    @property
    def awaited_logs(self) -> Iterable[PartitionLog]:
        """The logs that answers wait for, or others."""
        return {**self._waiting, **self._durability_callbacks}

    def stop_listening(self) -> None:
        """What makes logs durable, which others share, goes on without it."""
        self._durability.remove_listener(self._on_synced)

    # What became of it

    def _on_synced(self, log: PartitionLog, error: StorageError | None) -> None:
        if log in self._durability_callbacks:
            self._notify_durability_callbacks(log, error)
        waiting = self._waiting.pop(log, None)
        if waiting is not None and log.is_closed and log.failure is None:
            self._complete_deleted(log, waiting)
        elif waiting is not None:
            self._complete_delayed(log, waiting, error)
        if error is None:
            self._listeners.on_log_advanced(_parse_partition(log))

    def _complete_delayed(
        self, log: PartitionLog, waiting: list[_DelayedProduce], error: StorageError | None
    ) -> None:
        later: list[_DelayedProduce] = []
        for entry in waiting:
            if error is not None:
                self._set_partition_error(entry.response, log)
                entry.on_log_settled(log)
            elif log.durable_offset >= entry.logs[log]:
                entry.on_log_settled(log)
            else:
                later.append(entry)
        if error is not None:
            self._notify_failed(log, error)
        if later:
            self._waiting[log] = later
            self.sync_now([log])

    def _notify_failed(self, log: PartitionLog, error: StorageError) -> None:
        if log.durability.replication_queue is None:
            self._listeners.on_log_failed(_parse_partition(log), error)
        else:
            self.on_replication_failed(_parse_partition(log), log)

    def release_log(self, log: PartitionLog) -> None:
        """A log that the engine of a cluster has is not led here any more: whoever waits for it is told so."""
        for end_offset, on_durable in self._durability_callbacks.pop(log, ()):
            on_durable(ErrorCode.NONE if log.durable_offset >= end_offset else _find_error(log))
        for entry in self._waiting.pop(log, ()):
            self._set_partition_error(entry.response, log)
            entry.on_log_settled(log)

    def on_topic_deleted(self, name: str, *, is_gone: bool) -> None:
        """Logs of a topic that the engine of a cluster has are closed. In: whether the engine has none of it any
        more; where the deletion was refused, what is under way may be lost."""
        for log in [
            each for each in self.awaited_logs if each.is_deleted and _parse_partition(each).topic == name
        ]:
            if log.durability.replication_queue is None:
                continue  # the disk tells of it
            if is_gone:
                self._notify_durability_callbacks(log, None)
                self._complete_deleted(log, self._waiting.pop(log, []))
            else:
                self.release_log(log)

    @staticmethod
    def _complete_deleted(log: PartitionLog, waiting: list[_DelayedProduce]) -> None:
        """The topic was deleted after these records were appended: nothing of it has to last any more."""
        for entry in waiting:
            entry.on_log_settled(log)

    def _set_partition_error(self, response: object, log: PartitionLog) -> None:
        """What was appended to this log may be lost: its partition's part of an answer to Produce says so."""
        assert isinstance(response, ProduceResponse)
        name, partition = _parse_partition(log)
        topic_id = self._topic_id(name)
        for answered in response.responses:
            if answered.name != name and answered.topic_id != topic_id:
                continue
            for part in answered.partition_responses:
                if part.index == partition and part.error_code == ErrorCode.NONE:
                    part.error_code = _find_error(log)
                    part.base_offset = -1

    def _notify_durability_callbacks(self, log: PartitionLog, error: StorageError | None) -> None:
        later = []
        for end_offset, on_durable in self._durability_callbacks.pop(log, ()):
            if log.is_deleted or log.durable_offset >= end_offset:
                on_durable(ErrorCode.NONE)
            elif error is not None or log.is_closed:
                on_durable(_find_error(log))
            else:
                later.append((end_offset, on_durable))
        if later:
            self._durability_callbacks[log] = later
            self.sync_now([log])


def _is_abandoned(log: PartitionLog) -> bool:
    """Whether nobody brings a log to the engine of a cluster any more, which may not have all of it."""
    return log.durability.replication_queue is not None and not log.is_open and not log.is_deleted


def _find_error(log: PartitionLog) -> ErrorCode:
    """What is told of records of which nobody knows whether they last. Where the engine of a cluster has the log,
    the next leader knows."""
    is_copy = log.durability.replication_queue is not None
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_copy else ErrorCode.KAFKA_STORAGE_ERROR


def _parse_partition(log: PartitionLog) -> TopicPartition:
    """The topic and number in the name of a log's directory."""
    topic, _, number = log.directory.rpartition("/")[2].rpartition("-")
    return TopicPartition(topic, int(number))
