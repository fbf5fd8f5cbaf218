"""Waits until a group satisfies conditions.

The conditions are evaluated after each change that concerns the group: an event, a durable offset, a ledger
entry, a topic change, a moved clock. All changes within one iteration of the event loop are evaluated at
once, for all waits on the group. Evaluations of a large group are spaced so that they take at most a tenth of
the loop's time. A state that ended before an evaluation is found in the ledger (`rebalanced`).

A wait succeeds only when everything that the reached state shows is durable.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from coordinator.broker.group_event_log import EventRank
from coordinator.broker.services import Services
from coordinator.control.diagnosis.group_conditions import Condition
from coordinator.control.diagnosis.group_diagnosis import (
    Explanation,
    FindingProvider,
    WaitResult,
    build_wait_result,
    collect_findings,
    explain_snapshot,
    not_durable_problem,
    not_met_problem,
)
from coordinator.control.diagnosis.group_snapshot import (
    GroupSnapshot,
    Offsets,
    RebalanceSource,
    SnapshotSource,
)
from coordinator.control.diagnosis.wait_conditions import GroupConditions, build_conditions
from coordinator.control.group_client import InternalGroupClient
from coordinator.control.group_finding import GroupFinding
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.ledger.ledger_entry import LedgerEntry
from coordinator.control.member_connections import MemberConnections
from coordinator.control.operator_actions import ActionLog, OperatorAction
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core import clock
from coordinator.core.outcome import Now
from coordinator.group.group_event_types import GroupEvent
from coordinator.group.group_requests import FetchOffsets
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.topics.data_plane_answer import TopicChange
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)

_SPACED_FROM_MS: Final = 1
"""The duration in milliseconds from which evaluations are spaced. The next one then waits nine times as long."""
_PAUSE_FACTOR: Final = 9
_SNAPSHOT_MAX_AGE_MS: Final = 20
_MANY_OFFSETS: Final = 1_000
_MANY_OFFSETS_PAUSE_S: Final = 0.1
"""The pause before the next read of a group with many committed offsets."""


class Waiter:
    """A pending wait. `result` gets the snapshot in which all conditions held. `joins_before` is the number of
    JoinGroups before the wait."""

    __slots__ = ("conditions", "joins_before", "reads_offsets", "result")

    def __init__(self, conditions: Sequence[Condition], joins_before: int) -> None:
        self.conditions = conditions
        self.result: asyncio.Future[GroupSnapshot] = asyncio.get_running_loop().create_future()
        self.joins_before = joins_before
        self.reads_offsets = any(condition.reads_offsets for condition in conditions)

    def evaluate_conditions(self, snapshot: GroupSnapshot) -> bool:
        """Return whether all conditions hold, and complete the wait if they do."""
        if not self.result.done() and all(condition.is_met(snapshot) for condition in self.conditions):
            self.result.set_result(snapshot)
        return self.result.done()

    def compute_due_ms(self, snapshot: GroupSnapshot) -> int | None:
        """Return the remaining group time in milliseconds after which the wait may succeed without an event."""
        due = [condition.compute_due_ms(snapshot) for condition in self.conditions]
        known = [one for one in due if one]
        return max(known) if known else None


class GroupWaitQueue:
    """The waits on one group. All methods belong to the event loop's thread."""

    def __init__(
        self, group_id: str, partition: int, snapshots: SnapshotSource, group_client: InternalGroupClient
    ) -> None:
        """Create the queue of a group. `partition` is the number of its offsets partition."""
        self.group_id = group_id
        self.partition = partition
        self.waiters: dict[Waiter, None] = {}
        self.reader_count = 0
        """The number of waits that need the committed offsets."""
        self._snapshots = snapshots
        self._group_client = group_client
        self._loop = asyncio.get_running_loop()
        self._offsets: Offsets | None = None
        self._is_stale = False
        self._reading: asyncio.Task[None] | None = None
        self._next_read: asyncio.Future[None] | None = None
        """Completes with the read of the offsets that begins next."""
        self._evaluation: asyncio.Handle | None = None
        self._not_before_ms = 0
        self._wakeup: asyncio.TimerHandle | None = None
        self._wakeup_armed_ms = 0
        self._snapshot: GroupSnapshot | None = None
        self._snapshot_ms = 0

    def add(self, waiter: Waiter) -> None:
        """Evaluate a wait from now on."""
        self.waiters[waiter] = None
        self.reader_count += waiter.reads_offsets

    def remove(self, waiter: Waiter) -> None:
        del self.waiters[waiter]
        self.reader_count -= waiter.reads_offsets

    def take_snapshot(self) -> GroupSnapshot:
        """Return a snapshot of the group with the last known offsets. Waits that expire together share a snapshot
        for up to 20 ms, unless the group has changed."""
        now_ms = clock.monotonic_ms()
        if self._snapshot is None or now_ms - self._snapshot_ms > _SNAPSHOT_MAX_AGE_MS:
            self._snapshot, self._snapshot_ms = (
                self._snapshots.take_snapshot(self.group_id, self._offsets),
                now_ms,
            )
        return self._snapshot

    # Evaluation

    def schedule_evaluation(self) -> None:
        """Evaluate the waits after a change: at the end of this loop iteration, or later if evaluations are
        slow."""
        self._snapshot = None
        if self._evaluation is not None:
            return
        delay_ms = self._not_before_ms - clock.monotonic_ms()
        if delay_ms > 0:
            self._evaluation = self._loop.call_later(delay_ms / 1000, self._evaluate)
        else:
            self._evaluation = self._loop.call_soon(self._evaluate)

    def _evaluate(self) -> None:
        self._evaluation = self._snapshot = None
        began_ns = clock.monotonic_ns()
        snapshot = self.take_snapshot()
        due = [
            waiter.compute_due_ms(snapshot)
            for waiter in list(self.waiters)
            if not waiter.evaluate_conditions(snapshot)
        ]
        self._schedule_wakeup(min((one for one in due if one is not None), default=None), snapshot)
        ended_ns = clock.monotonic_ns()
        took_ms = (ended_ns - began_ns) // 1_000_000
        if took_ms >= _SPACED_FROM_MS:
            self._not_before_ms = ended_ns // 1_000_000 + _PAUSE_FACTOR * took_ms

    def _schedule_wakeup(self, due_ms: int | None, snapshot: GroupSnapshot) -> None:
        """Evaluate again when the group time `due_ms` from now is reached, if the clock of the group runs."""
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        if due_ms is not None:
            self._wakeup_armed_ms = snapshot.now.monotonic_ms
            self._wakeup = self._loop.call_later((due_ms + 1) / 1000, self._on_wakeup)

    def _on_wakeup(self) -> None:
        self._wakeup = self._snapshot = None
        if self.take_snapshot().now.monotonic_ms > self._wakeup_armed_ms:
            self.schedule_evaluation()
        # else the clock of the group is stopped, and its start schedules the evaluation

    # Offsets

    async def read_offsets(self) -> None:
        """Wait until the current committed offsets are read and durable. Concurrent callers share one read."""
        if self._next_read is None:
            self._next_read = self._loop.create_future()
        self.on_offsets_changed()
        await asyncio.shield(self._next_read)

    def on_offsets_changed(self) -> None:
        """Read the committed offsets again after a change, and evaluate the waits when the offsets are
        durable."""
        self._is_stale = True
        if self._reading is None:
            self._reading = self._loop.create_task(self._read_until_current())

    async def _read_until_current(self) -> None:
        try:
            while self._is_stale:
                self._is_stale = False
                readers, self._next_read = self._next_read, None
                try:
                    self._offsets = await read_committed_offsets(self._group_client, self.group_id)
                finally:
                    if readers is not None:
                        readers.set_result(None)
                self.schedule_evaluation()
                if self._offsets is not None and len(self._offsets) > _MANY_OFFSETS:
                    await asyncio.sleep(_MANY_OFFSETS_PAUSE_S)
        finally:
            self._reading = None

    # End

    def release_waiters(self) -> None:
        """Complete all waits with the current snapshot."""
        snapshot = self.take_snapshot()
        for waiter in self.waiters:
            if not waiter.result.done():
                waiter.result.set_result(snapshot)

    def close(self) -> None:
        """Cancel the scheduled evaluations."""
        for handle in (self._evaluation, self._wakeup, self._reading):
            if handle is not None:
                handle.cancel()


