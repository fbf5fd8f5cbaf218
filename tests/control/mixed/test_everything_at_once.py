"""Random clocks, faults, failovers and compaction, while members and commits continue."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.problem import Problem
from coordinator.runtime import partition_driver
from tests.broker.harness import Client, serving
from tests.broker.test_group_partitions import active, committed
from tests.control.clock.living_member import until
from tests.control.faults.lab import Lab
from tests.control.interception import list_interceptors
from tests.control.mixed.committer import Committer
from tests.control.mixed.survivor import PATIENT_S, Survivor
from tests.control.serving import controlled
from tests.storage.faulty_files import FaultyFiles

GROUPS = ("billing", "audit", "not-there")
SIMPLE = ("simple-1", "simple-2", "simple-3")
SPANS_MS = (1, 500, 10_000, 3_600_000)
APIS = ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch", "LeaveGroup")
ACTIONS: tuple[dict[str, Any], ...] = (
    {"at": "request", "hold": True},
    {"at": "answer", "hold": True},
    {"at": "request", "swallow": True},
    {"at": "answer", "swallow": True},
    {"at": "request", "delay": 20},
    {"at": "answer", "delay": 20},
    {"at": "request", "drop": True},
    {"at": "answer", "drop": True},
    {"at": "request", "error": "NOT_COORDINATOR"},
    {"at": "answer", "error": "REBALANCE_IN_PROGRESS"},
    {"at": "request", "error": "UNKNOWN_MEMBER_ID"},
    {"at": "before_answer", "crash": "partition"},
)
DISK_ACTIONS: tuple[dict[str, Any], ...] = (
    {"at": "append", "fail": "EIO"},
    {"at": "append", "fail": "ENOSPC", "torn_bytes": 40},
    {"at": "append", "delay": 20},
    {"at": "sync", "fail": "EIO"},
    {"at": "sync", "delay": 20},
    {"at": "before_append", "crash": "partition"},
    {"at": "after_append", "crash": "partition"},
    {"at": "after_sync", "crash": "partition"},
)
ON_EVENTS: tuple[dict[str, Any], ...] = (
    {"failover": {"loading": 5}},
    {"freeze": True},
    {"expire": "member-*"},
    {"disconnect": "member-*"},
)
STEPS = 60
SYNC_S, SLOW_SYNCS = 0.05, 0.2
FIRST_CUTS_AT_ONCE, MOST_CUTS_AT_ONCE, CUT_AT_ONCE = 3, 10, 0.2
"""Power is cut at the first commits that are acknowledged, and then at so many of them, by chance."""


@pytest.fixture(autouse=True)
def _retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_driver, "RETRY_S", 0.01)


class Fate:
    """What chance does to a server."""

    def __init__(self, server: Server, control: ControlPlane, chance: random.Random) -> None:
        self.lab = Lab(server, control)
        self._server = server
        self._control = control
        self._chance = chance

    def next(self) -> Any:
        """Begin the next action, and return its future."""
        doing: list[Callable[[], Any]] = [
            *[self._put, self._advance, self._fail_over, self._disk_fault] * 2,
            *[self._advance, self._step, self._remove, self._expire, self._expire_offsets],
            *[self._fault] * 3,
            *[self._on_event, self._release, self._unfault],
        ]
        return self._chance.choice(doing)()

    def _group(self, *others: str | None) -> Any:
        return self._chance.choice([*GROUPS, *others])

    def _put(self) -> Any:
        frozen, gone = self._chance.random() < 0.5, self._chance.random() < 0.3
        return self._control.clocks.set_clock(
            self._group(None), frozen=frozen, expires_disconnected=frozen and gone
        )

    def _advance(self) -> Any:
        by_ms, settle_ms = self._chance.choice(SPANS_MS), self._chance.choice([0, 30])
        return self._control.clock_commands.advance_clock(
            self._group(None), by_ms, silent=None, settle_ms=settle_ms, description="advance", actor=None
        )

    def _step(self) -> Any:
        return self._control.clock_commands.step_clock(
            self._group(None), silent=None, settle_ms=10, actor=None
        )

    def _remove(self) -> Any:
        return self._control.clocks.remove(self._group(None))

    def _expire(self) -> Any:
        member = f"member-{self._chance.randrange(5)}"
        return self._control.member_commands.expire_member(self._group(), member, None)

    def _expire_offsets(self) -> Any:
        return self._control.offset_expiry.expire_offsets(self._group(), "+1h", (), None)

    def _fail_over(self) -> Any:
        number = self._chance.randrange(len(self._server.runtime.partitions))
        return self._control.failover.failover_partition(
            number, self._chance.choice([0, 10]), self._chance.choice([0, 10])
        )

    def _fault(self) -> Any:
        rule = {"api": self._chance.choice(APIS)}
        return self._made(rule, do=self._chance.choice(ACTIONS))

    def _disk_fault(self) -> Any:
        return self._made({}, do=self._chance.choice(DISK_ACTIONS))

    def _on_event(self) -> Any:
        event = self._chance.choice(["GroupStabilized", "MemberJoined", "RebalanceStarted", "OffsetsExpired"])
        return self._made(None, on={"event": event}, do=self._chance.choice(ON_EVENTS))

    async def _made(self, match: dict[str, Any] | None, **fields: Any) -> None:
        times = self._chance.choice([1, 1, 3])
        self.lab.fault(match, times=times, skip=self._chance.randrange(3), **fields)

    async def _release(self) -> None:
        for status in self._control.faults.list_faults():
            self._control.faults.release_fault(status.name)

    async def _unfault(self) -> None:
        if self._chance.random() < 0.5:
            self._control.faults.remove_all(None)


class SlowFiles(FaultyFiles):
    """A disk with slow writes. A record that is acknowledged before its sync stays unsynced for that time."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    def call(self, operation: str) -> int:
        if operation == "fdatasync" and self._chance.random() < SLOW_SYNCS:
            time.sleep(SYNC_S)
        return super().call(operation)


