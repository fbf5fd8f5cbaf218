"""A wait ends when its conditions hold, after an event, a commit, a change of topics or the passage of time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.control.diagnosis import group_waits
from coordinator.control.diagnosis.wait_conditions import GenerationFrom, MembersBetween, RebalanceMatch
from coordinator.control.ledger.ledger_entry import EntryResult
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.batch import encode_batch
from storage.record import Record
from tests.broker.harness import Client
from tests.control.diagnosis.fixed_ledger import FixedLedger, entry
from tests.control.diagnosis.staged_group import GROUP, TIMEOUT_S, Stage, begun, ended, staged


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged() as stage:
        yield stage
    assert not len(stage.waits), "a wait is left"


# What ends them


async def test_a_group_that_forms(stage: Stage) -> None:
    waiting = asyncio.ensure_future(stage.wait(state="Stable", members=3, owned=["orders"]))
    await begun(stage)
    await stage.stable("alice", "bob", "carol")
    (met,) = await ended(waiting)
    assert (met.group.state, met.group.members, met.group.generation_id) == ("Stable", 3, 1)
    assert met.seq >= 0
    assert met.detail.startswith(
        "billing is Stable: generation 1, 3 members, 6 of 6 partitions of orders owned ("
    )


async def test_a_new_member_does_not_count_before_its_generation(stage: Stage) -> None:
    await stage.joining([await stage.consumer("alice")])
    await stage.check(members=0)
    await stage.unmet(clients=["alice"])
    await stage.unmet(absent=["alice"])


async def test_owned_needs_the_assignment_fetched_by_all(stage: Stage) -> None:
    members = [await stage.consumer(name) for name in ("alice", "bob")]
    leader = await stage.joined(members)
    follower = next(one for one in members if one is not leader)
    waiting = asyncio.ensure_future(stage.wait(owned=["orders"]))
    leader.send_sync(stage.shared_out(members))
    await leader.receive_sync()
    await stage.wait(state="Stable")
    assert not waiting.done()
    follower.send_sync()
    await ended(waiting)
    await stage.check(owner={"orders-0": members[0].name, "orders-1": members[1].name})
    await stage.unmet(owner={"orders-0": members[1].name})


async def test_members_by_any_of_their_names(stage: Stage) -> None:
    alice = await stage.consumer("alice", instance_id="a1")
    await stage.joined([alice])
    await stage.synced([alice])
    await stage.check(
        clients=["alice", "a1", alice.member_id], absent=["bob"], members=MembersBetween(min=1, max=2)
    )
    await stage.unmet(absent=["a1"])


async def test_a_member_that_leaves(stage: Stage) -> None:
    (alice,) = await stage.stable("alice")
    waiting = asyncio.ensure_future(
        stage.wait(state="Empty", absent=["alice"], generation=GenerationFrom(min=2))
    )
    await begun(stage)
    await alice.client.call(LeaveGroupRequest(group_id=GROUP, member_id=alice.member_id), 1)
    (met,) = await ended(waiting)
    assert met.group.state == "Empty"


async def test_commits_that_are_durable(stage: Stage) -> None:
    at_rest = len(stage.server.engine.observers)
    (alice,) = await stage.stable("alice")
    waiting = asyncio.ensure_future(stage.wait(committed={"orders-0": 100, "orders-1": 5}))
    await begun(stage)
    await alice.commit({("orders", 0): 100})
    problem = await stage.unmet(committed={"orders-0": 100, "orders-1": 5})
    assert "orders-1 has no commit, 5 wanted (its owner is alice)" in problem.detail
    assert not waiting.done()
    await alice.commit({("orders", 1): 7})
    (met,) = await ended(waiting)
    assert "committed orders-0=100, orders-1=7" in met.detail
    assert len(stage.server.engine.observers) == at_rest, "commits wake only the waits for commits"


async def test_a_commit_counts_when_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """With log.flush=always a wait only reports conditions that survive a power cut."""
    monkeypatch.setattr(group_waits, "DISK_TIMEOUT_S", 0.1)
    async with staged(properties={"log.flush": "always"}) as stage:
        (alice,) = await stage.stable("alice")
        partition = stage.server.runtime.find_partition(GROUP)
        with monkeypatch.context() as slow:
            slow.setattr(stage.server.flusher, "start_sync", lambda: None)
            waiting = asyncio.ensure_future(stage.wait(committed={"orders-0": 9}))
            await begun(stage)
            committing = asyncio.ensure_future(alice.commit({("orders", 0): 9}))
            async with asyncio.timeout(TIMEOUT_S):
                while partition.position == partition.readable_offset:  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0)
            problem = await stage.unmet(committed={"orders-0": 9})
            assert "orders-0 has no commit, 9 wanted" in problem.detail
            problem = await stage.unmet(state="Stable")
            assert "was not synced" in problem.detail
            assert not waiting.done()
        stage.server.flusher.start_sync()
        await ended(waiting, committing)


async def test_lag(stage: Stage) -> None:
    (alice,) = await stage.stable("alice")
    async with Client(stage.server) as producer:
        for partition in (0, 1):
            await producer.call(produce_to(partition, 10), 9)
    problem = await stage.unmet(lag_max=3)
    assert (
        "orders-0 (alice) lags 10 behind, 3 wanted; it has no commit and counts from its log start"
        in problem.detail
    )
    waiting = asyncio.ensure_future(stage.wait(lag_max=3, topics=["orders"]))
    await begun(stage)
    await alice.commit({("orders", 0): 8})
    await alice.commit({("orders", 1): 7})
    (met,) = await ended(waiting)
    assert (
        "lag at most 3 (orders-2, orders-3, orders-4, orders-5 without a commit, from the log start)"
        in met.detail
    )
    async with Client(stage.server) as producer:
        await producer.call(produce_to(0, 10), 9)
    unmet: Any = (await stage.unmet(lag_max=3)).fields["unmet"]
    assert unmet[0]["is"]["lag"] == {"orders-0": 12}


def produce_to(partition: int, records: int) -> ProduceRequest:
    batch = encode_batch([Record(-1, -1, b"k", b"v")] * records)
    parts = [PartitionProduceData(index=partition, records=batch)]
    topics = [TopicProduceData(name="orders", partition_data=parts)]
    return ProduceRequest(transactional_id=None, acks=1, timeout_ms=1000, topic_data=topics)


async def test_a_topic_that_is_made(stage: Stage) -> None:
    await stage.stable("alice", topics=["later"], assigned={"later": [0]})
    waiting = asyncio.ensure_future(stage.wait(owned=["later"]))
    await begun(stage)
    async with Client(stage.server) as admin:
        topic = CreatableTopic(
            name="later", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        await admin.call(CreateTopicsRequest(topics=[topic]), 5)
    await ended(waiting)


async def test_quiet_in_group_time(stage: Stage) -> None:
    """A stopped clock never fulfils `quiet`. An advance evaluates the condition again."""
    await stage.stable("alice")
    waiting = asyncio.ensure_future(stage.wait(quiet="30s"))
    await begun(stage)
    stage.held.advance(20_000)
    problem = await stage.unmet(quiet="30s")
    assert "Its last rebalance ended 20 s ago, 30 s without one wanted" in problem.detail
    assert not waiting.done()
    stage.held.advance(10_000)
    (met,) = await ended(waiting)
    assert "no rebalance for 30 s" in met.detail


async def test_quiet_by_a_clock_that_runs(stage: Stage) -> None:
    await stage.stable("alice")
    stage.held.let_go()
    met = await stage.wait(quiet="200ms")
    assert met.waited_ms >= 100


async def test_operator_actions_wake_waits(stage: Stage) -> None:
    """An advance of a group's clock is published, and the waits for the group are evaluated again."""
    await stage.stable("alice")
    waiting = asyncio.ensure_future(stage.wait(quiet="5s"))
    await begun(stage)
    stage.held.on_moved.clear()
    stage.held.advance(5_000)
    stage.acts.record_action("clock", "advance 5s", GROUP, "a test")
    await ended(waiting)


