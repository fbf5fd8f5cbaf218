"""One coordinator partition over a disk that fails, in virtual time: the test decides when a thread works, when a
callback runs and when a delay ends."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from heapq import heappop, heappush
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

from coordinator.apis.group_handlers import GroupRouter
from coordinator.core import clock
from coordinator.core.daemon_log import OngoingFailures
from coordinator.core.outcome import Context
from coordinator.core.reply import Reply
from coordinator.core.response_status import DeferredResponse
from coordinator.core.shared_types import CONSUMER_OFFSETS, LogFlush
from coordinator.group.group_record_codec import GroupRecordCodec
from coordinator.group.group_request_rules import build_group_error_response, is_read_only
from coordinator.group.group_requests import FetchOffsets
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.engine import Engine
from coordinator.runtime.flusher import Flusher
from coordinator.runtime.machine import InternalTopic
from coordinator.runtime.runtime import Runtime
from coordinator.runtime.timers import ProcessClock
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from storage.log import PartitionLog
from storage.log_config import LogConfig
from tests.crash.late_worker import LateSyncer
from tests.group.config import group_config
from tests.group.new_shard import new_shard
from tests.storage.faulty_files import FaultyFiles

DIRECTORY: Final = f"/data/{CONSUMER_OFFSETS}-0"
NO_OFFSET: Final = -1
_MAX_STEPS: Final = 10_000


class _Handle:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class VirtualLoop:
    """The methods of an event loop that the engine calls."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._ready: deque[tuple[_Handle, Callable[..., None], tuple[Any, ...]]] = deque()
        self._delayed: list[tuple[float, int, _Handle, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> _Handle:
        handle = _Handle()
        self._ready.append((handle, callback, arguments))
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay_s: float, callback: Callable[..., None], *arguments: Any) -> _Handle:
        handle = _Handle()
        heappush(self._delayed, (self.now_s + delay_s, next(self._numbers), handle, callback, arguments))
        return handle

    @property
    def is_idle(self) -> bool:
        return not self._ready

    def run_iteration(self) -> None:
        """Run the callbacks that are ready, but none that they add."""
        for _ in range(len(self._ready)):
            handle, callback, arguments = self._ready.popleft()
            if not handle.is_cancelled:
                callback(*arguments)

    def advance(self, span_s: float) -> None:
        """End the delays of the next seconds."""
        self.now_s += span_s
        while self._delayed and self._delayed[0][0] <= self.now_s:
            _, _, handle, callback, arguments = heappop(self._delayed)
            self._ready.append((handle, callback, arguments))


class HeldExecutor(Executor):
    """An executor. The test runs its work."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.waiting.append((future, work))
        return future

    def run_one(self) -> None:
        future, work = self.waiting.popleft()
        try:
            future.set_result(work())
        except Exception as problem:  # noqa: BLE001 - the future has it
            future.set_exception(problem)


class _CollectedReply(Reply):
    blocks: bool
    response: object = None

    def send(self, response: object) -> None:
        assert self.response is None, "a second response"
        self.response = response

    def fail(self, problem: Exception) -> None:
        raise problem


class World:
    """One partition of `__consumer_offsets`."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.files = FaultyFiles()
        self.files.mkdir("/data")
        self.loop = VirtualLoop()
        self.opener = HeldExecutor()
        self.syncer = LateSyncer(self.random)
        self.flush = LogFlush.ALWAYS if seed % 3 else LogFlush.OS
        self.opened: list[PartitionLog] = []
        self.machines: list[GroupShard] = []
        """Each machine that was made for a load."""
        loop = cast("Any", self.loop)
        threads = SimpleNamespace(flusher=Flusher(loop, self.syncer.syncer), opener=self.opener)
        self.engine = Engine(
            loop,
            cast("Any", threads),
            self.files,
            ProcessClock(clock.Arrival()),
            OngoingFailures("LogManager"),
        )
        self.runtime: Runtime[GroupShard] = self.engine.add_topic(
            InternalTopic(
                CONSUMER_OFFSETS,
                1,
                self.flush,
                0,
                GroupRecordCodec(),
                self._create_machine,
                build_group_error_response,
                self._open_log,
                "GroupCoordinator",
                "group metadata",
                is_read_only=is_read_only,
                starts_leader_epochs=bool(seed % 2),
            )
        )
        self.router = GroupRouter(self.runtime, group_config())
        self.submitted: dict[int, _CollectedReply] = {}
        """The reply of each commit that has no response yet, by its offset."""
        self.fetches: list[_CollectedReply] = []
        """The replies of deferred fetches."""
        self.acknowledged = NO_OFFSET
        self.last_offset = NO_OFFSET

    @property
    def partition(self) -> CoordinatorPartition[GroupShard]:
        return self.runtime.partitions[0]

    def _create_machine(self, number: int, leader_epoch: int) -> GroupShard:
        self.machines.append(new_shard())
        return self.machines[-1]

    def _open_log(self, number: int) -> PartitionLog:
        log = PartitionLog.open(self.files, DIRECTORY, LogConfig(cleanup_policy="compact"))
        self.opened.append(log)
        return log

    # Requests

    def _send(self, request: Any) -> tuple[object, _CollectedReply | None]:
        replies: list[_CollectedReply] = []

        def defer(blocks: bool) -> Reply:
            replies.append(_CollectedReply(blocks=blocks))
            return replies[0]

        response = self.router.send_request(
            self.partition, request, Context(self.engine.next_waiter(), 2, "", ""), defer
        )
        if isinstance(response, DeferredResponse):
            return None, replies[0]
        assert not replies
        return response, None

    def commit(self) -> ErrorCode | None:
        """Commit the next offset. Return the error of a response at once, None for a deferred one."""
        self.last_offset += 1
        offset = self.last_offset
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
        response, reply = self._send(OffsetCommitRequest(group_id="g", topics=[topic]))
        if reply is not None:
            self.submitted[offset] = reply
            return None
        error = find_commit_error(response)
        assert error is not ErrorCode.NONE, "acknowledged before the disk has it"
        return error

    def fetch(self) -> tuple[ErrorCode, int]:
        """Return the committed offset that a new request reads, or the error."""
        request = FetchOffsets(OffsetFetchRequestGroup(group_id="g", topics=None), False)
        response, reply = self._send(request)
        if reply is not None:
            self.fetches.append(reply)
            return ErrorCode.NONE, self.acknowledged
        found = cast("Any", response)
        if found.error_code:
            return ErrorCode(found.error_code), NO_OFFSET
        return ErrorCode.NONE, found.topics[0].partitions[0].committed_offset if found.topics else NO_OFFSET

    def collect_replies(self) -> list[ErrorCode]:
        """Take the commits that have a response by now. Return their errors."""
        errors = []
        for offset, reply in list(self.submitted.items()):
            if reply.response is not None:
                del self.submitted[offset]
                errors.append(find_commit_error(reply.response))
                if not errors[-1]:
                    self.acknowledged = max(self.acknowledged, offset)
        return errors

    # Progress

    @property
    def load_count(self) -> int:
        """The loads in progress: in the thread, on their way from it, and on the event loop."""
        queue = cast("Any", self.engine)._queue
        return int(queue._opening) + len(queue._reading)

    def settle_for(self, span_s: float) -> None:
        """Let a time pass, and run everything that is due meanwhile."""
        ends_s = self.loop.now_s + span_s
        for _ in range(_MAX_STEPS):
            if not self.loop.is_idle:
                self.loop.run_iteration()
            elif self.opener.waiting:
                self.opener.run_one()
            elif any(worker.waiting for worker in self.syncer.workers.values()):
                self.syncer.work_some()
            elif self.loop.now_s < ends_s:
                self.loop.advance(0.5)
            else:
                return
        raise AssertionError("the partition does not come to rest")


def find_commit_error(response: object) -> ErrorCode:
    """Return the error of the only partition of an OffsetCommit response."""
    return ErrorCode(cast("Any", response).topics[0].partitions[0].error_code)
