"""An engine in this process, with groups and counters on it, over files that can fail."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

from coordinator import clock
from coordinator.answers import Later
from coordinator.engine.engine import Engine
from coordinator.engine.group_clock import GroupClock, ProcessTime
from coordinator.engine.machine import InternalTopic
from coordinator.engine.runtime import Runtime
from coordinator.engine.threads import Threads
from coordinator.group.record_codec import GroupRecordCodec
from coordinator.group.refusal import error_response
from coordinator.group.shard import Shard
from coordinator.machine.outcome import Context, Now
from coordinator.names import CONSUMER_OFFSETS, LogFlush
from coordinator.ongoing_failures import OngoingFailures
from storage.log import PartitionLog
from storage.log_config import LogConfig
from tests.engine.counter import CounterCodec, Counters, refuse
from tests.group.new_shard import new_shard
from tests.storage.faulty_files import FaultyFiles

COUNTERS = "__counters"
PARTITIONS = 2
TIMEOUT_S = 60


class Place:
    """Takes one answer, and waits for it."""

    def __init__(self, *, parks: bool) -> None:
        self.parks = parks
        self.api_version = 0
        self.request: object = None
        self.registry: Any = None
        self.waiter = 0
        self._answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def fill(self, response: object) -> None:
        """Takes the answer."""
        self._answer.set_result(response)

    @property
    def is_filled(self) -> bool:
        """Whether the answer is there."""
        return self._answer.done()

    async def answer(self) -> object:
        """The answer, when it is there."""
        return await asyncio.wait_for(self._answer, TIMEOUT_S)


class Asker:
    """Asks once."""

    def __init__(self) -> None:
        self.place: Place | None = None

    def answer_later(self, *, parks: bool) -> Place:
        """Where the answer goes."""
        assert self.place is None
        self.place = Place(parks=parks)
        return self.place


class Bench:
    """One process: an engine, the groups and the counters of a data directory."""

    def __init__(
        self,
        files: FaultyFiles,
        group_clock: GroupClock | None = None,
        in_front: Callable[[Any], Any] = lambda machine: machine,
    ) -> None:
        """In: the time of the machines, where it is not the process's; what puts something in front of each."""
        self.files = files
        self.loaded = asyncio.Event()
        self.told: list[tuple[int, str, object]] = []
        """Number, partition and event of everything that happened."""
        self._threads = Threads()
        self.flusher = self._threads.flusher
        self._in_front = in_front
        group_clock = group_clock or ProcessTime(clock.Arrival())
        self.engine = Engine(
            asyncio.get_running_loop(),
            self._threads,
            files,
            group_clock,
            OngoingFailures("LogManager"),
            self.loaded.set,
        )
        self.groups: Runtime[Shard] = self.engine.add(
            self._topic(
                CONSUMER_OFFSETS,
                GroupRecordCodec(),
                lambda number, leader_epoch: new_shard(),
                error_response,
            )
        )
        self.counters: Runtime[Counters] = self.engine.add(
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
            lambda number, leader_epoch: self._in_front(new_machine(number, leader_epoch)),
            refuse,
            partial(self._open, name),
            name,
            "what it holds",
            begins_epochs=begins_epochs,
        )

    def _open(self, topic: str, number: int) -> PartitionLog:
        if not self.files.exists("/data"):
            self.files.mkdir("/data")
        return PartitionLog.open(self.files, f"/data/{topic}-{number}", LogConfig(cleanup_policy="compact"))

    def _observe(self, partition: Any, events: Any, first: int, now: Now) -> None:
        self.told += [(first + at, str(partition.name), event) for at, event in enumerate(events)]

    async def take_all(self, epoch: int = 0) -> None:
        """Takes every partition, and waits until all are read."""
        for runtime in self.engine.runtimes.values():
            for partition in runtime.partitions:
                runtime.ownership.take(partition, epoch)
        await asyncio.wait_for(self.loaded.wait(), TIMEOUT_S)

    def put(self, runtime: Runtime[Any], key: str, request: object) -> tuple[object, Asker]:
        """Puts a request to the partition of a key: what came of it at once, and who asked."""
        asker = Asker()
        context = Context(self.engine.next_waiter(), 0, "client", "/127.0.0.1", str(uuid4()))
        return runtime.ask(runtime.partition_of(key), request, context, asker), asker

    async def ask(self, runtime: Runtime[Any], key: str, request: object) -> object:
        """The answer to a request, when it is there."""
        answer, asker = self.put(runtime, key, request)
        if not isinstance(answer, Later):
            return answer
        assert asker.place is not None
        return await asker.place.answer()

    async def close(self) -> None:
        """A clean stop."""
        await self.engine.shut_down()
        await self.flusher.drain(set(self.engine.logs().values()))
        self.engine.give_up_waiters()
        for log in self.engine.logs().values():
            log.close()
        self._threads.close()

    def kill(self) -> FaultyFiles:
        """The process is gone, and so is what no sync has reached."""
        survivor = self.files.crash()
        self.engine.abandon()
        self._threads.close()
        return survivor