class PowerCut:
    """The state after a power cut, and the records that were acknowledged before it."""

    def __init__(self, files: FaultyFiles, committers: list[Committer]) -> None:
        self._files = files.crash()
        self._acknowledged = {committer.group_id: committer.acknowledged for committer in committers}

    async def check(self, properties: dict[str, str]) -> None:
        async with (
            serving("/data", properties, topics=(), files=self._files) as server,
            Client(server) as client,
        ):
            for group_id, offset in self._acknowledged.items():
                assert await committed(client, group_id) >= (offset or -1), group_id


class PowerCuts:
    """Some between any two things that happen, and some in the moment in which a commit was acknowledged."""

    def __init__(self, files: FaultyFiles, chance: random.Random) -> None:
        self.committers: list[Committer] = []
        self._files = files
        self._chance = chance
        self._cuts: list[PowerCut] = []
        self._at_once = 0

    def cut(self) -> None:
        """One now."""
        self._cuts.append(PowerCut(self._files, self.committers))

    def heard(self) -> None:
        """A commit was acknowledged."""
        if self._at_once < FIRST_CUTS_AT_ONCE or (
            self._at_once < MOST_CUTS_AT_ONCE and self._chance.random() < CUT_AT_ONCE
        ):
            self._at_once += 1
            self.cut()

    async def check(self, properties: dict[str, str]) -> None:
        """Whatever was acknowledged before one is found after it."""
        assert self._at_once, "no power was cut when a commit was acknowledged"
        for cut in self._cuts:
            await cut.check(properties)


def check(server: Server) -> None:
    """What must hold between any two things that happen."""
    for partition in server.runtime.partitions:
        if partition.machine is not None:
            partition.machine.check_invariants()


async def _ended(acting: set["asyncio.Future[Any]"]) -> None:
    """Each action has ended, or reports the reason of its failure."""
    for done in acting:
        with suppress(Problem):
            await asyncio.wait_for(done, 60)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_is_lost_or_left_behind(
    seed: int, stack: AsyncExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    chance, files = random.Random(seed), SlowFiles(random.Random(seed))
    properties = {
        "offsets.topic.num.partitions": "2",
        "oracle.commits": chance.choice(["true", "false"]),
        "log.journal.file.bytes": chance.choice(["0", "65536", "1048576"]),
        "offsets.topic.segment.bytes": "4096",
        "log.cleaner.backoff.ms": "5",
    }
    if seed % 3 == 2:
        properties["log.flush"] = "os"
    server, control = await stack.enter_async_context(controlled("/data", properties, files))
    fate = Fate(server, control, chance)
    members = [
        await stack.enter_async_context(Survivor(server, GROUPS[number % 2], f"member-{number}"))
        for number in range(5)
    ]
    power_cuts = PowerCuts(files, random.Random(seed))
    power_cuts.committers = committers = [Committer(server, name, power_cuts.heard) for name in SIMPLE]
    acting: set[asyncio.Future[Any]] = set()
    for step in range(STEPS):
        if step % 3 == 0:
            power_cuts.cut()
        acting.add(asyncio.ensure_future(fate.next()))
        await asyncio.sleep(chance.choice([0, 0, 0.001, 0.01, 0.05]))
        check(server)
    for member in members:
        member.patience_s = PATIENT_S
    control.faults.remove_all(None)
    await _ended(acting)
    for group_id in (*GROUPS, None):
        await control.clocks.remove(group_id)
    check(server)
    await until(lambda: fate.lab.faults.held_count == 0 and not control.failover.in_progress_count)
    await active(server)
    for committer in committers:
        await committer.stop()
        await committer.check(server)
    await until(lambda: all(member.is_settled.is_set() for member in members))
    assert not control.clocks.times
    assert not any(map(list_interceptors, server.runtime.partitions))
    for member in members:
        await member.die()
    await fate.lab.until_plain()
    assert server.engine.waiter_count == 0
    assert "internal error" not in caplog.text
    assert not [record for record in caplog.records if record.exc_info], caplog.text
    if "log.flush" not in properties:
        await power_cuts.check(properties)
