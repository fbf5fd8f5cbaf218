"""Runs machines of several kinds side by side: one runtime for each internal topic.

What the kinds share is here: the numbers of waiters and events, who observes, the thread that opens logs, the clock
of groups, the syncing of logs, and messages from one machine to another.
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
    """All methods belong to the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: WorkerThreads,
        files: Files,
        group_clock: GroupClock,
        failures: OngoingFailures,
        on_loaded: Callable[[], None],
    ) -> None:
        """In: who syncs and opens logs; the file system that they are in; who counts what that refuses; what to
        call once, when every partition that was taken at the start was read, or the reading has failed (for good,
        or to be tried again)."""
        self.runtimes: dict[str, Runtime[Any]] = {}
        """By topic."""
        self.is_loaded = False
        self._receivers: dict[str, Receiver] = {}
        self._on_loaded = on_loaded
        self._queue = LoadQueue(loop, threads.opener, self._on_all_read)
        self._engine_context = EngineContext(
            loop, threads.flusher, files, group_clock, failures, self._queue, self._deliver
        )

    @property
    def observers(self) -> list[Observer]:
        """Who is told what happens in machines."""
        return self._engine_context.observers

    def find_write_failure(self) -> str | None:
        """Why the disk does not take the records of some partition; None while it takes all."""
        return next(
            filter(None, (runtime.lifecycle.find_write_failure() for runtime in self.runtimes.values())), None
        )

    @property
    def workers(self) -> dict[str, Callable[[Any], Awaitable[object]]]:
        """Who does the work that machines ask for, by name."""
        return self._engine_context.workers

    def next_waiter(self) -> int:
        """A number that no waiter had before."""
        return self._engine_context.next_waiter()

    def add_topic(self, topic: InternalTopic[M]) -> Runtime[M]:
        """Runs a machine for each partition of a topic. None is there until it is taken."""
        assert topic.name not in self.runtimes, topic.name
        runtime = self.runtimes[topic.name] = Runtime(topic, self._engine_context)
        return runtime

    def open_partition(self, name: TopicPartition, delay_s: float = 0) -> None:
        """Load a partition for a new owner in this process. It is LOADING for `delay_s` seconds at least."""
        runtime = self.runtimes[name.topic]
        partition = runtime.partitions[name.partition]
        runtime.lifecycle.open_partition(partition, partition.epoch + 1, delay_s)

    def release_partition(self, name: TopicPartition, reason: str) -> None:
        """Take a partition out of service for its next owner, in this process or in another one."""
        runtime = self.runtimes[name.topic]
        partition = runtime.partitions[name.partition]
        runtime.lifecycle.release_partition(partition, partition.epoch + 1, reason)

    def register_receiver(self, topic: str, receiver: Receiver) -> None:
        """Has something that is no machine receive what machines send to a name that no topic has here."""
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
                _LOG.error("A message to %s, which nobody receives: %r", message.topic, message.request)

    @staticmethod
    def _deliver_to(receiver: Receiver, message: Message) -> None:
        try:
            receiver(message.key, message.request)
        except Exception as problem:  # noqa: BLE001 - the messages behind it are delivered all the same
            _LOG.error("A message to %s was not taken", message.topic, exc_info=problem)

    def _on_all_read(self) -> None:
        if not self.is_loaded:
            self.is_loaded = True
            self._on_loaded()

    # All of them

    @property
    def waiter_count(self) -> int:
        """How many answers are owed."""
        return sum(len(partition.waiting) for partition in self.list_partitions())

    @property
    def timer_count(self) -> int:
        """How many timers are armed, over all topics."""
        return sum(runtime.timer_count for runtime in self.runtimes.values())

    def list_partitions(self) -> list[CoordinatorPartition[Any]]:
        """The partitions of every topic."""
        return [partition for runtime in self.runtimes.values() for partition in runtime.partitions]

    def list_open_logs(self) -> dict[TopicPartition, PartitionLog]:
        """Every open log."""
        return {
            partition.name: partition.log
            for partition in self.list_partitions()
            if partition.log is not None and not partition.log.is_closed
        }

    def list_unopened_partitions(self) -> list[TopicPartition]:
        """The partitions that were taken and whose logs are not open: not yet, or not any more."""
        taken = [part for part in self.list_partitions() if part.tenure]
        return [part.name for part in taken if part.log is None or part.log.is_closed]

    def expire_producers(self) -> None:
        """Forgets producers that were idle for long, by the wall clock."""
        now_ms = clock.wall_ms()
        for partition in self.list_partitions():
            partition.expire_producers(now_ms)

    def list_failed_partitions(self) -> list[TopicPartition]:
        """The partitions that could not be read."""
        return [name for runtime in self.runtimes.values() for name in runtime.list_failed_partitions()]

    def require_write_trials(self) -> None:
        """The disk may refuse what partitions write: each is tried when it was read."""
        for runtime in self.runtimes.values():
            runtime.lifecycle.require_write_trials()

    @property
    def state_keepers(self) -> list[StateKeeper]:
        """Who keeps states beside the logs, of each topic."""
        return [runtime.lifecycle.states for runtime in self.runtimes.values()]

    # Ending

    async def shut_down(self) -> None:
        """Writes what is kept, and ends what was begun. Until the connections are closed, partitions that are here
        still answer; for the others there is an error that sends the client elsewhere."""
        for runtime in self.runtimes.values():
            runtime.shut_down()
        await self._queue.stop()

    def abandon(self) -> None:
        """Lets go of everything at once, as a crash would."""
        for runtime in self.runtimes.values():
            runtime.abandon()
        self._queue.abandon()

    def sync_dirty(self) -> None:
        """Asks for what was appended anywhere to be synced, as far as it is not."""
        for runtime in self.runtimes.values():
            runtime.sync_dirty(runtime.partitions)

    def stop_listening(self) -> None:
        """The flusher, which others share, goes on without it."""
        for runtime in self.runtimes.values():
            runtime.stop_listening()

    def fail_waiters(self) -> None:
        """Answers those who are still parked, after the disk has what was acknowledged."""
        for runtime in self.runtimes.values():
            runtime.fail_waiters()
