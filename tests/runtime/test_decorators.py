"""A decorator of a machine sees all its calls and results, and can give it another time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass
from typing import Any

import pytest

from coordinator.core.outcome import NO_PRODUCER_ID, Context, Fact, Now, Outcome
from coordinator.group.group_requests import GroupTimerKey
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.machine import DurableSnapshot, HeartbeatMachine
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupResponse
from tests.broker.harness import heartbeat_request, join_request, sync_request
from tests.group.config import group_config
from tests.runtime.bench import Bench
from tests.runtime.counter import Add, AwaitValue, Break, Counters, Ring
from tests.runtime.held_clock import HeldClock
from tests.runtime.test_second_machine import TIMEOUT_S, one_turn, owned_again
from tests.storage.faulty_files import FaultyFiles

SESSION_TIMEOUT_MS = 10_000
"""Of `join_request`."""


class CountingDecorator(HeartbeatMachine):
    """Passes everything on, and counts it."""

    def __init__(self, machine: Any, calls: Counter[str]) -> None:
        self.machine: HeartbeatMachine = machine
        self.calls = calls

    def handle(self, request: Any, context: Context, now: Now) -> Outcome:
        self.calls["handle"] += 1
        return self.machine.handle(request, context, now)

    def try_heartbeat(self, request: Any, context: Context, monotonic_ms: int, /) -> object | None:
        self.calls["beat"] += 1
        return self.machine.try_heartbeat(request, context, monotonic_ms)

    def fire_timer(self, key: Any, now: Now) -> Outcome:
        self.calls["fire"] += 1
        return self.machine.fire_timer(key, now)

    def replay(self, fact: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        self.calls["replay"] += 1
        self.machine.replay(fact, producer_id)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        self.machine.end_transaction(producer_id, is_committed=is_committed)

    @property
    def has_open_transactions(self) -> bool:
        return self.machine.has_open_transactions

    def on_loaded(self, now: Now) -> Outcome:
        self.calls["loaded"] += 1
        return self.machine.on_loaded(now)

    def unload(self) -> list[tuple[int, object]]:
        self.calls["unload"] += 1
        return self.machine.unload()

    @property
    def durable_keys(self) -> int:
        return self.machine.durable_keys

    def copy_durable(self) -> DurableSnapshot:
        return self.machine.copy_durable()


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


async def test_what_stands_in_front_stays_there_through_a_reload_and_a_move(files: FaultyFiles) -> None:
    calls: Counter[str] = Counter()
    bench = Bench(
        files,
        decorate=lambda machine: CountingDecorator(machine, calls) if type(machine) is Counters else machine,
    )
    await bench.take_all()
    partition = bench.counters.find_partition("a")
    assert calls == {"loaded": len(bench.counters.partitions)}

    await bench.ask(bench.counters, "a", Add("a", 3))
    await bench.ask(bench.counters, "a", Ring("a"))
    assert await bench.ask(bench.counters, "a", AwaitValue("a", 4)) == 4
    assert (calls["handle"], calls["fire"], calls["replay"]) == (3, 1, 0)

    await bench.ask(bench.counters, "a", Break())
    assert calls["unload"] == 1
    await owned_again(bench, "a")
    assert calls["loaded"] == len(bench.counters.partitions) + 1
    assert calls["replay"] > 0

    bench.counters.lifecycle.release_partition(partition, 1, "it moves")
    bench.counters.lifecycle.open_partition(partition, 2)
    await owned_again(bench, "a")
    assert calls["loaded"] == len(bench.counters.partitions) + 2
    handled = calls["handle"]
    assert await bench.ask(bench.counters, "a", Add("a", 1)) == 5
    assert calls["handle"] == handled + 1
    await bench.close()


@dataclass(frozen=True)
class Advance:
    """One group is later at once."""

    group_id: str
    ms: int


class GroupTimes(CountingDecorator):
    """Gives each group a clock: the engine's time plus an offset."""

    def __init__(self, machine: Any) -> None:
        super().__init__(machine, Counter())
        self._ahead_ms: Counter[str] = Counter()
        self._deadlines: dict[GroupTimerKey, int] = {}

    def handle(self, request: Any, context: Context, now: Now) -> Outcome:
        """A request of one group is given the time of that group."""
        if isinstance(request, Advance):
            self._ahead_ms[request.group_id] += request.ms
            mine = {key: at for key, at in self._deadlines.items() if key.group_id == request.group_id}
            return self._mapped(Outcome(timers=mine))
        return self._mapped(super().handle(request, context, self._at(getattr(request, "group_id", ""), now)))

    def try_heartbeat(self, request: Any, context: Context, monotonic_ms: int, /) -> object | None:
        """A group with its own time takes the slow path."""
        if request.group_id in self._ahead_ms:
            return None
        return super().try_heartbeat(request, context, monotonic_ms)

    def fire_timer(self, key: GroupTimerKey, now: Now) -> Outcome:
        """So is a timer of one group."""
        self._deadlines.pop(key, None)
        return self._mapped(super().fire_timer(key, self._at(key.group_id, now)))

    def on_loaded(self, now: Now) -> Outcome:
        """Nobody is ahead yet."""
        return self._mapped(super().on_loaded(now))

    def _at(self, group_id: str, now: Now) -> Now:
        ahead_ms = self._ahead_ms.get(group_id, 0)
        return Now(now.monotonic_ms + ahead_ms, now.wall_ms + ahead_ms)

    def _mapped(self, outcome: Outcome) -> Outcome:
        timers: dict[Hashable, int | None] = {}
        for key, deadline_ms in outcome.timers.items():
            if deadline_ms is None:
                self._deadlines.pop(key, None)
                timers[key] = None
            else:
                self._deadlines[key] = deadline_ms
                timers[key] = deadline_ms - self._ahead_ms.get(key.group_id, 0)
        outcome.timers = timers
        return outcome


