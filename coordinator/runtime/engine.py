"""Runs machines of several kinds side by side: one runtime for each internal topic.

The runtimes share the numbers of waiters and events, the observers, the thread that opens logs, the clock of
groups, the flusher, and the delivery of messages between machines.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from coordinator.core import clock
from coordinator.core.daemon_log import OngoingFailures
from coordinator.core.outcome import Message
from coordinator.runtime.coordinator_partition import CoordinatorPartition, EngineContext, Observer
from coordinator.runtime.machine import InternalTopic, M
from coordinator.runtime.partition_loader import LoadQueue
from coordinator.runtime.runtime import Runtime
from coordinator.runtime.state_keeper import StateKeeper
from coordinator.runtime.timers import GroupClock
from coordinator.runtime.worker_threads import WorkerThreads
from storage.files import Files
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("Engine")

Receiver = Callable[[str, object], None]
"""Takes the key and the request of a message."""


class Engine:
    """The runtimes of a process. All methods belong to the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: WorkerThreads,
        files: Files,
        group_clock: GroupClock,
        failures: OngoingFailures,
    ) -> None:
        """Create an engine without topics.

        Args:
            loop: The event loop.
            threads: Threads that sync and open logs.
            files: File system of the logs.
            group_clock: Clock of the groups.
            failures: Ongoing failures of the disk.
        """
        self.runtimes: dict[str, Runtime[Any]] = {}
        """Runtimes by topic."""
        self.is_loaded = False
        self._receivers: dict[str, Receiver] = {}
        self.loaded_listeners: list[Callable[[], None]] = []
        """Called once when the load of every partition that was opened at the start has succeeded or failed,
        even if a failed load will be repeated."""
        self._queue = LoadQueue(loop, threads.opener, self._on_all_read)
        self._engine_context = EngineContext(
            loop, threads.flusher, files, group_clock, failures, self._queue, self._deliver
        )

    @property
    def observers(self) -> list[Observer]:
        """Observers of the events of all machines."""
        return self._engine_context.observers

    def find_write_failure(self) -> str | None:
        """Return the reason why the disk rejects the records of a partition; None while it accepts all."""
        return next(
            filter(None, (runtime.lifecycle.find_write_failure() for runtime in self.runtimes.values())), None
        )

    @property
    def workers(self) -> dict[str, Callable[[Any], Awaitable[object]]]:
        """Workers for delegated work, by name."""
        return self._engine_context.workers

    def next_waiter(self) -> int:
        """Return a new waiter number."""
        return self._engine_context.next_waiter()

    def add_topic(
        self,
        topic: InternalTopic[M],
        create_runtime: Callable[[InternalTopic[M], EngineContext], Runtime[M]] = Runtime,
    ) -> Runtime[M]:
        """Create the runtime of a topic. `open_partition` loads its partitions."""
        assert topic.name not in self.runtimes, topic.name
        runtime = self.runtimes[topic.name] = create_runtime(topic, self._engine_context)
        return runtime

    def open_partition(self, name: TopicPartition, delay_s: float = 0) -> None:
        """Load a partition for a new owner in this process. It is LOADING for at least `delay_s` seconds."""
        runtime = self.runtimes[name.topic]
        partition = runtime.partitions[name.partition]
        runtime.lifecycle.open_partition(partition, partition.epoch + 1, delay_s)

    def release_partition(self, name: TopicPartition, reason: str) -> None:
        """Take a partition out of service for its next owner, in this process or in another one."""
        runtime = self.runtimes[name.topic]
        partition = runtime.partitions[name.partition]
        runtime.lifecycle.release_partition(partition, partition.epoch + 1, reason)

    def register_receiver(self, topic: str, receiver: Receiver) -> None:
        """Register a receiver of messages to a name other than the topics here."""
        assert topic not in self.runtimes, topic
        assert topic not in self._receivers, topic
        self._receivers[topic] = receiver

    def _deliver(self, messages: Sequence[Message]) -> None:
        for message in messages:
            runtime = self.runtimes.get(message.topic)
            receiver = self._receivers.get(message.topic)
            if runtime is not None:
                runtime.receive_message(message.key, message.request)
            elif receiver is not None:
                self._deliver_to(receiver, message)
            else:
                _LOG.error("A message to %s without a receiver: %r", message.topic, message.request)

    @staticmethod
    def _deliver_to(receiver: Receiver, message: Message) -> None:
        try:
            receiver(message.key, message.request)
        except Exception as problem:  # noqa: BLE001 - later messages are still delivered
            _LOG.error("Failed to handle a message to %s", message.topic, exc_info=problem)

    def _on_all_read(self) -> None:
        if not self.is_loaded:
            self.is_loaded = True
            for on_loaded in self.loaded_listeners:
                on_loaded()

    # All topics

    @property
    def waiter_count(self) -> int:
        """Number of pending answers."""
        return sum(len(partition.waiting) for partition in self.list_partitions())

    @property
    def timer_count(self) -> int:
        """Number of scheduled timers, over all topics."""
        return sum(runtime.timer_count for runtime in self.runtimes.values())

    def list_partitions(self) -> list[CoordinatorPartition[Any]]:
        """Return the partitions of every topic."""
        return [partition for runtime in self.runtimes.values() for partition in runtime.partitions]

    def list_open_logs(self) -> dict[TopicPartition, PartitionLog]:
        """Return every open log by partition."""
        return {
            partition.name: partition.log
            for partition in self.list_partitions()
            if partition.log is not None and not partition.log.is_closed
        }

    def list_unopened_partitions(self) -> list[TopicPartition]:
        """Return the partitions of this process without an open log. The log is not open yet, or was closed."""
        taken = [part for part in self.list_partitions() if part.tenure]
        return [part.name for part in taken if part.log is None or part.log.is_closed]

    def expire_producers(self) -> None:
        """Remove producers that are idle by the wall clock."""
        now_ms = clock.wall_ms()
        for partition in self.list_partitions():
            partition.expire_producers(now_ms)

    def list_failed_partitions(self) -> list[TopicPartition]:
        """Return the partitions that failed to load."""
        return [name for runtime in self.runtimes.values() for name in runtime.list_failed_partitions()]

    def require_write_trials(self) -> None:
        """Make every partition try a write after its load, because the disk may reject writes."""
        for runtime in self.runtimes.values():
            runtime.lifecycle.require_write_trials()

    @property
    def state_keepers(self) -> list[StateKeeper]:
        """Keepers of the state files next to the logs, by topic."""
        return [runtime.lifecycle.states for runtime in self.runtimes.values()]

    # Shutdown

    async def shut_down(self) -> None:
        """Append the pending records, and stop loads, timers and delegated work.

        Until the connections close, loaded partitions still answer. Requests to the others get an error that
        redirects the client.
        """
        for runtime in self.runtimes.values():
            runtime.shut_down()
        await self._queue.stop()

    def abandon(self) -> None:
        """Stop at once without writing anything, as in a crash."""
        for runtime in self.runtimes.values():
            runtime.abandon()
        self._queue.abandon()

    def sync_dirty(self) -> None:
        """Request a sync of all logs with unsynced records."""
        for runtime in self.runtimes.values():
            runtime.sync_dirty(runtime.partitions)

    def stop_listening(self) -> None:
        """Remove all runtimes from the flusher, which continues for others."""
        for runtime in self.runtimes.values():
            runtime.stop_listening()

    def fail_waiters(self) -> None:
        """Answer the BLOCKED requests, after a sync of all acknowledged records."""
        for runtime in self.runtimes.values():
            runtime.fail_waiters()