async def test_a_rebalance_that_lasts_a_millisecond() -> None:
    """The ledger has the rebalances between two evaluations."""
    ledger = FixedLedger()
    async with staged(ledger=ledger) as stage:
        await stage.stable("alice", "bob")
        ledger.kept.append(entry(5, "session expired", "bob", generation_id=3))
        ledger.kept.append(entry(9, "member joined", "carol", result=EntryResult.OPEN))
        met = await stage.check(rebalanced=RebalanceMatch(cause="session expired", client="bob"))
        assert "rebalanced to generation 3 (session expired, by bob)" in met.detail
        problem = await stage.unmet(rebalanced=RebalanceMatch(client="bob"), after=5)
        assert "No rebalance by bob has ended after event 5" in problem.detail
        problem = await stage.unmet(rebalanced=RebalanceMatch(cause="member left"))
        assert "the last that did was generation 3 (session expired, by bob)" in problem.detail

        waiting = asyncio.ensure_future(
            stage.wait(state="Stable", rebalanced=RebalanceMatch(client="bob"), after=5)
        )
        await begun(stage)
        ledger.close(entry(11, "member joined", "carol"))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        ledger.close(entry(12, "member left", "bob"))
        await ended(waiting)


async def test_a_rebalance_that_is_broken_off_has_ended_once_the_next_one_has() -> None:
    """Whoever expired may join again before the others have their assignments."""
    ledger = FixedLedger()
    async with staged(ledger=ledger) as stage:
        await stage.stable("alice", "bob")
        ledger.kept.append(entry(5, "session expired", "bob", result=EntryResult.FAILED))
        await stage.unmet(rebalanced=RebalanceMatch(client="bob"))
        waiting = asyncio.ensure_future(
            stage.wait(rebalanced=RebalanceMatch(cause="session expired", client="bob"))
        )
        await begun(stage)
        ledger.close(entry(9, "member joined", "bob"))
        await ended(waiting)


async def test_more_rebalances_than_are_read_at_once() -> None:
    ledger = FixedLedger()
    ledger.kept = [entry(number, "member joined", "carol") for number in range(2500)]
    ledger.kept.append(entry(2500, "member left", "bob"))
    async with staged(ledger=ledger) as stage:
        await stage.check(rebalanced=RebalanceMatch(client="bob"))


async def test_a_state_that_is_over_again_is_not_met(stage: Stage) -> None:
    """The wait continues until all conditions hold at the same time."""
    (alice,) = await stage.stable("alice")
    await stage.joining([await stage.consumer("carol")])
    await stage.unmet(state="PreparingRebalance", members=2)
    assert await alice.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
