"""Runs the groups: the pure core between the clock, the timers, the log and whoever waits.

An outcome of the core is acted on at once: its records are kept for the batch that the end of this turn appends,
its timers armed, its events told, its answers given, held or (when there is none for the caller) awaited. The end
of the turn appends one batch for each partition that has something to append and asks for it to be synced; what
then becomes durable opens the gate.

A partition whose append or sync fails, or whose groups contradict themselves, is taken out of service: whoever
waits is told NOT_COORDINATOR and looks for the coordinator again, and the groups are read anew from what the disk
holds. There is no other undo.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from coordinator.group.config import GroupConfig
from coordinator.group.events import Event
from coordinator.group.outcome import Context, Now, Outcome, TimerKey, TimerKind
from coordinator.group.requests import TopicsDeleted
from coordinator.group.shard import Shard
from coordinator.server import clock
from coordinator.server.error_responses import error_response
from coordinator.server.flusher import Flusher
from coordinator.server.load_queue import LoadQueue, Opening
from coordinator.server.loader import Load, LoadFailed
from coordinator.server.log_lines import log_expiry
from coordinator.server.offsets_partition import OffsetsPartition, PartitionState
from coordinator.server.state_keeper import StateKeeper
from coordinator.server.timers import Timers
from coordinator.server.trouble import Troubles
from coordinator.topics.config import LogFlush
from coordinator.topics.topic_name import CONSUMER_OFFSETS
from protocol.errors import ErrorCode
from protocol.partitioner import partition_for
from storage.errors import LogDamaged, LogPoisoned, StorageError
from storage.files import Files
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition

_LOG = logging.getLogger("GroupCoordinator")

RELOAD_RETRY_S: Final = 1.0
UNPIN_RETRY_S: Final = 0.01
REMEDY: Final = (
    "Its groups are out of service until the log can be read. With groupd stopped, `groupd log verify` tells "
    "what is wrong with it, and `groupd log repair` saves what is whole."
)
MAX_ROUTED_GROUPS: Final = 100_000

Observer = Callable[[OffsetsPartition, Iterable[Event]], None]


class GroupRuntime:
    """All partitions of `__consumer_offsets` that this process owns."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: GroupConfig,
        flush: LogFlush,
        flusher: Flusher,
        partitions: int,
        open_log: Callable[[int], PartitionLog],
        observe: Observer,
        files: Files,
        codec: int = 0,
    ) -> None:
        """In: how many partitions, how to open the log of one, who is told what happened in groups, the file system
        that the logs are in."""
        self.partitions = [
            OffsetsPartition(TopicPartition(CONSUMER_OFFSETS, number), flush, codec)
            for number in range(partitions)
        ]
        self.advanced: Callable[[int], None] | None = None
        """Called with the number of a partition whose readable end has moved."""
        self.on_loaded: Callable[[], None] | None = None
        """Called once, when every partition is ACTIVE or FAILED for the first time."""
        self.is_loaded = False
        self.is_shut_down = False
        self.was_parked = False
        """Whether the last `ask` that gave no answer was parked by the core; else it waits for the disk."""
        self.loads: list[tuple[int, int]] = []
        """Of the last loads: records and nanoseconds."""
        self._loop = loop
        self._config = config
        self._flush = flush
        self._flusher = flusher
        self._open_log = open_log
        self._observe = observe
        self._files = files
        self.states = StateKeeper(files, self.partitions)
        self._by_log: dict[PartitionLog, OffsetsPartition] = {}
        self.by_group: dict[str, OffsetsPartition] = {}
        """The partitions of groups that were asked for; `partition_of` adds what is missing."""
        self._dirty: list[OffsetsPartition] = []
        self._timers = Timers(loop, self._fire)
        self._queue = LoadQueue(loop, self._read_all)
        self._troubles = Troubles()
        self._unsound: dict[int, PartitionLog] = {}
        """Logs that are closed and being opened anew, by partition."""
        self._waiter = 0
        flusher.on_synced.append(self._synced)

    # Who is asked

    def partition_of(self, group_id: str) -> OffsetsPartition:
        """The partition that holds a group."""
        partition = self.by_group.get(group_id)
        if partition is None:
            partition = self.partitions[partition_for(group_id, len(self.partitions))]
            if len(self.by_group) >= MAX_ROUTED_GROUPS:
                self.by_group.clear()
            self.by_group[group_id] = partition
        return partition

    def next_waiter(self) -> int:
        """A number that no waiter had before."""
        self._waiter += 1
        return self._waiter

    @property
    def waiters(self) -> int:
        """How many answers are owed."""
        return sum(len(partition.waiting) for partition in self.partitions)

    @property
    def timers(self) -> int:
        """How many are armed."""
        return len(self._timers)

    # Asking

    def ask(self, partition: OffsetsPartition, request: Any, context: Context, now: Now) -> Any | None:
        """Puts a request to an ACTIVE partition.

        Out: the response, where it can be given at once. None: it will come to whoever is entered in
        `partition.waiting` under `context.waiter`, which the caller does next.
        """
        try:
            outcome = partition.handle(request, context, now)
            if outcome.records or outcome.timers or outcome.events:
                self._absorb(partition, outcome, now)
        except Exception as problem:  # noqa: BLE001 - the daemon outlives one partition's groups
            return self.contradicted(partition, problem, request, context)
        own = None
        self.was_parked = True
        position = partition.position
        is_readable = position <= partition.readable_offset
        for waiter, response in outcome.replies:
            if waiter == context.waiter:
                self.was_parked = False
                if is_readable:
                    own = response
                    continue
            self._answer(partition, waiter, response, position, is_readable)
        return own

    def follow_heartbeat(
        self, partition: OffsetsPartition, outcome: Outcome, request: object, context: Context, now: Now
    ) -> object:
        """Acts on what a heartbeat led to; its own answer, which never waits."""
        try:
            self._absorb(partition, outcome, now)
        except Exception as problem:  # noqa: BLE001 - the daemon outlives one partition's groups
            return self.contradicted(partition, problem, request, context)
        own: object = None
        position = partition.position
        is_readable = position <= partition.readable_offset
        for waiter, response in outcome.replies:
            if waiter == context.waiter:
                own = response
            else:
                self._answer(partition, waiter, response, position, is_readable)
        assert own is not None, "a heartbeat is answered at once"
        return own

    def _answer(
        self, partition: OffsetsPartition, waiter: int, response: object, position: int, is_readable: bool
    ) -> None:
        if is_readable:
            partition.answer(waiter, response)
        else:
            partition.gate.hold(position, waiter, response)

    def _absorb(self, partition: OffsetsPartition, outcome: Outcome, now: Now) -> None:
        """Records, timers and events of an outcome."""
        if outcome.records:
            partition.keep(outcome.records, now.wall_ms)
            if not partition.is_dirty:
                partition.is_dirty = True
                if not self._dirty:
                    self._loop.call_soon(self._end_turn)
                self._dirty.append(partition)
        for key, deadline_ms in outcome.timers.items():
            if deadline_ms is None:
                self._timers.cancel((partition.number, key))
            else:
                self._timers.set((partition.number, key), deadline_ms)
        if outcome.events:
            self._observe(partition, outcome.events)

    def _fire(self, timer: Hashable) -> None:
        assert isinstance(timer, tuple)
        number, key = timer
        assert isinstance(key, TimerKey)
        partition = self.partitions[number]
        shard = partition.shard
        if shard is None:
            return
        now = clock.now()
        started_ns = clock.monotonic_ns()
        try:
            outcome = shard.fire(key, now)
            self._follow(partition, outcome, now)
            if key.kind is TimerKind.EXPIRE_OFFSETS:
                log_expiry(partition, outcome.events, clock.monotonic_ns() - started_ns)
        except Exception as problem:  # noqa: BLE001 - the daemon outlives one partition's groups
            self.contradicted(partition, problem)

    def _follow(self, partition: OffsetsPartition, outcome: Outcome, now: Now) -> None:
        """Acts on an outcome that nobody in particular asked for."""
        self._absorb(partition, outcome, now)
        position = partition.position
        is_readable = position <= partition.readable_offset
        for waiter, response in outcome.replies:
            self._answer(partition, waiter, response, position, is_readable)

    def topics_deleted(self, names: list[str]) -> None:
        """Topics are gone; their offsets go too."""
        now = clock.now()
        for partition in self.partitions:
            if partition.shard is None:
                partition.deleted_topics += names
            else:
                self._forget_topics(partition, names, now)

    def _forget_topics(self, partition: OffsetsPartition, names: list[str], now: Now) -> None:
        context = Context(self.next_waiter(), 0, "", "")
        try:
            self._follow(partition, partition.handle(TopicsDeleted(names), context, now), now)
        except Exception as problem:  # noqa: BLE001 - the daemon outlives one partition's groups
            self.contradicted(partition, problem)

    # The disk

    def _end_turn(self) -> None:
        dirty, self._dirty = self._dirty, []
        for partition in dirty:
            partition.is_dirty = False
            if partition.log is None or not partition.pending_records:
                continue
            try:
                is_rolled = partition.write()
            except (StorageError, OSError) as error:
                self._failed(partition, error)
                continue
            if is_rolled or self._flush is LogFlush.ALWAYS:
                self._flusher.need(partition.log)
            if self._flush is not LogFlush.ALWAYS:
                self._moved(partition)
        self._flusher.kick()

    def _synced(self, log: PartitionLog, error: StorageError | None) -> None:
        partition = self._by_log.get(log)
        if partition is None or partition.log is not log or partition.shard is None:
            return
        if error is not None:
            self._failed(partition, error)
        elif self._flush is LogFlush.ALWAYS:
            self._moved(partition)

    def _moved(self, partition: OffsetsPartition) -> None:
        partition.release()
        if self._troubles:
            self._troubles.is_over(str(partition.name))
        if self.advanced is not None:
            self.advanced(partition.number)

    def _failed(self, partition: OffsetsPartition, error: Exception) -> None:
        """The disk refused: out of service, and again from what it holds; not at once when it refuses again."""
        is_first = str(partition.name) not in self._troubles
        if self._troubles.failed(str(partition.name), error):
            _LOG.error("Unloading group metadata of %s: %s", partition.name, error)
        self._unload(partition)
        if is_first:
            self._open_again(partition)
        else:
            self._loop.call_later(RELOAD_RETRY_S, self._retry, partition)

    def contradicted(
        self,
        partition: OffsetsPartition,
        problem: Exception,
        request: object = None,
        context: Context | None = None,
    ) -> Any:
        """The groups of a partition broke a rule of their own: memory is not to be trusted.

        Out: what the caller is told, if there is one.
        """
        _LOG.error("Unloading group metadata of %s after an internal error", partition.name, exc_info=problem)
        self._unload(partition)
        self._open_again(partition)
        if context is None:
            return None
        return error_response(request, context.api_version, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _unload(self, partition: OffsetsPartition) -> None:
        shard_waits = partition.waiting
        partition.state = PartitionState.LOADING
        try:
            partition.give_up(ErrorCode.NOT_COORDINATOR)
        except Exception as problem:  # noqa: BLE001 - groups that contradict themselves may refuse to unload too
            _LOG.error("%s could not be unloaded", partition.name, exc_info=problem)
            partition.waiting = shard_waits
            partition.shard = None
            partition.give_up(ErrorCode.NOT_COORDINATOR)
        self._timers.cancel_where(lambda key: isinstance(key, tuple) and key[0] == partition.number)

    # Loading

    def start_loading(self) -> None:
        """Opens and reads every partition, while the loop does other work."""
        for partition in self.partitions:
            self._open(partition)

    def _open(self, partition: OffsetsPartition) -> None:
        self._queue.add(partial(self._open_log, partition.number), partial(self._load, partition))

    def _open_again(self, partition: OffsetsPartition) -> None:
        """Reads what the disk holds; the log itself is opened anew only where it is not sure what that is."""
        log = partition.log or self._unsound.get(partition.number)
        if log is None:
            self._open(partition)
            return
        self._by_log.pop(log, None)
        if log.is_pinned:
            # Its compaction notices soon. Until then it may be about to replace files.
            log.poison(LogPoisoned(log.directory, "is about to be read again"))
            self._loop.call_later(UNPIN_RETRY_S, self._retry, partition)
            return
        if log.failure is None and not log.is_closed:
            self._queue.add(partial(_itself, log), partial(self._load, partition))
            return
        # Until it is open nobody looks at it.
        partition.log = None
        self._unsound[partition.number] = log
        self._queue.add(log.reopen, partial(self._load, partition))

    def _read_all(self) -> None:
        if not self.is_loaded:
            self.is_loaded = True
            if self.on_loaded is not None:
                self.on_loaded()

    def _load(self, partition: OffsetsPartition, opening: Opening) -> Iterator[object]:
        started_ns = clock.monotonic_ns()
        try:
            log = opening.result()
            self._unsound.pop(partition.number, None)
            if log is not partition.log:
                partition.log = log
                self._report_recovery(log)
            shard = Shard(self._config)
            reading = Load(log, shard, self._files)
            yield from reading.steps()
            self.states.loaded(partition, reading.state_end_offset, reading.has_open_transactions)
            self._activate(partition, log, shard)
        except (LogDamaged, LoadFailed) as error:
            partition.state = PartitionState.FAILED
            _LOG.error("Failed to load metadata from %s: %s. %s", partition.name, error, REMEDY)
            return
        except (StorageError, OSError) as error:
            if self._troubles.failed(f"Loading {partition.name}", error):
                _LOG.error("Failed to load metadata from %s: %s; trying again", partition.name, error)
            self._loop.call_later(RELOAD_RETRY_S, self._retry, partition)
            return
        except Exception as problem:  # noqa: BLE001 - one partition's records do not keep the daemon from starting
            partition.state = PartitionState.FAILED
            _LOG.error("Failed to load metadata from %s", partition.name, exc_info=problem)
            return
        self._troubles.is_over(f"Loading {partition.name}")
        records = partition.loaded_records = reading.records
        duration_ns = clock.monotonic_ns() - started_ns
        self.loads = [*self.loads[-99:], (records, duration_ns)]
        if records:
            _LOG.info(
                "Finished loading of metadata from %s in %dms. Loaded %d records which total to %d bytes.",
                partition.name,
                duration_ns // 1_000_000,
                records,
                log.size_bytes,
            )

    def _report_recovery(self, log: PartitionLog) -> None:
        if log.recovery_report.cut_bytes:
            _LOG.warning("%s", log.recovery_report)

    def _activate(self, partition: OffsetsPartition, log: PartitionLog, shard: Shard) -> None:
        if self.is_shut_down:
            return
        self._by_log[log] = partition
        partition.shard = shard
        partition.state = PartitionState.ACTIVE
        now = clock.now()
        self._follow(partition, shard.loaded(now), now)
        if partition.deleted_topics:
            names, partition.deleted_topics = partition.deleted_topics, []
            self._forget_topics(partition, names, now)
        if self._flush is LogFlush.ALWAYS and log.durable_offset < log.log_end_offset:
            self._flusher.need(log)
            self._flusher.kick()

    def _retry(self, partition: OffsetsPartition) -> None:
        if not self.is_shut_down and partition.state is PartitionState.LOADING:
            self._open_again(partition)

    # Ending

    async def shut_down(self) -> None:
        """Tells everybody who waits that there is no coordinator here any more, and writes what is kept."""
        self._end_turn()
        self.is_shut_down = True
        self._timers.close()
        await self._queue.stop()

    def abandon(self) -> None:
        """Lets go of everything at once, as a crash would."""
        self.is_shut_down = True
        self._timers.close()
        self._queue.abandon()

    def give_up_waiters(self) -> None:
        """Answers those who are still parked, after the disk has what was acknowledged."""
        for partition in self.partitions:
            partition.state = PartitionState.CLOSED
            partition.give_up(ErrorCode.NOT_COORDINATOR)

    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """Every open log."""
        return {
            part.name: part.log for part in self.partitions if part.log is not None and not part.log.is_closed
        }

    def failed(self) -> list[TopicPartition]:
        """The partitions that could not be read."""
        return [part.name for part in self.partitions if part.state is PartitionState.FAILED]

    def not_open(self) -> list[TopicPartition]:
        """The partitions whose logs are not open: not yet, or not any more."""
        return [part.name for part in self.partitions if part.log is None or part.log.is_closed]


def _itself(log: PartitionLog) -> PartitionLog:
    return log
