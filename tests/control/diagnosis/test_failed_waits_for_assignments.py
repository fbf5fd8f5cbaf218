"""Reasons of failed waits about topics, assignments and subscriptions, and about groups whose state is unknown."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.control.group_finding import FindingAction, FindingOperation, GroupFinding
from coordinator.group.group_view import GroupView
from coordinator.runtime.partition_lifecycle import PartitionState
from tests.control.diagnosis.staged_group import GROUP, TIMEOUT_S, Stage, assignment, staged
from tests.control.diagnosis.test_failed_waits import actions, hinted, names_all
from tests.storage.faulty_files import FaultyFiles


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged((("orders", 3), ("payments", 3))) as stage:
        yield stage


# Topics and assignments


async def test_wrong_topic(stage: Stage) -> None:
    await stage.stable("alice", topics=["ordres"])
    problem = await stage.unmet(owned=["orders"])
    names_all(problem.detail, "(alice: ordres)")
    problem = await stage.unmet(owned=["ordres"])
    names_all(problem.detail, "ordres", "orders")
    hinted(problem, "Is orders meant?")


async def test_left_out_by_the_assignor(stage: Stage) -> None:
    alice, bob = [await stage.consumer(name) for name in ("alice", "bob")]
    leader = await stage.joined([alice, bob])
    other = bob if leader is alice else alice
    await stage.synced([alice, bob], {leader.member_id: assignment({"orders": [0, 1, 2]})})
    problem = await stage.unmet(owner={"orders-0": other.name})
    names_all(
        problem.detail,
        f"orders-0 belongs to {leader.name}, {other.name} wanted",
        f"{other.name} was left out of the assignment that {leader.name} handed in (range)",
    )


async def test_strangers_in_the_assignment(stage: Stage) -> None:
    alice = await stage.consumer("alice")
    await stage.joined([alice])
    given = {alice.member_id: assignment({"orders": [0]}), "zombie-9f2c": assignment({"orders": [1, 2]})}
    await stage.synced([alice], given)
    problem = await stage.unmet(owned=["orders"])
    names_all(
        problem.detail,
        "orders-1..2 have no owner",
        "The assignment of alice names zombie-9f2c",
    )


async def test_unowned(stage: Stage) -> None:
    await stage.stable("alice", assigned={"orders": [0, 1]})
    problem = await stage.unmet(owned=["orders"])
    names_all(problem.detail, "orders-2 has no owner")
    unmet: Any = problem.fields["unmet"]
    assert unmet[0]["is"] == {"unowned": ["orders-2"]}
    assert "orders-2 has no owner, though alice subscribes to orders" in stage.found("unowned")


async def test_unreadable_assignments_are_named(stage: Stage) -> None:
    alice = await stage.consumer("alice")
    await stage.joined([alice])
    await stage.synced([alice], {alice.member_id: b"all"})
    names_all((await stage.unmet(owned=["orders"])).detail, "Its assignments cannot be read")
    assert not stage.explain().findings


async def test_owned_twice(stage: Stage) -> None:
    await stage.stable("alice", "bob", assigned={"orders": [0, 1, 2]})
    problem = await stage.unmet(owned=["orders"])
    names_all(problem.detail, "orders-0 was assigned to several members: alice, bob")


async def test_different_subscriptions(stage: Stage) -> None:
    alice, bob = [await stage.consumer(name) for name in ("alice", "bob")]
    carol = await stage.consumer("carol", topics=["payments"])
    await stage.joined([alice, bob, carol])
    await stage.synced([alice, bob, carol])
    problem = await stage.unmet(owner={"payments-0": "alice"})
    names_all(
        problem.detail,
        "payments-0 belongs to carol, alice wanted",
        "2 subscriptions in one group: {orders} by alice, bob; {payments} by carol, the only owner "
        "of payments-0..2",
    )


async def test_more_members_than_partitions(stage: Stage) -> None:
    names = ("alice", "bob", "carol", "dave")
    members = await stage.stable(*names)
    idle = next(one for one in members if one.name not in _owners(stage))
    problem = await stage.unmet(owner={"orders-0": idle.name})
    names_all(problem.detail, f"{idle.name} idles: 4 members share the 3 partitions of orders")
    assert stage.found("idle").startswith(idle.name)


def _owners(stage: Stage) -> set[str]:
    return {
        owner.name.client_id
        for owners in stage.waits.take_snapshot(GROUP).owners.values()
        for owner in owners
    }


# What cannot be seen


async def test_loading() -> None:
    async with staged() as stage:
        await stage.stable("alice")
        partition = stage.server.runtime.find_partition(GROUP)
        stage.server.runtime.lifecycle.release_partition(partition, 1, "it moves")
        names_all((await stage.unmet(state="Stable")).detail, str(partition.name), "is not on this broker")
        stage.server.runtime.lifecycle.open_partition(partition, epoch=2)
        assert partition.state is PartitionState.LOADING
        problem = await stage.unmet(state="Stable")
        names_all(problem.detail, "state of billing is unknown", str(partition.name), "is being loaded")
        explained = stage.explain()
        assert explained.state is None
        assert "is being loaded" in explained.detail
        met = await stage.wait(state="Stable")
        assert met.group.members == 1


async def test_a_wait_for_absence_ends_after_the_load() -> None:
    """The load has no event for the group, and a wait for its absence ends all the same."""
    async with staged(properties={"offsets.topic.num.partitions": "1"}) as stage:
        partition = stage.server.runtime.find_partition(GROUP)
        stage.server.runtime.lifecycle.release_partition(partition, 1, "it moves")
        waiting = asyncio.ensure_future(stage.wait(absent=["alice"]))
        await asyncio.sleep(0.01)
        assert not waiting.done(), "the state is unknown before the load"
        stage.server.runtime.lifecycle.open_partition(partition, epoch=2)
        met = await asyncio.wait_for(waiting, TIMEOUT_S)
        assert met.group.state == "Dead"


async def test_failed() -> None:
    files = FaultyFiles()
    async with staged(files=files) as stage:
        await stage.stable("alice")
        partition = stage.server.runtime.find_partition(GROUP)
        log = partition.log
        assert log is not None
        stage.server.runtime.lifecycle.release_partition(partition, 1, "it moves")
        files.fail("pread", times=1000)
        stage.server.runtime.lifecycle.open_partition(partition, epoch=2)
        problem = await stage.unmet(state="Stable", within_ms=200)
        names_all(
            problem.detail,
            "state of billing is unknown",
            str(partition.name),
            "cannot be read now",
            "tried again",
        )
        files.faults.clear()
        assert (await stage.wait(state="Stable")).group.members == 1


# Hints of other parts of the control plane


async def test_frozen_clocks_and_held_requests_are_named(stage: Stage) -> None:
    """Clocks and faults provide findings of their own, which come before those about members."""

    def find_frozen(view: GroupView) -> list[GroupFinding]:
        sentence = f"the clock of {view.group_id} stands still: bob cannot expire"
        return [GroupFinding(kind="frozen", sentence=sentence, blocks=True, hint="Run the clock")]

    def find_held(view: GroupView) -> list[GroupFinding]:
        action = FindingAction(
            operation=FindingOperation.RELEASE_FAULT,
            label="Release slow-sync",
            arguments={"fault": "slow-sync"},
        )
        sentence = "the fault slow-sync holds the SyncGroup of bob"
        return [
            GroupFinding(kind="held", sentence=sentence, blocks=True, hint="Release slow-sync", action=action)
        ]

    stage.waits.finding_providers += [find_frozen, find_held]
    await stage.stable("alice", rebalance_ms=1_000)
    problem = await stage.unmet(members=2)
    names_all(problem.detail, "the clock of billing stands still", "the fault slow-sync holds")
    assert problem.fields["hints"] == ["Run the clock", "Release slow-sync"]
    (action,) = actions(problem)
    assert action["arguments"] == {"fault": "slow-sync"}
    assert [one.kind for one in stage.explain().findings][:2] == ["frozen", "held"]
