"""Runs the machines of one internal topic: between the clock, the timers, the log and whoever waits.

An outcome is acted on at once: its records are kept for the batch that the end of this iteration of the loop
appends, its timers armed, its events told, its answers given, held or (when there is none for the asker) awaited.
The end of the iteration appends one batch for each partition that has something to append and asks for it to be
synced; what then becomes durable opens the gate.

A partition whose append or sync fails, or whose machine contradicts itself, is taken out of service: see
`ownership.py`. There is no other undo.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, Generic

from coordinator import clock
from coordinator.answers import HELD, PARKED, Later
from coordinator.engine.durability import Durability
from coordinator.engine.machine import B, InternalTopic, M
from coordinator.engine.ownership import Ownership
from coordinator.engine.partition import Partition, PartitionState
from coordinator.engine.place import Asker
from coordinator.engine.refused_partitions import RETRY_S
from coordinator.engine.replicated_partition import ReplicatedPartition
from coordinator.engine.shared import Shared
from coordinator.engine.timers import Timers
from coordinator.engine.work import Works
from coordinator.machine.outcome import Context, Message, Now, Outcome
from coordinator.names import LogFlush
from protocol.errors import ErrorCode
from protocol.partitioner import partition_for
from storage.errors import StorageError
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition

MAX_ROUTED_KEYS: Final = 100_000
_NOBODY: Final = 0
"""The waiter of a request that nobody asked for."""


class Runtime(Generic[M]):
    """All partitions of one internal topic, those that this process owns and the others."""

    def __init__(self, topic: InternalTopic[M], shared: Shared) -> None:
        self.topic = topic
        self._durability: Durability = topic.replication or shared.flusher
        kind = Partition if topic.replication is None else ReplicatedPartition
        self.partitions: list[Partition[M]] = [kind(topic, number) for number in range(topic.partitions)]
        self.advanced: Callable[[int], None] | None = None
        """Called with the number of a partition whose readable end has moved."""
        self.fired: Callable[[Partition[M], Hashable, Outcome, int], None] | None = None
        """Called after a timer has fired, with its key, what came of it, and how long that took in nanoseconds."""
        self.unloaded: list[Callable[[Partition[M]], None]] = []
        """Called, each, with a partition whose machine is given up: what it had not written is gone."""
        self.append: Callable[[Partition[M], int], bool] = Partition.write
        """Appends what a partition keeps, as `Partition.write`; another that stands in for it may do so later, and
        asks for that with `append_soon`."""
        self.is_shut_down = False
        self.next_waiter = shared.next_waiter
        """Gives a number that no waiter had before."""
        self._shared = shared
        self._flush = topic.flush
        self._log = logging.getLogger(topic.logger)
        self.by_key: dict[str, Partition[M]] = {}
        """The partitions of keys that were asked for; `partition_of` adds what is missing."""
        self._dirty: list[Partition[M]] = []
        self._clock = shared.group_clock
        self._timers = Timers(shared.loop, self._clock, self._fire)
        self.ownership = Ownership(topic, shared, self.partitions, self._began, self._ended)
        self._works = Works(shared, self._work_done)

    # Who is asked

    def partition_of(self, key: str) -> Partition[M]:
        """The partition to which a key (a group id) belongs."""
        partition = self.by_key.get(key)
        if partition is None:
            partition = self.partitions[partition_for(key, len(self.partitions))]
            if len(self.by_key) >= MAX_ROUTED_KEYS:
                self.by_key.clear()
            self.by_key[key] = partition
        return partition

    @property
    def timers(self) -> int:
        """How many are armed."""
        return len(self._timers)

    # Asking

    def ask(self, partition: Partition[M], request: Any, context: Context, asker: Asker) -> object | Later:
        """Puts a request to a partition that has a machine, at the time of the request at hand.

        Out: the response, where it can be given at once. Else HELD or PARKED, and the asker has been asked for the
        place where it goes.
        """
        if partition.state is PartitionState.READ_ONLY and not self.topic.only_reads(request):
            # As Kafka says it: what it answers where an append meets a KAFKA_STORAGE_ERROR.
            return self.topic.refuse(request, context.api_version, ErrorCode.NOT_COORDINATOR)
        now = self._clock.at_request()
        try:
            own = self._follow(partition, partition.handle(request, context, now), now, context.waiter)
        except Exception as problem:  # noqa: BLE001 - the daemon outlives one partition's machine
            return self.contradicted(partition, problem, request, context.api_version)
        if own is not PARKED:
            position = partition.position
            # What this iteration keeps is not in the log yet.
            if not partition.pending_records and position <= partition.reached:
                return own
            partition.gate.hold(position, context.waiter, own)
            if partition.is_replicated and not partition.is_dirty:
                self.append_soon(partition)
            own = HELD
        place = asker.answer_later(parks=own is PARKED)
        partition.await_answer(place, context.waiter, request)
        return own

    def ask_at_once(self, partition: Partition[M], request: Any, context: Context) -> object:
        """The same for a request whose answer never waits for anything: a heartbeat."""
        now = self._clock.at_request()
        try:
            own = self._follow(partition, partition.handle(request, context, now), now, context.waiter)
        except Exception as problem:  # noqa: BLE001 - the daemon outlives one partition's machine
            return self.contradicted(partition, problem, request, context.api_version)
        assert own is not PARKED, f"{type(request).__name__} is answered at once"
        return own

    def beat(
        self: "Runtime[B]", partition: Partition[B], request: Any, context: Context, *, waits_for_log: bool
    ) -> object | None:
        """The answer to a request from which nothing else follows, at the time of the request at hand. None:
        nothing was done, and the partition has to be asked. In: whether its answer waits for the log, as that of
        most requests does (`ask`)."""
        machine = partition.machine
        if machine is None or (waits_for_log and not partition.is_settled):
            return None
        return machine.beat(request, context, self._clock.at_request().monotonic_ms)

    def repeated_beat(
        self: "Runtime[B]",
        partition: Partition[B],
        request: Any,
        context: Context,
        response: object,
        *,
        waits_for_log: bool,
    ) -> Callable[[int], bool]:
        """The same for a request that is likely to come again just so, and its answer. Out: what is called each
        time, with the monotonic time of the process, in milliseconds, at which it came; whether that is the answer
        again."""
        to_group_ms = self._clock.to_group_ms

        def beat(process_ms: int) -> bool:
            machine = partition.machine
            if machine is None or (waits_for_log and not partition.is_settled):
                return False
            return machine.beat(request, context, to_group_ms(process_ms)) == response

        return beat

    def tell_all(self, request: object) -> None:
        """Tells every partition."""
        for partition in self.partitions:
            self.tell(partition, request)

    def receive(self, key: str, request: object) -> None:
        """Puts a message of another machine to the one that its key belongs to."""
        self.tell(self.partition_of(key), request)

    def tell(self, partition: Partition[M], request: object) -> None:
        """Puts a request that nobody waits for to a partition that is OWNED. One that is being read, or cannot be
        written, is told when it was, and can; one that is not here, or could not be read, is not."""
        if partition.state is PartitionState.OWNED:
            self._put(partition, request)
        elif partition.state in (PartitionState.LOADING, PartitionState.READ_ONLY):
            partition.missed.append(request)

    def _put(self, partition: Partition[M], request: object) -> None:
        now = self._clock.now()
        context = Context(_NOBODY, 0, "", "")
        try:
            self._follow(partition, partition.handle(request, context, now), now)
        except Exception as problem:  # noqa: BLE001 - the daemon outlives one partition's machine
            self.contradicted(partition, problem)

    # Acting on what came of it

    def _follow(
        self, partition: Partition[M], outcome: Outcome, now: Now, asking: int = _NOBODY
    ) -> object | Later:
        """Acts on an outcome. Out: the answer for the waiter that is asking, which is the caller's to give; PARKED
        where there is none for it yet."""
        if outcome.records or outcome.marker is not None:
            partition.keep(outcome)
            if not partition.is_dirty:
                self.append_soon(partition)
        for key, deadline_ms in outcome.timers.items():
            if deadline_ms is None:
                self._timers.cancel((partition.number, key))
            else:
                self._timers.set((partition.number, key), deadline_ms)
        if outcome.events:
            self._shared.tell(partition, outcome.events, now)
        if outcome.messages:
            self._send(partition, outcome.messages)
        if outcome.work:
            self._works.begin(partition, outcome.work)
        own: object | Later = PARKED
        for waiter, response in outcome.replies:
            if waiter == asking:
                own = response
            elif partition.position <= partition.reached:
                partition.answer(waiter, response)
            else:
                partition.gate.hold(partition.position, waiter, response)
                if partition.is_replicated and not partition.is_dirty:
                    self.append_soon(partition)
        return own

    def _send(self, partition: Partition[M], messages: Sequence[Message]) -> None:
        """Messages leave as answers do: in order, and not before what they stand on is durable."""
        partition.outbound.append((partition.position, messages))
        if partition.is_replicated and not partition.is_dirty:
            self.append_soon(partition)
        self._send_due(partition)

    def _send_due(self, partition: Partition[M]) -> None:
        for messages in partition.take_outbound():
            self._shared.loop.call_soon(self._shared.deliver, messages)

    def _work_done(self, partition: Partition[M], machine: M, done: object) -> None:
        if partition.bare is machine:
            self._put(partition, done)

    def _fire(self, timer: Hashable) -> None:
        assert isinstance(timer, tuple)
        number, key = timer
        self.fire(self.partitions[number], key)

    def fire(self, partition: Partition[M], key: Hashable) -> None:
        """Fires a timer of a machine, due or not; nothing happens where there is no machine."""
        machine = partition.machine
        if machine is None:
            return
        now = self._clock.now()
        if partition.state is PartitionState.READ_ONLY:
            # Nobody is given up, and nothing expires, as long as that could not be written.
            self._timers.set((partition.number, key), now.monotonic_ms + round(RETRY_S * 1000))
            return
        started_ns = clock.monotonic_ns()
        try:
            outcome = machine.fire(key, now)
            self._follow(partition, outcome, now)
            if self.fired is not None:
                self.fired(partition, key, outcome, clock.monotonic_ns() - started_ns)
        except Exception as problem:  # noqa: BLE001 - the daemon outlives one partition's machine
            self.contradicted(partition, problem)

    # The disk

    def append_soon(self, partition: Partition[M]) -> None:
        """Has the end of this iteration append what a partition keeps."""
        partition.is_dirty = True
        if not self._dirty:
            self._shared.loop.call_soon(self._end_iteration)
        self._dirty.append(partition)

    def _end_iteration(self) -> None:
        dirty, self._dirty = self._dirty, []
        wall_ms = clock.wall_ms()
        for partition in dirty:
            partition.is_dirty = False
            try:
                self._append_pending(partition, wall_ms)
            except Exception as problem:  # noqa: BLE001 - the partitions behind it have their turn all the same
                self._shared.loop.call_soon(self.contradicted, partition, problem)
        self._durability.kick()

    def _append_pending(self, partition: Partition[M], wall_ms: int) -> None:
        """Append what a partition keeps, and ask for it to be made durable."""
        if partition.log is None or not partition.pending_records:
            if partition.is_replicated and partition.machine is not None and partition.log is not None:
                self._durability.need(partition.log, self._synced)
            return
        try:
            is_rolled = self.append(partition, wall_ms)
        except (StorageError, OSError) as error:
            self.ownership.failed(partition, error)
            return
        except Exception as problem:  # noqa: BLE001 - the daemon outlives one partition's machine
            self.contradicted(partition, problem)
            return
        if partition.is_replicated and partition.pending_records:
            return  # it appends later: a submission now would confirm answers that wait for that
        if is_rolled or self._flush is LogFlush.ALWAYS:
            self._durability.need(partition.log, self._synced)
        if self._flush is not LogFlush.ALWAYS:
            self._moved(partition)

    def sync_dirty(self, partitions: Iterable[Partition[M]]) -> None:
        """Asks for what these partitions have appended to be synced, as far as it is not."""
        for partition in partitions:
            log = partition.log
            if log is not None and log.failure is None and log.is_dirty:
                self._durability.need(log, self._synced)
        self._durability.kick()

    def _synced(self, log: PartitionLog, error: StorageError | None) -> None:
        partition = self.ownership.owner_of(log)
        if partition is None:
            return
        if error is not None:
            self.ownership.failed(partition, error)
        elif self._flush is LogFlush.ALWAYS:
            try:
                self._moved(partition)
            except Exception as problem:  # noqa: BLE001 - the waiters that are left are answered otherwise
                self.contradicted(partition, problem)

    def _moved(self, partition: Partition[M]) -> None:
        partition.open_gate()
        if partition.outbound:
            self._send_due(partition)
        self.ownership.is_in_order(partition)
        if self.advanced is not None:
            self.advanced(partition.number)

    def contradicted(
        self, partition: Partition[M], problem: Exception, request: object = None, api_version: int = -1
    ) -> object:
        """The machine of a partition broke a rule of its own: memory is not to be trusted.

        Out: what the asker is told; None where there is no request.
        """
        self._log.error(
            "Unloading %s of %s after an internal error", self.topic.holds, partition.name, exc_info=problem
        )
        self.ownership.reload(partition)
        if request is None:
            return None
        return self.topic.refuse(request, api_version, ErrorCode.UNKNOWN_SERVER_ERROR)

    # Owning

    def _began(self, partition: Partition[M], outcome: Outcome, now: Now) -> None:
        """A partition is OWNED or READ_ONLY from now on."""
        self._follow(partition, outcome, now)
        if self._flush is LogFlush.ALWAYS:
            self.sync_dirty([partition])
        while partition.missed and partition.state is PartitionState.OWNED:
            self._put(partition, partition.missed.pop(0))

    def _ended(self, partition: Partition[M]) -> None:
        """A partition is not OWNED any more."""
        self._timers.cancel_where(lambda key: isinstance(key, tuple) and key[0] == partition.number)
        for unloaded in self.unloaded:
            unloaded(partition)

    def failed(self) -> list[TopicPartition]:
        """The partitions that could not be read."""
        return [part.name for part in self.partitions if part.state is PartitionState.FAILED]

    def shut_down(self) -> None:
        """Writes what is kept, and ends what was begun."""
        self._end_iteration()
        self.is_shut_down = True
        self.ownership.stop()
        self._timers.close()
        self._works.close()

    def abandon(self) -> None:
        """Lets go of everything at once, as a crash would."""
        self.is_shut_down = True
        self.ownership.stop()
        self._timers.close()
        self._works.close()
        self.ownership.states.abandon()

    def stop_listening(self) -> None:
        """The flusher goes on without it."""
        self._durability.forget(self._synced)

    def give_up_waiters(self) -> None:
        """Answers those who are still parked."""
        for partition in self.partitions:
            partition.state = PartitionState.ABSENT
            partition.give_up(ErrorCode.NOT_COORDINATOR)