@pytest.fixture
async def bench(files: FaultyFiles) -> AsyncIterator[Bench]:
    """Hold the group time, except for groups that a test advances."""
    held = HeldClock()
    held.hold()
    bench = Bench(
        files, held, lambda machine: GroupTimes(machine) if type(machine) is GroupShard else machine
    )
    await bench.take_all()
    yield bench
    await bench.close()


async def join(bench: Bench, group_id: str) -> JoinGroupResponse:
    """Makes a Stable group of one member, in its own time."""
    _, deferral = bench.put(bench.groups, group_id, join_request(group_id))
    while await state(bench, group_id) == "PreparingRebalance":
        bench.groups.receive_message(
            group_id, Advance(group_id, group_config().group_initial_rebalance_delay_ms)
        )
        await one_turn()
    joined = await deferral.reply.wait()
    assert isinstance(joined, JoinGroupResponse)
    sync = sync_request(group_id, joined.member_id, joined.generation_id, {joined.member_id: b"all"})
    await bench.ask(bench.groups, group_id, sync)
    return joined


async def state(bench: Bench, group_id: str) -> str:
    answer = await bench.ask(bench.groups, group_id, DescribeGroupsRequest(groups=[group_id]))
    assert isinstance(answer, DescribeGroupsResponse)
    return answer.groups[0].group_state


async def test_a_group_may_have_a_time_of_its_own_beside_others_of_its_partition(bench: Bench) -> None:
    partition = bench.groups.find_partition("moved")
    other = next(name for name in map(str, range(100)) if bench.groups.find_partition(name) is partition)
    await join(bench, "moved")
    joined = await join(bench, other)
    assert (await state(bench, "moved"), await state(bench, other)) == ("Stable", "Stable")

    bench.groups.receive_message("moved", Advance("moved", SESSION_TIMEOUT_MS))
    async with asyncio.timeout(TIMEOUT_S):
        while await state(bench, "moved") != "Empty":
            await one_turn()
    assert await state(bench, other) == "Stable"
    heartbeat = heartbeat_request(other, joined.member_id, joined.generation_id)
    assert await bench.ask(bench.groups, other, heartbeat) == HeartbeatResponse(error_code=ErrorCode.NONE)
