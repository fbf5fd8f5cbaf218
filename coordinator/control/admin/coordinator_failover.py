"""A coordinator that moves: whoever waits is told NOT_COORDINATOR, for a while everybody who asks is, for another
while the partition is loading (heartbeats are fine then, as in Kafka), and then it is read anew from the disk.

With several brokers it may go to another one, which then says that it loads; until then FindCoordinator names the
old one. In a cluster on etcd that is another process: how members fare there is not seen here. What comes back to
where it was is taken anew there, too, under another token.

The groups that share an offsets partition move together. What becomes of them is their members' doing: those that
come back in time keep generation and assignment.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Struct, structs

from coordinator import clock
from coordinator.control.acts import Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.elsewhere import coordinated_elsewhere
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.problem import Problem, ProblemKind
from coordinator.engine.partition import Partition, PartitionState
from coordinator.group.events import Event, RebalanceStarted
from coordinator.group.shard import Shard
from coordinator.group.view import GroupView, MemberView
from coordinator.machine.outcome import Now
from coordinator.net.peer import printable
from coordinator.server.server import Server

KIND: Final = "failover"
LONGEST_MS: Final = 600_000
MOST_NAMED: Final = 1000
LOOK_S: Final = 0.05
"""How often it is looked whether members are back: of their heartbeats nobody is told."""
STABLE: Final = "Stable"

GroupPartition = Partition[Shard]


class GroupAfter(Struct, frozen=True, kw_only=True):
    """What became of a group that failed over. `members` are those that it had; `members_back` how many of these
    were heard since, under the id that they had; `rebalances` how many began since."""

    group_id: str
    state: str
    generation_id: int
    generation_kept: bool
    members: int
    members_back: int
    rebalances: int


class FailoverAnswer(Struct, frozen=True, kw_only=True):
    """What moved. Of more than a thousand groups only so many are named. `owner`: the broker that coordinates it
    now, None where there is none. `group`: None where no group was asked for."""

    partition: str
    groups: list[str]
    group_count: int
    epoch: int
    owner: int | None
    not_coordinator_ms: int
    loading_ms: int
    served_after_ms: int
    group: GroupAfter | None


class _Move:
    """A partition on its way."""

    def __init__(self, partition: GroupPartition, by: str | None, to: int | None) -> None:
        """In: the broker that it comes to, None for the one where it is."""
        self.partition = partition
        self.by = by
        self.to = to
        self.groups: list[str] = []
        self.started_ns = clock.monotonic_ns()
        self.served: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None


class Failover:
    """See the top of this file. All methods belong to the event loop's thread."""

    def __init__(
        self,
        server: Server,
        acts: Acts,
        asker: GroupAsker,
        removals: GroupRemovals,
        view: Callable[[str], GroupView | None],
        silent_ms: Callable[[GroupView, MemberView], int],
    ) -> None:
        """In: what gives a group as it is now; for how long nothing was heard of a member, in reality."""
        self._removals = removals
        self._view = view
        self._silent_ms = silent_ms
        self._server = server
        self._acts = acts
        self._asker = asker
        self._ownership = server.runtime.ownership
        self._cluster = server.brokers.ownership
        self._moves: dict[int, _Move] = {}
        self._awaited: set[asyncio.Task[None]] = set()
        """Of moves in a cluster on etcd."""

    @property
    def under_way(self) -> int:
        """How many partitions are on their way."""
        return len(self._moves)

    def _check_here(self, partition: GroupPartition) -> None:
        """Raises Problem (not-possible) for a partition that another process coordinates."""
        elsewhere = coordinated_elsewhere(self._cluster, partition.name)
        if elsewhere is not None:
            detail = f"{partition.name} {elsewhere}."
            raise Problem(ProblemKind.NOT_POSSIBLE, "not coordinated here", detail)

    async def group(
        self,
        group_id: str,
        not_coordinator_ms: int,
        loading_ms: int,
        settle_ms: int,
        by: str | None = None,
        to: int | None = None,
    ) -> FailoverAnswer:
        """Moves the partition of a group, and waits at most `settle_ms` for its members to be back. Whoever gives
        up waiting changes nothing. In: the broker that it comes to, None for the one where it is. Raises Problem:
        no-such-group, loading, bad-request, not-possible."""
        self._check_here(self._server.runtime.partition_of(group_id))
        partition = self._asker.partition_of(group_id)
        before = self._view(group_id)
        if before is None:
            raise self._removals.no_such_group(group_id)
        rebalances = _Rebalances(group_id)
        listeners: list[Callable[[int, Event, int, Now], None]] = self._server.group_events.listeners
        listeners.append(rebalances.happened)
        try:
            answer = await self._moved(partition, not_coordinator_ms, loading_ms, group_id, by, to)
            if self._cluster.is_far(partition.name):
                return answer
            after = await self._settled(before, rebalances, settle_ms)
        finally:
            listeners.remove(rebalances.happened)
        return structs.replace(answer, group=after)

    async def partition(
        self,
        number: int,
        not_coordinator_ms: int,
        loading_ms: int,
        by: str | None = None,
        to: int | None = None,
    ) -> FailoverAnswer:
        """Moves a partition. Raises Problem: bad-request, loading, not-possible."""
        partitions = self._server.runtime.partitions
        if not 0 <= number < len(partitions):
            detail = f"There are {len(partitions)} offsets partitions, from 0 on."
            raise Problem(ProblemKind.BAD_REQUEST, f"no offsets partition {number}", detail)
        return await self._moved(partitions[number], not_coordinator_ms, loading_ms, None, by, to)

    def begin(
        self,
        group_id: str,
        not_coordinator_ms: int,
        loading_ms: int,
        by: str | None,
        to: int | None = None,
    ) -> None:
        """The same, and nobody waits. Nothing happens where the partition is not here now; it stays at its broker
        where the other one does not live."""
        partition = self._server.runtime.partition_of(group_id)
        if partition.machine is not None and partition.number not in self._moves:
            target = to if to in self._cluster.brokers else None
            self._release(partition, not_coordinator_ms, loading_ms, group_id, by, target)

    async def _moved(
        self,
        partition: GroupPartition,
        not_coordinator_ms: int,
        loading_ms: int,
        group_id: str | None,
        by: str | None,
        to: int | None,
    ) -> FailoverAnswer:
        for field, span_ms in (("not_coordinator", not_coordinator_ms), ("loading", loading_ms)):
            if not 0 <= span_ms <= LONGEST_MS:
                detail = f"{field}: at most 10 minutes."
                raise Problem(ProblemKind.BAD_REQUEST, f"{field} is wrong", detail, {"pointer": f"/{field}"})
        self._check_here(partition)
        if partition.machine is None:
            detail = f"{partition.name} is {partition.state.value}: it cannot move now."
            raise Problem(ProblemKind.LOADING, f"{partition.name} is {partition.state.value}", detail)
        if to is not None and to not in self._cluster.brokers:
            detail = (
                f"Broker {to} does not live. Those that do: {', '.join(map(str, self._cluster.brokers))}."
            )
            raise Problem(ProblemKind.NOT_POSSIBLE, f"no broker {to}", detail, {"pointer": "/to"})
        move = self._release(partition, not_coordinator_ms, loading_ms, group_id, by, to)
        if not await asyncio.shield(move.served):
            detail = f"The broker stops: {partition.name} is not back."
            raise Problem(ProblemKind.LOADING, "the broker stops", detail)
        if partition.state is PartitionState.FAILED:
            detail = f"{partition.name} could not be read again: the log says why."
            raise Problem(ProblemKind.LOADING, f"{partition.name} failed", detail)
        return FailoverAnswer(
            partition=str(partition.name),
            groups=move.groups[:MOST_NAMED],
            group_count=len(move.groups),
            epoch=partition.epoch,
            owner=self._cluster.owner(partition.name),
            not_coordinator_ms=not_coordinator_ms,
            loading_ms=loading_ms,
            served_after_ms=(clock.monotonic_ns() - move.started_ns) // 1_000_000,
            group=None,
        )

    def _release(
        self,
        partition: GroupPartition,
        not_coordinator_ms: int,
        loading_ms: int,
        group_id: str | None,
        by: str | None,
        to: int | None,
    ) -> _Move:
        assert partition.machine is not None
        move = self._moves[partition.number] = _Move(partition, by, to)
        move.groups = partition.machine.group_ids()
        cluster = self._server.cluster
        if cluster is None and len(self._moves) == 1:
            self._ownership.was_read.append(self._was_read)
        count = len(move.groups)
        where = "" if to is None else f" to broker {to}"
        what = f"{partition.name} moves{where}, with it {count} group{'' if count == 1 else 's'}"
        self._acts.note(KIND, what, group_id, by)
        reason = f"failover asked for by {printable(by or 'control')}"
        if cluster is None:
            self._ownership.release(partition, partition.epoch + 1, reason)
        else:
            cluster.put_aside(partition.name, reason)
        if not_coordinator_ms:
            move.timer = self._server.loop.call_later(not_coordinator_ms / 1000, self._take, move, loading_ms)
        else:
            self._take(move, loading_ms)
        return move

    def _take(self, move: _Move, loading_ms: int) -> None:
        move.timer = None
        partition, to = move.partition, move.to
        cluster = self._server.cluster
        if cluster is not None:
            if to in self._cluster.brokers and to is not None and to != self._cluster.owner(partition.name):
                cluster.move(partition.name, to, loading_ms / 1000)
            else:
                cluster.retake(partition.name, loading_ms / 1000)
            awaited = self._server.loop.create_task(self._until_served(move, loading_ms))
            self._awaited.add(awaited)
            awaited.add_done_callback(self._awaited.discard)
            return
        if to is not None and to in self._cluster.brokers and to != self._cluster.owner(partition.name):
            self._server.brokers.move(partition.name, to, loading_ms / 1000)
            return
        self._ownership.take(partition, partition.epoch + 1, loading_ms / 1000)

    async def _until_served(self, move: _Move, loading_ms: int) -> None:
        """Of one in a cluster: until this broker has read it again, or another one has claimed it, and has said for
        so long that it loads."""
        name = move.partition.name
        while True:
            is_far, owner = self._cluster.is_far(name), self._cluster.owner(name)
            if is_far and owner is not None:
                await asyncio.sleep(loading_ms / 1000)
                break
            if not is_far and move.partition.state in (PartitionState.OWNED, PartitionState.FAILED):
                break
            await asyncio.sleep(LOOK_S)
        self._moves.pop(name.partition, None)
        if not move.served.done():
            move.served.set_result(True)

    def _was_read(self, partition: GroupPartition) -> None:
        move = self._moves.pop(partition.number, None)
        if not self._moves:
            self._ownership.was_read.remove(self._was_read)
        if move is not None and not move.served.done():
            move.served.set_result(True)

    async def _settled(self, before: GroupView, rebalances: "_Rebalances", settle_ms: int) -> GroupAfter:
        """Waits until the members are back and the group is as it was."""
        served_ms = self._server.group_clock.now().monotonic_ms
        ends_ns = clock.monotonic_ns() + settle_ms * 1_000_000
        while True:
            after = self._group_after(before, rebalances, served_ms)
            is_back = after.members_back == after.members and after.state in (STABLE, before.state)
            if is_back or clock.monotonic_ns() >= ends_ns:
                return after
            await asyncio.sleep(LOOK_S)

    def close(self) -> None:
        """Brings back at once what is away; nobody waits for that any more."""
        for move in list(self._moves.values()):
            if not move.served.done():
                move.served.set_result(False)
            if move.timer is not None:
                move.timer.cancel()
                self._take(move, 0)
        for awaited in self._awaited:
            awaited.cancel()

    def _group_after(self, before: GroupView, rebalances: "_Rebalances", served_ms: int) -> GroupAfter:
        """The time of a group may stand still or be ahead: whether a member was heard since is a matter of the
        process's."""
        view = self._view(before.group_id)
        back = 0
        if view is not None:
            had = {member.name.member_id for member in before.members}
            since_ms = self._server.group_clock.now().monotonic_ms - served_ms
            back = sum(
                member.name.member_id in had
                and (
                    self._silent_ms(view, member) < since_ms
                    or member.is_awaiting_join
                    or member.is_awaiting_sync
                )
                for member in view.members
            )
        return GroupAfter(
            group_id=before.group_id,
            state="Dead" if view is None else view.state,
            generation_id=-1 if view is None else view.generation_id,
            generation_kept=view is not None and view.generation_id == before.generation_id,
            members=len(before.members),
            members_back=back,
            rebalances=rebalances.count,
        )


class _Rebalances:
    """Counts those of a group."""

    def __init__(self, group_id: str) -> None:
        self.count = 0
        self._group_id = group_id

    def happened(self, _: int, event: Event, number: int, now: Now) -> None:
        """See `EventListener`."""
        if type(event) is RebalanceStarted and event.group_id == self._group_id:
            self.count += 1
