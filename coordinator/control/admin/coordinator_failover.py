"""Failovers: unload an offsets partition, answer NOT_COORDINATOR and then loading errors, and load it again.

Pending requests get NOT_COORDINATOR, and so do all requests for a duration. For a second duration the partition is
loading, and heartbeats succeed, as in Kafka. Then groupd reads the partition from the disk.

With several brokers another broker can become the coordinator, which then loads the partition. Until then
FindCoordinator returns the old one. In a cluster on etcd the new coordinator is another process, whose
members are not visible here. A partition that returns to the same broker gets a new token too.

The groups of an offsets partition move together. Members that return in time keep their generation and assignment.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct, structs

from coordinator.broker.group_event_log import EventRank
from coordinator.broker.services import Services
from coordinator.control.group_client import InternalGroupClient, describe_remote_coordinator
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core import clock
from coordinator.core.message_text import format_count, printable
from coordinator.core.outcome import Now
from coordinator.core.wire_name import wire_name
from coordinator.group.group_event_types import GroupEvent, RebalanceStarted
from coordinator.group.group_shard import GroupShard
from coordinator.group.group_view import GroupView, MemberView
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState

ACTION_KIND: Final = "failover"
MAX_SPAN_MS: Final = 600_000
MAX_NAMED_GROUPS: Final = 1000
POLL_INTERVAL_S: Final = 0.05
"""The interval of checks whether members are back, in seconds. Heartbeats have no events."""
STABLE: Final = "Stable"

GroupPartition = CoordinatorPartition[GroupShard]


@wire_name("GroupAfter")
class GroupFailoverResult(Struct, frozen=True, kw_only=True):
    """The result of a failover for a group. `members` is the number of its members before the failover.
    `members_back` is the number of these that have sent a request under the same id since then, and `rebalances`
    the number of rebalances that have begun since then."""

    group_id: str
    state: str
    generation_id: int
    generation_kept: bool
    members: int
    members_back: int
    rebalances: int


@wire_name("FailoverAnswer")
class FailoverResult(Struct, frozen=True, kw_only=True):
    """The result of a failover. `partition` is the moved partition, and `groups` are its groups, at most a
    thousand. `owner` is the new coordinator, or null. `group` is the result for the requested group, null without
    one."""

    partition: str
    groups: list[str]
    group_count: int
    epoch: int
    owner: int | None
    not_coordinator_ms: int
    loading_ms: int
    served_after_ms: int
    group: GroupFailoverResult | None


class _PartitionFailover:
    """A failover in progress."""

    def __init__(self, partition: GroupPartition, groups: list[str], by: str | None, to: int | None) -> None:
        """Create a failover of `groups`. `to` is the new broker, or None for the current one."""
        self.partition = partition
        self.by = by
        self.to = to
        self.groups = groups
        self.started_ns = clock.monotonic_ns()
        self.served: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None

    def schedule_take(self, delay_s: float, take: Callable[[], None]) -> None:
        """Let a broker take the partition in `delay_s` seconds."""
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._take_after_delay, take)

    def _take_after_delay(self, take: Callable[[], None]) -> None:
        self._timer = None
        take()

    def end_delay(self, take: Callable[[], None]) -> None:
        """Let a broker take the partition at once if the delay has not ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._take_after_delay(take)


