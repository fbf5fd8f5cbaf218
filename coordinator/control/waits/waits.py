"""Everybody who waits for a group to be as they want it.

A wait is looked at when something happens to its group: an event, an offset that became durable, an entry of the
ledger, a change of topics, a clock that was moved. What happens within one iteration of the loop is looked at once,
for all who wait for the group, and looking at a large group is spaced so that it takes a tenth of the loop at most.
A state that was over before somebody looked is found in the ledger (`rebalanced`).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from coordinator import clock
from coordinator.control.acts import Act, Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.ledger.entry import LedgerEntry
from coordinator.control.member_connections import MemberConnections
from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.waits.committed_offsets import settled
from coordinator.control.waits.conditions import Conditions, conditions_of
from coordinator.control.waits.explanation import Explanation, HintGiver, explanation
from coordinator.control.waits.outlook import Ledger, Outlook
from coordinator.control.waits.sight import GroupSight
from coordinator.control.waits.verdict import Met, met, not_durable, not_met
from coordinator.control.waits.watch import GroupWatch, Waiter
from coordinator.engine.partition import Partition
from coordinator.group.events import Event
from coordinator.machine.outcome import Now
from coordinator.server.server import Server
from coordinator.topics.answer import TopicChange

MOST_WAITERS: Final = 4_096
"""Of all groups together."""
DISK_TIMEOUT_S: Final = 5.0
"""So long the disk is waited for at least, where what is asked about is not durable yet."""


class Waits:
    """See the top of this file. All methods belong to the event loop's thread."""

    def __init__(
        self,
        server: Server,
        asker: GroupAsker,
        connections: MemberConnections,
        acts: Acts,
        now_of: Callable[[str], Now],
        removals: GroupRemovals,
        ledger: Ledger | None = None,
    ) -> None:
        """In: the time of a group; the ledger, without which nobody can wait for `rebalanced`."""
        self.hint_givers: list[HintGiver] = []
        self._server = server
        self._asker = asker
        self.outlook = Outlook(server, connections, now_of, removals, ledger)
        self._watches: dict[str, GroupWatch] = {}
        self._waiters = 0
        self._readers = 0
        server.group_events.listeners.append(self._happened)
        server.runtime.ownership.was_read.append(self._taken)
        server.topic_listeners.append(self._topics_changed)
        server.group_clock.on_moved.append(self._look_at_all)
        acts.listeners.append(self._acted)
        if ledger is not None:
            ledger.listeners.append(self._rebalanced)

    def __len__(self) -> int:
        """How many wait."""
        return self._waiters

    # Asking

    async def wait(self, group_id: str, body: Conditions, within_ms: int) -> Met:
        """Waits, in real time, until a group is so, and what that says is durable. Raises Problem: bad-request,
        not-met, not-possible, too-many."""
        return await self._wait(group_id, body, within_ms, is_check=False)

    async def check(self, group_id: str, body: Conditions) -> Met:
        """Whether a group is so now. Raises Problem, as above."""
        return await self._wait(group_id, body, 0, is_check=True)

    def explain(self, group_id: str) -> Explanation:
        """Of a group now; there need not be one."""
        return explanation(self.sight(group_id), self.hint_givers)

    def sight(self, group_id: str) -> GroupSight:
        """A group now, as conditions see it."""
        return self.outlook.sight(group_id)

    async def _wait(self, group_id: str, body: Conditions, within_ms: int, *, is_check: bool) -> Met:
        conditions = conditions_of(body)
        if body.rebalanced is not None and not self.outlook.has_ledger:
            detail = "There is no ledger that says which rebalances there were."
            raise Problem(ProblemKind.NOT_POSSIBLE, "There is no ledger", detail, {"pointer": "/rebalanced"})
        if self._waiters >= MOST_WAITERS:
            detail = f"{self._waiters} callers wait for groups already, and no more than that may."
            raise Problem(ProblemKind.TOO_MANY, "Too many wait", detail)
        began_ms = clock.monotonic_ms()
        waiter = Waiter(conditions, self.outlook.recollection.of(group_id).joins)
        watch = self._enter(group_id, waiter)
        try:
            sight = await self._until_met(watch, waiter, within_ms)
            if not all(condition.holds(sight) for condition in conditions):
                waited_ms = None if is_check else clock.monotonic_ms() - began_ms
                raise not_met(sight, conditions, waited_ms, waiter.joins_before, self.hint_givers)
            await self._until_durable(sight, began_ms, within_ms)
            return met(sight, conditions, clock.monotonic_ms() - began_ms)
        finally:
            self._leave(watch, waiter)

    async def _until_met(self, watch: GroupWatch, waiter: Waiter, within_ms: int) -> GroupSight:
        """The moment at which it was so, or the last one."""
        try:
            async with asyncio.timeout(within_ms / 1000 if within_ms else DISK_TIMEOUT_S):
                if waiter.reads_offsets:
                    await watch.read_offsets()
                if within_ms:
                    watch.look_soon()
                    return await waiter.met
        except TimeoutError:
            pass  # then what is so now is what it comes to
        return watch.sight()

    async def _until_durable(self, sight: GroupSight, began_ms: int, within_ms: int) -> None:
        partition = self._server.runtime.partition_of(sight.group_id)
        if partition.machine is None or partition.end_offset <= partition.readable_offset:
            return
        left_ms = within_ms - (clock.monotonic_ms() - began_ms)
        try:
            async with asyncio.timeout(max(left_ms / 1000, DISK_TIMEOUT_S)):
                await settled(self._asker, sight.group_id)
        except TimeoutError:
            raise not_durable(sight, clock.monotonic_ms() - began_ms) from None

    # Coming and going

    def _enter(self, group_id: str, waiter: Waiter) -> GroupWatch:
        watch = self._watches.get(group_id)
        if watch is None:
            number = self._server.runtime.partition_of(group_id).number
            watch = self._watches[group_id] = GroupWatch(group_id, number, self.outlook, self._asker)
        watch.add(waiter)
        self._waiters += 1
        self._count_readers(waiter.reads_offsets)
        return watch

    def _leave(self, watch: GroupWatch, waiter: Waiter) -> None:
        watch.remove(waiter)
        self._waiters -= 1
        if not watch.waiters:
            watch.close()
            del self._watches[watch.group_id]
        self._count_readers(-waiter.reads_offsets)

    def _count_readers(self, more: int) -> None:
        """Is told of commits only as long as somebody waits for one."""
        before, self._readers = self._readers, self._readers + more
        if self._readers and not before:
            self._server.engine.observers.append(self._committed)
        elif before and not self._readers:
            self._server.engine.observers.remove(self._committed)

    def close(self) -> None:
        """Whoever waits is told how it stands."""
        for watch in self._watches.values():
            watch.give_up()

    # What happens

    def _happened(self, partition: int, event: Event, number: int, now: Now) -> None:
        self.outlook.seq = number
        self.outlook.recollection.note(event, now)
        watch = self._watches.get(event.group_id)
        if watch is not None:
            watch.look_soon()

    def _committed(self, partition: Partition[Any], events: Sequence[Any], first: int, now: Now) -> None:
        """An observer of the engine: told of everything, commits among it."""
        for event in events:
            watch = self._watches.get(getattr(event, "group_id", ""))
            if watch is not None and watch.readers:
                watch.offsets_moved()

    def _rebalanced(self, entry: LedgerEntry) -> None:
        watch = self._watches.get(entry.group_id)
        if watch is not None:
            watch.look_soon()

    def _taken(self, partition: Partition[Any]) -> None:
        for watch in self._watches.values():
            if watch.partition == partition.number:
                watch.look_soon()
                if watch.readers:
                    watch.offsets_moved()

    def _topics_changed(self, changes: Sequence[TopicChange]) -> None:
        self._look_at_all()

    def _acted(self, act: Act) -> None:
        if act.group_id is None:
            self._look_at_all()
        elif act.group_id in self._watches:
            self._watches[act.group_id].look_soon()

    def _look_at_all(self) -> None:
        for watch in self._watches.values():
            watch.look_soon()
