"""Problems of failed waits: in each prepared situation the sentence names the responsible member.

Members are raw connections that stop at any point. The tests drive the time of groups.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.control.diagnosis.wait_conditions import MembersBetween
from coordinator.control.problem import Problem
from protocol.error_codes import ErrorCode
from tests.control.diagnosis.staged_group import Consumer, Stage, staged


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged() as stage:
        yield stage


def names_all(sentence: str, *words: str) -> None:
    """Check that the sentence is printable and contains all of these."""
    assert sentence.isprintable()
    missing = [word for word in words if word not in sentence]
    assert not missing, f"{missing} not in: {sentence}"


def actions(problem: Problem) -> list[dict[str, Any]]:
    """Return the actions of a problem, each as JSON."""
    found: list[dict[str, Any]] = problem.fields["actions"]  # type: ignore[assignment]
    return found


def hinted(problem: Problem, *words: str) -> None:
    """Check that one of the hints contains all of these."""
    hints: Any = problem.fields["hints"]
    assert any(all(word in hint for word in words) for hint in hints), hints


async def carol_joins(stage: Stage, *present: Consumer) -> Consumer:
    """Let a new member join a Stable group. The present members learn of it and rejoin."""
    carol = await stage.consumer("carol")
    await stage.joining([carol])
    for consumer in present:
        assert await consumer.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    if present:
        await stage.joining(present)
    return carol


async def cut_off(stage: Stage, consumer: Consumer) -> None:
    """End the process, and wait until the server has noticed."""
    member = stage.member(consumer)
    await consumer.die()
    await stage.until(
        lambda view: not stage.connections.take_snapshot(view).is_connected(member), consumer.group
    )


# Rebalances that do not end


async def test_dead(stage: Stage) -> None:
    alice, bob = await stage.stable("alice", "bob")
    await cut_off(stage, bob)
    await carol_joins(stage, alice)
    stage.held.advance(12_000)
    problem = await stage.unmet(state="Stable", owned=["orders"])
    names_all(
        problem.detail,
        "billing is PreparingRebalance since 12 s (cause: member joined, by carol)",
        "It awaits the JoinGroup of bob (last heard 12 s ago, connection closed",
        "holds those of alice, carol",
        "The join phase ends at the latest in 288 s, when bob would be evicted",
        "bob's session ends in 33 s",
        "bob is disconnected",
    )
    unmet: Any = problem.fields["unmet"]
    assert unmet[0] == {"condition": "state", "wanted": "Stable", "is": "PreparingRebalance"}
    assert unmet[1]["condition"] == "owned"
    hinted(problem, "Expire bob")
    (action,) = actions(problem)
    assert action["operation"] == "expire_member"
    assert action["arguments"] == {"group": "billing", "member": "bob"}


async def test_stopped(stage: Stage) -> None:
    """SIGSTOP: the connection is open, and no heartbeat comes."""
    alice, _ = await stage.stable("alice", "bob")
    await carol_joins(stage, alice)
    stage.held.advance(9_000)
    problem = await stage.unmet(state="Stable")
    names_all(
        problem.detail,
        "the JoinGroup of bob (last heard 9.0 s ago, connection open)",
        "bob is connected, but sent no heartbeat in the 9.0 s",
    )
    hinted(problem, "bob is connected and silent")


async def test_no_member_counts_as_stopped_within_a_heartbeat_interval(stage: Stage) -> None:
    alice, _ = await stage.stable("alice", "bob")
    await carol_joins(stage, alice)
    stage.held.advance(1_800)
    problem = await stage.unmet(state="Stable")
    assert "the JoinGroup of bob (last heard 1.8 s ago, connection open)" in problem.detail
    assert "stopped" not in problem.detail


async def test_blocked_in_a_callback(stage: Stage) -> None:
    """Heartbeats continue and get REBALANCE_IN_PROGRESS, but the application does not poll, so the member does
    not rejoin."""
    alice, bob = await stage.stable("alice", "bob")
    await carol_joins(stage, alice)
    assert await bob.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    stage.held.advance(9_000)
    assert await bob.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    stage.held.advance(200)
    problem = await stage.unmet(state="Stable")
    names_all(
        problem.detail,
        "the JoinGroup of bob (last heard 0.2 s ago, connection open, told 9.2 s ago)",
        "asked bob to rejoin 9.2 s ago",
        "busy in its poll loop or a callback",
    )
    hinted(problem, "bob", "blocked in a callback")


async def test_ghost(stage: Stage) -> None:
    """A client with its own session timer drops its member id and joins again, over the same connection."""
    alice, bob = await stage.stable("alice", "bob")
    old_id = bob.member_id
    stage.held.advance(5_000)
    bob.forget()
    await stage.joining([bob])
    assert await alice.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    await stage.joining([alice])
    problem = await stage.unmet(state="Stable")
    names_all(
        problem.detail,
        f"{old_id[:12]} is a ghost: the same connection has joined again under a new member id, bob-",
        "session ends in 40 s",
    )
    assert "poll loop" not in problem.detail, "a ghost is nothing else"
    (action,) = [one for one in actions(problem) if one["operation"] == "expire_member"]
    assert action["arguments"] == {"group": "billing", "member": old_id}


async def test_pending(stage: Stage) -> None:
    """Given a member id (KIP-394), and never back with it."""
    (alice,) = await stage.stable("alice")
    erin = await stage.consumer("erin")
    erin.send_join(version=5)
    assert (await erin.receive_join()).error_code == ErrorCode.MEMBER_ID_REQUIRED
    await carol_joins(stage, alice)
    stage.held.advance(3_000)
    problem = await stage.unmet(state="Stable")
    names_all(problem.detail, "the first JoinGroup of erin (given a member id 3.0 s ago", "forgotten in 42 s")


async def test_pending_in_a_group_at_rest(stage: Stage) -> None:
    await stage.stable("alice")
    dave = await stage.consumer("dave")
    dave.send_join(version=5)
    assert (await dave.receive_join()).error_code == ErrorCode.MEMBER_ID_REQUIRED
    stage.held.advance(3_000)
    problem = await stage.unmet(members=2)
    names_all(
        problem.detail, "2 members wanted", "expects the first JoinGroup of dave (given a member id 3.0 s ago"
    )


async def test_leader_never_syncs(stage: Stage) -> None:
    members = [await stage.consumer(name) for name in ("alice", "bob")]
    leader = await stage.joined(members)
    follower = next(one for one in members if one is not leader)
    follower.send_sync()
    await stage.until(lambda view: any(one.is_awaiting_sync for one in view.members))
    stage.held.advance(4_000)
    problem = await stage.unmet(state="Stable")
    names_all(
        problem.detail,
        "billing is CompletingRebalance",
        f"the assignment (SyncGroup) of its leader, {leader.name} (last heard 4.0 s ago",
        f"holds that of {follower.name}",
        f"when {leader.name} would be removed",
    )


async def test_follower_never_syncs(stage: Stage) -> None:
    members = [await stage.consumer(name) for name in ("alice", "bob")]
    leader = await stage.joined(members)
    follower = next(one for one in members if one is not leader)
    leader.send_sync(stage.shared_out(members))
    await leader.receive_sync()
    problem = await stage.unmet(owned=["orders"])
    names_all(
        problem.detail,
        "billing is Stable in generation 1, but not all have fetched their assignment",
        f"the SyncGroup of {follower.name}",
        f"{follower.name} would be removed",
    )
    await stage.check(state="Stable")


async def test_initial_delay(stage: Stage) -> None:
    await stage.joining([await stage.consumer("alice")])
    stage.held.advance(1_000)
    problem = await stage.unmet(state="Stable", members=1)
    names_all(
        problem.detail,
        "holds the JoinGroup of alice and waits 2.0 s more for others",
        "group.initial.rebalance.delay.ms",
        "alice joined and waits to be let in",
    )


async def test_silent_static_members(stage: Stage) -> None:
    alice = await stage.consumer("alice", instance_id="a1")
    bob = await stage.consumer("bob", instance_id="b1", session_ms=60_000)
    await stage.joined([alice, bob])
    await stage.synced([alice, bob])
    await cut_off(stage, alice)
    await cut_off(stage, bob)
    stage.held.advance(46_000)
    await stage.until(lambda view: len(view.members) == 1)
    problem = await stage.unmet(members=0)
    names_all(
        problem.detail,
        "PreparingRebalance",
        "(cause: session expired, by alice",
        "the JoinGroup of bob (static b1, last heard 46 s ago, connection closed",
        "Only static members are left",
        "bob's session ends in 14 s",
    )


# Members


async def test_a_wait_without_any_join_explains_it(stage: Stage) -> None:
    await stage.stable("alice", group="billings")
    problem = await stage.unmet(members=1)
    names_all(
        problem.detail,
        "Group billing does not exist (there is billings): since its start groupd has seen no member",
    )


async def test_too_few(stage: Stage) -> None:
    await stage.stable("alice", "bob", "carol")
    problem = await stage.unmet(members=4, within_ms=50)
    assert problem.title.startswith("billing ")
    names_all(
        problem.detail,
        "billing is Stable",
        "with 3 members (alice, bob, carol) in generation 1",
        "4 members wanted",
        "No JoinGroup arrived meanwhile",
    )


async def test_too_many(stage: Stage) -> None:
    await stage.stable("alice", "bob", "carol")
    problem = await stage.unmet(members=MembersBetween(max=2))
    names_all(problem.detail, "3 members (alice, bob, carol)", "At most 2 members wanted")


async def test_one_is_missing(stage: Stage) -> None:
    await stage.stable("alice", "bob")
    problem = await stage.unmet(clients=["alice", "dave"])
    names_all(problem.detail, "dave is not in it")
    unmet: Any = problem.fields["unmet"]
    assert unmet == [
        {
            "condition": "clients",
            "wanted": ["alice", "dave"],
            "is": {"missing": ["dave"], "clients": ["alice", "bob"]},
        }
    ]


async def test_dead_in_a_group_at_rest(stage: Stage) -> None:
    _, bob = await stage.stable("alice", "bob")
    await cut_off(stage, bob)
    stage.held.advance(2_000)
    problem = await stage.unmet(absent=["bob"])
    names_all(problem.detail, "bob is still in it", "bob is disconnected", "its session ends in 43 s")


async def test_stopped_in_a_group_at_rest(stage: Stage) -> None:
    """The group has no problem yet, and the awaited state does not come."""
    alice, bob = await stage.stable("alice", "bob")
    stage.held.advance(20_000)
    assert await alice.heartbeat() is ErrorCode.NONE
    problem = await stage.unmet(committed={"orders-1": 10})
    owner = stage.waits.take_snapshot(bob.group).owners["orders", 1][0].name.client_id
    names_all(
        problem.detail,
        f"orders-1 has no commit, 10 wanted (its owner is {owner})",
        "its log ends at 0",
        "at 0 with auto.offset.reset=earliest",
        "bob is connected and was last heard 20 s ago, more than a third of its session of 45 s",
    )


async def test_refused(stage: Stage) -> None:
    """Another assignor than the group's: its JoinGroup is refused, and only the coordinator knows."""
    await stage.stable("alice")
    dave = await stage.consumer("dave", assignors=["sticky"])
    for _ in range(2):
        dave.send_join()
        assert (await dave.receive_join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    problem = await stage.unmet(members=2)
    names_all(
        problem.detail,
        "The JoinGroup of dave was refused 2 times",
        "INCONSISTENT_GROUP_PROTOCOL",
        "it offers consumer: sticky; the group has consumer: range",
    )


async def test_refused_before_there_is_a_group(stage: Stage) -> None:
    dave = await stage.consumer("dave", session_ms=7_200_000)
    dave.send_join()
    assert (await dave.receive_join()).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    problem = await stage.unmet(members=1)
    names_all(
        problem.detail,
        "Group billing does not exist",
        "JoinGroup of dave was refused",
        "session.timeout.ms=7200000",
    )