class CoordinatorFailover:
    """Performs failovers of offsets partitions. All methods belong to the event loop's thread."""

    def __init__(
        self,
        services: Services,
        actions: ActionLog,
        group_client: InternalGroupClient,
        removals: GroupRemovals,
        view: Callable[[str], GroupView | None],
        silent_ms: Callable[[GroupView, MemberView], int],
    ) -> None:
        """Create the failovers. `view` returns a group. `silent_ms` returns the real time since the last request
        of a member, in milliseconds."""
        self._removals = removals
        self._find_view = view
        self._silent_ms = silent_ms
        self._services = services
        self._actions = actions
        self._group_client = group_client
        services.runtime.lifecycle.load_listeners.append(self._on_partition_loaded)
        self._cluster = services.membership.ownership
        self._failovers: dict[int, _PartitionFailover] = {}
        self._wait_tasks: set[asyncio.Task[None]] = set()
        """Waits for the new owner in a cluster on etcd."""

    @property
    def in_progress_count(self) -> int:
        """Return the number of partitions that are being moved."""
        return len(self._failovers)

    def _check_local(self, partition: GroupPartition) -> None:
        """Check that this process coordinates a partition. Raises Problem (not-possible)."""
        remote = describe_remote_coordinator(self._cluster, partition.name)
        if remote is not None:
            detail = f"{partition.name} {remote}."
            raise Problem(ProblemKind.NOT_POSSIBLE, "not coordinated here", detail)

    async def failover_group(
        self,
        group_id: str,
        not_coordinator_ms: int,
        loading_ms: int,
        settle_ms: int,
        by: str | None = None,
        to: int | None = None,
    ) -> FailoverResult:
        """Move the partition of a group, and wait at most `settle_ms` for its members.

        The failover continues if the call is cancelled. `to` is the new broker, or None for the current one.
        Raises Problem: no-such-group, loading, bad-request, not-possible.
        """
        self._check_local(self._services.runtime.find_partition(group_id))
        partition = self._group_client.find_partition(group_id)
        before = self._find_view(group_id)
        if before is None:
            raise self._removals.no_such_group(group_id)
        rebalances = _RebalanceCounter(group_id)
        self._services.group_events.subscribe(EventRank.COMMANDS, rebalances.on_event)
        try:
            answer = await self._failover_and_wait(
                partition, not_coordinator_ms, loading_ms, group_id, by, to
            )
            if self._cluster.is_remote(partition.name):
                return answer
            after = await self._await_settled(before, rebalances, settle_ms)
        finally:
            self._services.group_events.unsubscribe(rebalances.on_event)
        return structs.replace(answer, group=after)

    async def failover_partition(
        self,
        number: int,
        not_coordinator_ms: int,
        loading_ms: int,
        by: str | None = None,
        to: int | None = None,
    ) -> FailoverResult:
        """Move an offsets partition, and wait until its coordinator serves it. Raises Problem: bad-request,
        loading, not-possible."""
        partitions = self._services.runtime.partitions
        if not 0 <= number < len(partitions):
            detail = f"There are {len(partitions)} offsets partitions, numbered from 0."
            raise Problem(ProblemKind.BAD_REQUEST, f"offsets partition {number} does not exist", detail)
        return await self._failover_and_wait(partitions[number], not_coordinator_ms, loading_ms, None, by, to)

    def start_failover(
        self,
        group_id: str,
        not_coordinator_ms: int,
        loading_ms: int,
        by: str | None,
        to: int | None = None,
    ) -> None:
        """Start the failover of a group without waiting for it.

        Without a loaded partition in this process the call has no effect. The current broker keeps the partition
        if the target broker does not run.
        """
        partition = self._services.runtime.find_partition(group_id)
        if partition.machine is not None and partition.number not in self._failovers:
            target = to if to in self._cluster.brokers else None
            self._release_partition(partition, not_coordinator_ms, loading_ms, group_id, by, target)

    async def _failover_and_wait(
        self,
        partition: GroupPartition,
        not_coordinator_ms: int,
        loading_ms: int,
        group_id: str | None,
        by: str | None,
        to: int | None,
    ) -> FailoverResult:
        for field, span_ms in (("not_coordinator", not_coordinator_ms), ("loading", loading_ms)):
            if not 0 <= span_ms <= MAX_SPAN_MS:
                detail = f"{field} must be at most 10 minutes."
                raise Problem(
                    ProblemKind.BAD_REQUEST, f"{field} is invalid", detail, {"pointer": f"/{field}"}
                )
        self._check_local(partition)
        if partition.machine is None:
            detail = f"{partition.name} is {partition.state.value} and cannot move now."
            raise Problem(ProblemKind.LOADING, f"{partition.name} is {partition.state.value}", detail)
        if to is not None and to not in self._cluster.brokers:
            detail = f"Broker {to} is not live. The live brokers are: {', '.join(map(str, self._cluster.brokers))}."
            raise Problem(ProblemKind.NOT_POSSIBLE, f"broker {to} is not live", detail, {"pointer": "/to"})
        move = self._release_partition(partition, not_coordinator_ms, loading_ms, group_id, by, to)
        if not await asyncio.shield(move.served):
            detail = f"The broker is stopping, and {partition.name} is not loaded again."
            raise Problem(ProblemKind.LOADING, "the broker is stopping", detail)
        if partition.state is PartitionState.FAILED:
            detail = f"{partition.name} could not be loaded again; the log has the reason."
            raise Problem(ProblemKind.LOADING, f"{partition.name} failed", detail)
        return FailoverResult(
            partition=str(partition.name),
            groups=move.groups[:MAX_NAMED_GROUPS],
            group_count=len(move.groups),
            epoch=partition.epoch,
            owner=self._cluster.find_owner(partition.name),
            not_coordinator_ms=not_coordinator_ms,
            loading_ms=loading_ms,
            served_after_ms=(clock.monotonic_ns() - move.started_ns) // 1_000_000,
            group=None,
        )

    def _release_partition(
        self,
        partition: GroupPartition,
        not_coordinator_ms: int,
        loading_ms: int,
        group_id: str | None,
        by: str | None,
        to: int | None,
    ) -> _PartitionFailover:
        assert partition.machine is not None
        groups = partition.machine.list_group_ids()
        move = self._failovers[partition.number] = _PartitionFailover(partition, groups, by, to)
        count = format_count(len(groups), "group")
        where = "" if to is None else f" to broker {to}"
        what = f"{partition.name} moves{where}, with it {count}"
        self._actions.record_action(ACTION_KIND, what, group_id, by)
        reason = f"failover requested by {printable(by or 'control')}"
        self._services.membership.release_coordinator(partition.name, reason)
        if not_coordinator_ms:
            move.schedule_take(not_coordinator_ms / 1000, partial(self._take_partition, move, loading_ms))
        else:
            self._take_partition(move, loading_ms)
        return move

    def _take_partition(self, move: _PartitionFailover, loading_ms: int) -> None:
        membership, name = self._services.membership, move.partition.name
        if membership.retake_coordinator(name, move.to, loading_ms / 1000):
            return
        awaited = self._services.loop.create_task(self._await_served(move, loading_ms))
        self._wait_tasks.add(awaited)
        awaited.add_done_callback(self._wait_tasks.discard)

    async def _await_served(self, move: _PartitionFailover, loading_ms: int) -> None:
        """Wait in a cluster until this broker has loaded the partition, or another broker has claimed it and
        `loading_ms` have passed."""
        name = move.partition.name
        while True:
            is_far, owner = self._cluster.is_remote(name), self._cluster.find_owner(name)
            if is_far and owner is not None:
                await asyncio.sleep(loading_ms / 1000)
                break
            if not is_far and move.partition.state in (PartitionState.OWNED, PartitionState.FAILED):
                break
            await asyncio.sleep(POLL_INTERVAL_S)
        if self._failovers.get(name.partition) is move:
            del self._failovers[name.partition]
        if not move.served.done():
            move.served.set_result(True)

    def _on_partition_loaded(self, partition: GroupPartition) -> None:
        move = self._failovers.pop(partition.number, None)
        if move is not None and not move.served.done():
            move.served.set_result(True)

    async def _await_settled(
        self, before: GroupView, rebalances: "_RebalanceCounter", settle_ms: int
    ) -> GroupFailoverResult:
        """Wait until all members are back and the group is Stable or in its previous state, at most
        `settle_ms`."""
        served_ms = self._services.group_clock.now().monotonic_ms
        ends_ns = clock.monotonic_ns() + settle_ms * 1_000_000
        while True:
            after = self._build_group_result(before, rebalances, served_ms)
            is_back = after.members_back == after.members and after.state in (STABLE, before.state)
            if is_back or clock.monotonic_ns() >= ends_ns:
                return after
            await asyncio.sleep(POLL_INTERVAL_S)

    def close(self) -> None:
        """Let brokers take the moved partitions at once, and end the waits for them."""
        for move in list(self._failovers.values()):
            if not move.served.done():
                move.served.set_result(False)
            move.end_delay(partial(self._take_partition, move, 0))
        for awaited in self._wait_tasks:
            awaited.cancel()

    def _build_group_result(
        self, before: GroupView, rebalances: "_RebalanceCounter", served_ms: int
    ) -> GroupFailoverResult:
        """Return the result for the requested group.

        The clock of the group may be stopped or ahead. Therefore the time of the process decides whether a member
        has sent a request since.
        """
        view = self._find_view(before.group_id)
        back = 0
        if view is not None:
            had = {member.name.member_id for member in before.members}
            since_ms = self._services.group_clock.now().monotonic_ms - served_ms
            back = sum(
                member.name.member_id in had
                and (
                    self._silent_ms(view, member) < since_ms
                    or member.is_awaiting_join
                    or member.is_awaiting_sync
                )
                for member in view.members
            )
        return GroupFailoverResult(
            group_id=before.group_id,
            state="Dead" if view is None else view.state,
            generation_id=-1 if view is None else view.generation_id,
            generation_kept=view is not None and view.generation_id == before.generation_id,
            members=len(before.members),
            members_back=back,
            rebalances=rebalances.count,
        )


class _RebalanceCounter:
    """Counts the rebalances of a group."""

    def __init__(self, group_id: str) -> None:
        self.count = 0
        self._group_id = group_id

    def on_event(self, _: int, event: GroupEvent, number: int, now: Now) -> None:
        if type(event) is RebalanceStarted and event.group_id == self._group_id:
            self.count += 1
