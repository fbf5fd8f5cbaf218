"""An engine in this process, with groups and counters on it, over files that can fail."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

from coordinator.core import clock
from coordinator.core.daemon_log import OngoingFailures
from coordinator.core.outcome import Context, Now
from coordinator.core.response_status import DeferredResponse
from coordinator.core.shared_types import CONSUMER_OFFSETS, LogFlush
from coordinator.group.group_record_codec import GroupRecordCodec
from coordinator.group.group_request_rules import build_group_error_response
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.engine import Engine
from coordinator.runtime.machine import InternalTopic
from coordinator.runtime.runtime import Runtime
from coordinator.runtime.timers import GroupClock, ProcessClock
from coordinator.runtime.worker_threads import WorkerThreads
from storage.log import PartitionLog
from storage.log_config import LogConfig
from tests.group.new_shard import new_shard
from tests.network.requests import Deferral
from tests.runtime.counter import CounterCodec, Counters, refuse
from tests.storage.faulty_files import FaultyFiles

COUNTERS = "__counters"
PARTITIONS = 2
TIMEOUT_S = 60


class Bench:
    """One process: an engine, the groups and the counters of a data directory."""

    def __init__(
        self,
        files: FaultyFiles,
        group_clock: GroupClock | None = None,
        decorate: Callable[[Any], Any] = lambda machine: machine,
    ) -> None:
        """Create the process. `group_clock` is the machines' time, by default the process's; `decorate` wraps each
        machine.
        """
        self.files = files
        self.loaded = asyncio.Event()
        self.events: list[tuple[int, str, object]] = []
        """Number, partition and event of everything that happened."""
        self._threads = WorkerThreads()
        self.flusher = self._threads.flusher
        self._decorate = decorate
        group_clock = group_clock or ProcessClock(clock.Arrival())
        self.engine = Engine(
            asyncio.get_running_loop(),
            self._threads,
            files,
            group_clock,
            OngoingFailures("LogManager"),
        )
        self.engine.loaded_listeners.append(self.loaded.set)
        self.groups: Runtime[GroupShard] = self.engine.add_topic(
            self._topic(
                CONSUMER_OFFSETS,
                GroupRecordCodec(),
                lambda number, leader_epoch: new_shard(),
                build_group_error_response,
            )
        )
        self.counters: Runtime[Counters] = self.engine.add_topic(
            self._topic(COUNTERS, CounterCodec(), Counters, refuse, begins_epochs=True)
        )
        self.engine.observers.append(self._observe)

    def _topic(
        self, name: str, codec: Any, new_machine: Any, refuse: Any, *, begins_epochs: bool = False
    ) -> InternalTopic[Any]:
        return InternalTopic(
            name,
            PARTITIONS,
            LogFlush.ALWAYS,
            0,
            codec,
            lambda number, leader_epoch: self._decorate(new_machine(number, leader_epoch)),
            refuse,
            partial(self._open, name),
            name,
            "what it holds",
            starts_leader_epochs=begins_epochs,
        )

    def _open(self, topic: str, number: int) -> PartitionLog:
        if not self.files.exists("/data"):
            self.files.mkdir("/data")
        return PartitionLog.open(self.files, f"/data/{topic}-{number}", LogConfig(cleanup_policy="compact"))

    def _observe(self, partition: Any, events: Any, first: int, now: Now) -> None:
        self.events += [(first + at, str(partition.name), event) for at, event in enumerate(events)]

    async def take_all(self, epoch: int = 0) -> None:
        """Takes every partition, and waits until all are read."""
        for runtime in self.engine.runtimes.values():
            for partition in runtime.partitions:
                runtime.lifecycle.open_partition(partition, epoch)
        await asyncio.wait_for(self.loaded.wait(), TIMEOUT_S)

    def put(self, runtime: Runtime[Any], key: str, request: object) -> tuple[object, Deferral]:
        """Send a request to the partition of a key; return its immediate answer and its deferral."""
        deferral = Deferral()
        context = Context(self.engine.next_waiter(), 0, "client", "/127.0.0.1", str(uuid4()))
        return runtime.execute_request(
            runtime.find_partition(key), request, context, deferral.defer
        ), deferral

    async def ask(self, runtime: Runtime[Any], key: str, request: object) -> object:
        """The answer to a request, when it is there."""
        answer, deferral = self.put(runtime, key, request)
        if not isinstance(answer, DeferredResponse):
            return answer
        return await deferral.reply.wait()

    async def close(self) -> None:
        """A clean stop."""
        await self.engine.shut_down()
        await self.flusher.drain(set(self.engine.list_open_logs().values()))
        self.engine.fail_waiters()
        for log in self.engine.list_open_logs().values():
            log.close()
        self._threads.close()

    def kill(self) -> FaultyFiles:
        """End the process and drop all records that no sync has reached."""
        survivor = self.files.crash()
        self.engine.abandon()
        self._threads.close()
        return survivor
