"""Rebalances that do not end, members that nearly starve, groups that do not come to rest."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.control.diagnosis.oracle import CHECK_PERIOD_MS
from coordinator.control.diagnosis.violation import OracleName, Severity
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest
from tests.control.diagnosis.watched_server import GROUP, Member, Watched, generation, join, orders, watched
from tests.runtime.held_clock import HeldClock

ALL = orders(0, 1, 2, 3)


@pytest.fixture
def held() -> HeldClock:
    """The clock of all groups; it runs until it is held."""
    return HeldClock()


@pytest.fixture
async def watch(tmp_path: Path, held: HeldClock) -> AsyncIterator[Watched]:
    """Groups with a clock of the test."""
    async with watched(tmp_path, {"oracle.stuck.ms": "30000"}, group_clock=held) as watch:
        yield watch


async def looked(watch: Watched) -> None:
    """Waits until every look that is due by now was taken: until one that is due later has been."""
    rules, taken = watch.control.oracles.context.oracles, asyncio.Event()
    look = rules.check_group

    def note(oracle: OracleName, group_id: str) -> None:
        look(oracle, group_id)
        if group_id == "looked-at-last":
            taken.set()

    watch.control.oracles.context.oracles.check_group = note  # type: ignore[method-assign]
    watch.control.oracles.context.schedule_check(
        OracleName.STUCK_REBALANCE, "looked-at-last", CHECK_PERIOD_MS
    )
    await taken.wait()
    rules.check_group = look  # type: ignore[method-assign]


async def test_an_advanced_clock_makes_no_group_stuck(watch: Watched, held: HeldClock) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        alice.session_timeout_ms = bob.session_timeout_ms = 60_000
        await generation({alice: ALL})
        bob.ask_to_join()
        while await alice.beat() == 0:
            pass
        held.advance(50_000)
        assert await alice.beat() == ErrorCode.REBALANCE_IN_PROGRESS
        await looked(watch)
        assert watch.of(OracleName.STUCK_REBALANCE) == []


async def test_a_frozen_group_is_not_stuck(tmp_path: Path) -> None:
    held = HeldClock()
    async with (
        watched(tmp_path, {"oracle.stuck.ms": "1"}, group_clock=held) as watch,
        Member(watch, "alice") as alice,
        Member(watch, "bob") as bob,
    ):
        await generation({alice: ALL})
        held.hold()
        bob.ask_to_join()
        await looked(watch)
        await looked(watch)
        assert watch.of(OracleName.STUCK_REBALANCE) == []


async def test_the_wait_for_first_members_is_no_stuck_rebalance(tmp_path: Path) -> None:
    held = HeldClock()
    properties = {"oracle.stuck.ms": "1", "group.initial.rebalance.delay.ms": "3000"}
    async with (
        watched(tmp_path, properties, group_clock=held) as watch,
        Member(watch, "alice") as alice,
    ):
        alice.ask_to_join()
        await looked(watch)
        assert watch.of(OracleName.STUCK_REBALANCE) == []


async def test_a_member_that_nearly_starves_is_reported_once(watch: Watched, held: HeldClock) -> None:
    async with Member(watch, "alice") as alice:
        await generation({alice: ALL})
        held.hold()
        held.advance(6_000)
        await looked(watch)
        assert watch.of(OracleName.STARVED_HEARTBEAT) == []
        held.advance(1_000)
        found = await watch.found(OracleName.STARVED_HEARTBEAT)
        assert (found.severity, found.members[0].client_id) == (Severity.NOTICE, "alice")

        assert await alice.beat() == 0
        await looked(watch)
        held.advance(7_000)
        await looked(watch)
        (same,) = watch.of(OracleName.STARVED_HEARTBEAT)
        assert same.times == 1


async def test_a_member_without_a_connection_is_gone_and_not_starved(watch: Watched, held: HeldClock) -> None:
    async with Member(watch, "alice") as alice:
        await generation({alice: ALL})
    await watch.server.connections.emptied.wait()
    held.advance(7_000)
    await looked(watch)
    assert watch.of(OracleName.STARVED_HEARTBEAT) == []


async def test_a_parked_join_has_nothing_to_send(watch: Watched, held: HeldClock) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        await generation({alice: orders(0, 1), bob: orders(2, 3)})
        alice.ask_to_join()
        while await bob.beat() == 0:
            pass
        for _ in range(2):
            held.advance(4_000)
            assert await bob.beat() == ErrorCode.REBALANCE_IN_PROGRESS
        await looked(watch)
        assert watch.of(OracleName.STARVED_HEARTBEAT) == []


async def leave(member: Member) -> None:
    """Leaves the group, and knows of nothing any more."""
    answer = await member.call(LeaveGroupRequest(group_id=GROUP, member_id=member.member_id), 2)
    assert answer.error_code == 0
    member.member_id, member.generation_id = "", -1


async def test_a_member_that_rejoins_often_makes_its_group_flap(watch: Watched) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        await generation({alice: ALL})
        for _ in range(3):
            await generation({alice: orders(0, 1), bob: orders(2, 3)})
            await leave(bob)
            await generation_after_a_leave(alice)
        (found,) = watch.of(OracleName.FLAPPING)
    assert found.severity is Severity.NOTICE
    assert [member.client_id for member in found.members] == ["bob"]
    assert "member left" in found.detail
    assert "member joined" in found.detail


async def generation_after_a_leave(alice: Member) -> None:
    """The remaining member rejoins and gets every partition."""
    alice.ask_to_join()
    await alice.joined()
    alice.ask_to_sync({alice.member_id: ALL})
    assert (await alice.receive()).error_code == 0


async def test_a_rolling_restart_and_a_scale_up_are_no_flapping(watch: Watched) -> None:
    names = ["alice", "bob", "carol"]
    members: list[Member] = []
    for name in names:
        members.append(await Member(watch, name).__aenter__())
        await generation({member: [("orders", number)] for number, member in enumerate(members)})
    for number, name in enumerate(names):
        gone = members.pop(0)
        await leave(gone)
        for member in members:
            member.ask_to_join()
        for member in members:
            await member.joined()
        leader = next(member for member in members if member.member_id == member.leader)
        leader.ask_to_sync({})
        for member in members:
            if member is not leader:
                member.ask_to_sync()
        for member in members:
            assert (await member.receive()).error_code == 0
        gone.writer.close()
        members.append(await Member(watch, name).__aenter__())
        await generation({member: [("orders", at)] for at, member in enumerate(members)})
        assert members[0].generation_id >= 5 + number * 2
    for member in members:
        member.writer.close()
    assert watch.of(OracleName.FLAPPING) == []


async def test_cooperative_follow_ups_do_not_count_as_flapping(watch: Watched) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        alice.protocol = bob.protocol = "cooperative-sticky"
        await generation({alice: ALL, bob: ()})
        for _ in range(6):
            await join([alice, bob])
            alice.ask_to_sync({alice.member_id: ALL})
            bob.ask_to_sync()
            for member in (alice, bob):
                assert (await member.receive()).error_code == 0
    assert watch.of(OracleName.FLAPPING) == []


async def test_an_eager_leader_that_rejoins_for_no_reason_makes_its_group_flap(watch: Watched) -> None:
    async with Member(watch, "alice") as alice:
        await generation({alice: ALL})
        for _ in range(5):
            await generation({alice: ALL})
    (found,) = watch.of(OracleName.FLAPPING)
    assert "leader rejoined" in found.detail
