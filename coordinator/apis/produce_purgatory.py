"""The purgatory of Produce responses and of transaction markers: they wait until their records are durable."""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from coordinator.core.reply import Reply
from coordinator.runtime.flusher import DurabilityBackend
from protocol.error_codes import ErrorCode
from protocol.messages.produce import ProduceResponse
from storage.log import PartitionLog
from storage.storage_errors import StorageError
from storage.topic_partition import TopicPartition

OnDurable = Callable[[ErrorCode], None]


class LogListeners(NamedTuple):
    """The listeners for the progress and the failures of logs."""

    on_log_advanced: Callable[[TopicPartition], None]
    """Called when more of a log is durable."""
    on_log_failed: Callable[[TopicPartition, StorageError], None]
    """Called when a write to the disk failed."""
    on_replication_failed: Callable[[TopicPartition, PartitionLog], None]
    """Called when the replicated state of a log becomes unknown."""


class _DelayedProduce:
    """A delayed Produce response, which waits until its records are durable."""

    __slots__ = ("logs", "reply", "response")

    def __init__(self, reply: Reply, response: object, logs: dict[PartitionLog, int]) -> None:
        self.reply = reply
        self.response = response
        self.logs = logs

    def on_log_settled(self, log: PartitionLog) -> None:
        """Stop waiting for a log."""
        del self.logs[log]
        if not self.logs:
            self.reply.send(self.response)


class ProducePurgatory:
    """Keeps responses until the records that they confirm are durable. All methods belong to the event loop's
    thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        durability: DurabilityBackend,
        topic_id: Callable[[str], bytes],
        listeners: LogListeners,
    ) -> None:
        """Create the purgatory.

        Args:
            durability: makes logs durable.
            topic_id: returns the id of a topic by name, empty for a deleted topic.
        """
        self._loop = loop
        self._durability = durability
        self._topic_id = topic_id
        self._listeners = listeners
        self._waiting: dict[PartitionLog, list[_DelayedProduce]] = {}
        self._durability_callbacks: dict[PartitionLog, list[tuple[int, OnDurable]]] = {}
        """Other callbacks that wait until a log is durable up to an offset."""

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
        """Call `on_durable` once a log is durable up to an offset, deleted, or failed."""
        self._durability_callbacks.setdefault(log, []).append((end_offset, on_durable))
        self.schedule_sync([log])

    def schedule_sync(self, logs: Iterable[PartitionLog]) -> None:
        """Schedule the sync of logs; it covers all logs scheduled in the same iteration of the loop."""
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
        """Return the number of delayed responses."""
        return len({entry for waiting in self._waiting.values() for entry in waiting})

    @property
    def awaited_logs(self) -> Iterable[PartitionLog]:
        """Return the logs that responses or callbacks wait for."""
        return {**self._waiting, **self._durability_callbacks}

    def stop_listening(self) -> None:
        """Stop listening. The shared flusher of logs continues."""
        self._durability.remove_listener(self._on_synced)

    # Results

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
            self._listeners.on_replication_failed(_parse_partition(log), log)

    def release_log(self, log: PartitionLog) -> None:
        """Fail the waiters of a replicated log that this broker no longer leads."""
        for end_offset, on_durable in self._durability_callbacks.pop(log, ()):
            on_durable(ErrorCode.NONE if log.durable_offset >= end_offset else _find_error(log))
        for entry in self._waiting.pop(log, ()):
            self._set_partition_error(entry.response, log)
            entry.on_log_settled(log)

    def on_topic_deleted(self, name: str, *, is_gone: bool) -> None:
        """Close the replicated logs of a deleted topic.

        Args:
            is_gone: the replicated data is deleted; if False, the deletion was refused, and appends in progress may
                be lost.
        """
        for log in [
            each for each in self.awaited_logs if each.is_deleted and _parse_partition(each).topic == name
        ]:
            if log.durability.replication_queue is None:
                continue  # the flusher of the disk calls `_on_synced` for a deleted log
            if is_gone:
                self._notify_durability_callbacks(log, None)
                self._complete_deleted(log, self._waiting.pop(log, []))
            else:
                self.release_log(log)

    @staticmethod
    def _complete_deleted(log: PartitionLog, waiting: list[_DelayedProduce]) -> None:
        """Complete the responses of a topic that was deleted after the append: its records need not be durable any
        more.
        """
        for entry in waiting:
            entry.on_log_settled(log)

    def _set_partition_error(self, response: object, log: PartitionLog) -> None:
        """Set the error of a log's partition in a Produce response, because its records may be lost."""
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
    """Return whether the replication of a log has stopped, possibly before its last records."""
    return log.durability.replication_queue is not None and not log.is_open and not log.is_deleted


def _find_error(log: PartitionLog) -> ErrorCode:
    """Return the error for records of unknown durability. For a replicated log the next leader knows the
    outcome.
    """
    is_copy = log.durability.replication_queue is not None
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_copy else ErrorCode.KAFKA_STORAGE_ERROR


def _parse_partition(log: PartitionLog) -> TopicPartition:
    """Parse topic and partition from the name of a log's directory."""
    topic, _, number = log.directory.rpartition("/")[2].rpartition("-")
    return TopicPartition(topic, int(number))