MAX_WAITERS: Final = 4_096
"""The maximum number of waits on all groups together."""
DISK_TIMEOUT_S: Final = 5.0
"""The minimum time to wait for the disk when the observed state is not durable yet, seconds."""


class GroupWaits:
    """The waits on all groups. All methods belong to the event loop's thread."""

    def __init__(
        self,
        services: Services,
        group_client: InternalGroupClient,
        connections: MemberConnections,
        actions: ActionLog,
        group_now: Callable[[str], Now],
        removals: GroupRemovals,
        ledger: RebalanceSource | None = None,
    ) -> None:
        """Create the waits. `group_now` returns the time of a group. Without a ledger, `rebalanced` is refused."""
        self.finding_providers: list[FindingProvider] = []
        self._services = services
        self._group_client = group_client
        self.snapshots = SnapshotSource(services, connections, group_now, removals, ledger)
        self._queues: dict[str, GroupWaitQueue] = {}
        self._waiter_count = 0
        self._reader_count = 0
        services.group_events.subscribe(EventRank.WAITS, self._on_event)
        services.runtime.lifecycle.load_listeners.append(self._on_partition_loaded)
        services.topic_images.listeners.append(self._on_topics_changed)
        services.group_clock.on_moved.append(self._schedule_all)
        actions.listeners.append(self._on_action)
        if ledger is not None:
            ledger.listeners.append(self._on_rebalance_closed)

    def __len__(self) -> int:
        """Return the number of open waits."""
        return self._waiter_count

    # Waits and checks

    async def wait_for_conditions(self, group_id: str, body: GroupConditions, within_ms: int) -> WaitResult:
        """Wait, in real time, until a group meets the conditions and its state is durable.

        Raises:
            Problem: bad-request, not-met, not-possible, too-many.
        """
        return await self._wait_for(group_id, body, within_ms, is_check=False)

    async def check_conditions(self, group_id: str, body: GroupConditions) -> WaitResult:
        """Check whether a group meets the conditions now. Raises Problem: bad-request, not-met, not-possible,
        too-many."""
        return await self._wait_for(group_id, body, 0, is_check=True)

    def explain_group(self, group_id: str) -> Explanation:
        """Explain the present state of a group, which need not exist."""
        return explain_snapshot(self.take_snapshot(group_id), self.finding_providers)

    def find_worst(self, group_id: str) -> GroupFinding | None:
        """Return the blocking finding of a group with the greatest weight, or None if nothing blocks the
        group."""
        found = collect_findings(self.take_snapshot(group_id), self.finding_providers)
        return found[0] if found and found[0].blocks else None

    def take_snapshot(self, group_id: str) -> GroupSnapshot:
        """Return the snapshot of a group that conditions are evaluated on."""
        return self.snapshots.take_snapshot(group_id)

    async def _wait_for(
        self, group_id: str, body: GroupConditions, within_ms: int, *, is_check: bool
    ) -> WaitResult:
        conditions = build_conditions(body)
        if body.rebalanced is not None and not self.snapshots.has_ledger:
            detail = "The ledger is off, so groupd cannot wait for a rebalance."
            raise Problem(ProblemKind.NOT_POSSIBLE, "The ledger is off", detail, {"pointer": "/rebalanced"})
        if self._waiter_count >= MAX_WAITERS:
            detail = f"{self._waiter_count} callers already wait for groups, which is the limit."
            raise Problem(ProblemKind.TOO_MANY, "Too many waits", detail)
        began_ms = clock.monotonic_ms()
        waiter = Waiter(conditions, self.snapshots.histories.find_history(group_id).join_count)
        queue = self._add_waiter(group_id, waiter)
        try:
            snapshot = await self._await_met(queue, waiter, within_ms)
            if not all(condition.is_met(snapshot) for condition in conditions):
                waited_ms = None if is_check else clock.monotonic_ms() - began_ms
                raise not_met_problem(
                    snapshot, conditions, waited_ms, waiter.joins_before, self.finding_providers
                )
            await self._await_durable(snapshot, began_ms, within_ms)
            return build_wait_result(snapshot, conditions, clock.monotonic_ms() - began_ms)
        finally:
            self._remove_waiter(queue, waiter)

    async def _await_met(self, queue: GroupWaitQueue, waiter: Waiter, within_ms: int) -> GroupSnapshot:
        """Return the snapshot in which all conditions held, or the current one after the time limit."""
        try:
            async with asyncio.timeout(within_ms / 1000 if within_ms else DISK_TIMEOUT_S):
                if waiter.reads_offsets:
                    await queue.read_offsets()
                if within_ms:
                    queue.schedule_evaluation()
                    return await waiter.result
        except TimeoutError:
            pass  # the caller gets the current state
        return queue.take_snapshot()

    async def _await_durable(self, snapshot: GroupSnapshot, began_ms: int, within_ms: int) -> None:
        partition = self._services.runtime.find_partition(snapshot.group_id)
        if partition.machine is None or partition.end_offset <= partition.readable_offset:
            return
        left_ms = within_ms - (clock.monotonic_ms() - began_ms)
        try:
            async with asyncio.timeout(max(left_ms / 1000, DISK_TIMEOUT_S)):
                await wait_until_durable(self._group_client, snapshot.group_id)
        except TimeoutError:
            raise not_durable_problem(snapshot, clock.monotonic_ms() - began_ms) from None

    # Queues

    def _add_waiter(self, group_id: str, waiter: Waiter) -> GroupWaitQueue:
        queue = self._queues.get(group_id)
        if queue is None:
            number = self._services.runtime.find_partition(group_id).number
            queue = self._queues[group_id] = GroupWaitQueue(
                group_id, number, self.snapshots, self._group_client
            )
        queue.add(waiter)
        self._waiter_count += 1
        self._count_readers(waiter.reads_offsets)
        return queue

    def _remove_waiter(self, queue: GroupWaitQueue, waiter: Waiter) -> None:
        queue.remove(waiter)
        self._waiter_count -= 1
        if not queue.waiters:
            queue.close()
            del self._queues[queue.group_id]
        self._count_readers(-waiter.reads_offsets)

    def _count_readers(self, more: int) -> None:
        """Observe commits only while a wait reads committed offsets."""
        before, self._reader_count = self._reader_count, self._reader_count + more
        if self._reader_count and not before:
            self._services.group_events.subscribe_to_commits(self._on_commit)
        elif before and not self._reader_count:
            self._services.group_events.unsubscribe_from_commits(self._on_commit)

    def close(self) -> None:
        """Complete every wait with the current snapshot of its group."""
        for queue in self._queues.values():
            queue.release_waiters()

    # Changes

    def _on_event(self, partition: int, event: GroupEvent, number: int, now: Now) -> None:
        self.snapshots.histories.on_event(event, number, now)
        queue = self._queues.get(event.group_id)
        if queue is not None:
            queue.schedule_evaluation()
            if queue.reader_count:
                queue.on_offsets_changed()

    def _on_commit(self, partition: int, event: GroupEvent, number: int, now: Now) -> None:
        queue = self._queues.get(event.group_id)
        if queue is not None and queue.reader_count:
            queue.on_offsets_changed()

    def _on_rebalance_closed(self, entry: LedgerEntry) -> None:
        queue = self._queues.get(entry.group_id)
        if queue is not None:
            queue.schedule_evaluation()

    def _on_partition_loaded(self, partition: CoordinatorPartition[Any]) -> None:
        for queue in self._queues.values():
            if queue.partition == partition.number:
                queue.schedule_evaluation()
                if queue.reader_count:
                    queue.on_offsets_changed()

    def _on_topics_changed(self, changes: Sequence[TopicChange]) -> None:
        self._schedule_all()

    def _on_action(self, action: OperatorAction) -> None:
        if action.group_id is None:
            self._schedule_all()
        elif action.group_id in self._queues:
            self._queues[action.group_id].schedule_evaluation()

    def _schedule_all(self) -> None:
        for queue in self._queues.values():
            queue.schedule_evaluation()


_OFFSET_FETCH_VERSION = 8
"""The first version of OffsetFetch with several groups in one request."""


async def read_committed_offsets(group_client: InternalGroupClient, group_id: str) -> Offsets | None:
    """Return all committed offsets of a group when they are durable, or None while the group is unavailable."""
    answer = await _fetch_offsets(group_client, group_id, None)
    if answer is None:
        return None
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
    }


async def wait_until_durable(group_client: InternalGroupClient, group_id: str) -> None:
    """Wait until all reported state of a group is durable, or the group is unavailable."""
    await _fetch_offsets(group_client, group_id, [])


async def _fetch_offsets(
    group_client: InternalGroupClient, group_id: str, topics: list[OffsetFetchRequestTopics] | None
) -> OffsetFetchResponseGroup | None:
    request = FetchOffsets(OffsetFetchRequestGroup(group_id=group_id, topics=topics))
    try:
        answer: OffsetFetchResponseGroup = await group_client.request(
            group_id, request, _OFFSET_FETCH_VERSION
        )
    except Problem:
        return None
    return None if answer.error_code != ErrorCode.NONE else answer
