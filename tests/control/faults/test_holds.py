"""Held requests and responses keep their order, are released in each possible way, and are never lost."""

import asyncio
import gc
import weakref
from random import Random
from typing import Any

import msgspec
import pytest

from coordinator.control.faults import fault_injectors
from coordinator.control.faults import fault_registry as faults_module
from coordinator.control.faults.fault_rule import FaultRule
from coordinator.control.operator_actions import OperatorAction
from coordinator.control.problem import Problem, ProblemKind
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.broker.harness import TIMEOUT_S, Client, heartbeat_request, join_alone, join_request, sync_request
from tests.broker.test_group_partitions import code, committed
from tests.broker.test_group_partitions import commit as simple_commit
from tests.control.faults.lab import Lab
from tests.control.faults.requests import CASES, GROUP, REQUESTS, Subject, commit


@pytest.mark.parametrize("seed", range(4))
async def test_answers_never_overtake_each_other(lab: Lab, seed: int) -> None:
    """Pipelined requests of all kinds on many connections, while a test adds, releases and removes faults that
    hold, delay and change them. The client checks every correlation id."""
    random = Random(seed)
    cases = [case for case in CASES if case[0] not in (11, 14, 13, 42)]  # other members would wait for these
    clients = [Client(lab.server, f"client-{number}") for number in range(5)]
    subjects: list[Subject] = []
    for number, client in enumerate(clients):
        await client.__aenter__()
        subjects.append(Subject(lab.server, *await join_alone(client, f"{GROUP}-{number}")))

    async def ask(client: Client, subject: Subject) -> None:
        for _ in range(20):
            asked = random.randrange(1, 12)
            for _ in range(asked):
                key, version = random.choice(cases)
                client.send(REQUESTS[key](subject, version), version)
            for _ in range(asked):
                await client.receive()

    asking = [asyncio.ensure_future(ask(*pair)) for pair in zip(clients, subjects, strict=True)]
    async with asyncio.timeout(60):
        while not all(task.done() for task in asking):
            make_or_end(lab, random)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    lab.faults.remove_all()
    await asyncio.gather(*asking)
    await lab.until_plain()
    for client in clients:
        client.writer.close()


def make_or_end(lab: Lab, random: Random) -> None:
    """Does something about faults."""
    there = [fault.name for fault in lab.faults.list_faults()]
    chance = random.random()
    if there and chance < 0.3:
        lab.faults.release_fault(random.choice(there), only_oldest=random.random() < 0.5)
    elif there and (chance < 0.45 or len(there) > 10):
        lab.faults.remove_fault(random.choice(there))
    else:
        action: dict[str, Any] = random.choice(
            [{"hold": True}, {"delay": random.randrange(4)}, {"error": "REQUEST_TIMED_OUT"}]
        )
        at = random.choice(["request", "answer"])
        match = {} if "error" not in action else {"api": ["OffsetCommit", "Heartbeat", "ListGroups"]}
        times = random.choice([1, 5, None])
        lab.fault(match, times=times, probability=0.5, seed=random.randrange(9), do={"at": at, **action})


async def test_nothing_of_a_connection_reaches_the_group_behind_a_hold(lab: Lab) -> None:
    """Heartbeats of a member with a held SyncGroup are processed and answered after the release."""
    async with Client(lab.server, "alice") as alice, Client(lab.server) as other:
        joined = await alice.call(join_request(GROUP), 3)
        name = lab.fault({"api": "SyncGroup", "client_id": "alice"}, do={"at": "request", "hold": True})
        member_id, generation_id = joined.member_id, joined.generation_id
        alice.send(sync_request(GROUP, member_id, generation_id, {member_id: b"x"}), 3)
        for _ in range(5):
            alice.send(heartbeat_request(GROUP, member_id, generation_id), 3)
        await lab.hit(name)
        described = await other.call(DescribeGroupsRequest(groups=[GROUP]), 0)
        assert described.groups[0].group_state == "CompletingRebalance"
        lab.faults.release_fault(name)
        assert (await alice.receive()).assignment == b"x"
        assert [(await alice.receive()).error_code for _ in range(5)] == [0] * 5


async def test_the_coordinator_continues_while_an_answer_is_held(lab: Lab) -> None:
    """A commit race: the group is Stable, and one member has not received its assignment."""
    async with Client(lab.server, "alice") as alice, Client(lab.server, "bob") as bob:
        joined = await alice.call(join_request(GROUP), 3)
        name = lab.fault({"api": "SyncGroup", "client_id": "alice"}, do={"at": "answer", "hold": True})
        member_id, generation_id = joined.member_id, joined.generation_id
        alice.send(sync_request(GROUP, member_id, generation_id, {member_id: b"x"}), 3)
        await lab.hit(name)
        described = await bob.call(DescribeGroupsRequest(groups=[GROUP]), 0)
        assert described.groups[0].group_state == "Stable"
        lab.faults.release_fault(name)
        assert (await alice.receive()).assignment == b"x"


async def test_nothing_is_processed_behind_an_answer_that_is_held(lab: Lab) -> None:
    """Also where the request had not kept others waiting: a commit, which waits for the disk only."""
    name = lab.fault({"api": "OffsetCommit"}, do={"at": "answer", "hold": True})
    async with Client(lab.server) as client, Client(lab.server) as other:
        client.send(simple_commit(1), 2)
        await lab.hit(name)
        client.send(simple_commit(2), 2)
        # As many rounds as it takes to read what the other connection has sent.
        for _ in range(3):
            assert await committed(other) == 1
        lab.faults.release_fault(name)
        assert [code(await client.receive()), code(await client.receive())] == [0, 0]
        assert await committed(other) == 2


async def test_only_the_oldest_is_released(lab: Lab) -> None:
    name = lab.fault({"api": "ListGroups"}, times=None, do={"at": "request", "hold": True})
    async with Client(lab.server) as one, Client(lab.server) as two:
        for number, client in enumerate((one, two), 1):
            client.send(ListGroupsRequest(), 0)
            await lab.hit(name, number)
        assert lab.faults.release_fault(name, only_oldest=True).holding == 1
        assert (await one.receive()).error_code == 0
        lab.faults.remove_fault(name)
        assert (await two.receive()).error_code == 0
    await lab.until_plain()


async def test_a_connection_that_closes_gives_its_slot_back(lab: Lab) -> None:
    name = lab.fault({"api": "OffsetCommit"}, times=None, do={"at": "request", "hold": True})
    async with Client(lab.server) as client:
        client.send(simple_commit(1), 2)
        await lab.hit(name)
    async with Client(lab.server) as other, asyncio.timeout(TIMEOUT_S):
        while lab.status(name).holding:
            await other.call(ListGroupsRequest(), 0)
        lab.faults.remove_fault(name)
        assert await committed(other) == -1
    await lab.until_plain()


@pytest.mark.parametrize("at", ["request", "answer"])
async def test_a_hold_ends_by_itself(lab: Lab, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_injectors, "LONGEST_HOLD_S", 0.02)
    lab.fault({"api": "OffsetCommit"}, do={"at": at, "hold": True})
    async with Client(lab.server) as client:
        assert code(await client.call(simple_commit(1), 2)) == ErrorCode.NONE


async def test_an_expired_fault_releases_its_requests(lab: Lab) -> None:
    name = lab.fault(
        {"api": "OffsetCommit"}, times=None, do={"at": "request", "hold": True}, **{"for": "30ms"}
    )
    async with Client(lab.server) as client:
        assert code(await client.call(simple_commit(1), 2)) == ErrorCode.NONE
        assert lab.status(name).state == "over"
        assert code(await client.call(simple_commit(2), 2)) == ErrorCode.NONE
        assert lab.status(name).hit == 1


async def test_the_partition_moves_while_a_commit_is_held(lab: Lab) -> None:
    """It is put to the group that is there when it is released."""
    name = lab.fault({"api": "OffsetCommit"}, do={"at": "request", "hold": True})
    async with Client(lab.server) as client:
        client.send(simple_commit(1), 2)
        await lab.hit(name)
        await lab.control.failover.failover_partition(0, 0, 0)
        lab.faults.release_fault(name)
        assert code(await client.receive()) == ErrorCode.NONE
        assert await committed(client) == 1


async def test_the_server_stops_while_something_is_held(lab: Lab) -> None:
    name = lab.fault(times=None, do={"at": "request", "hold": True})
    async with Client(lab.server) as client:
        client.send(simple_commit(1), 2)
        await lab.hit(name)
        lab.control.close()
        assert lab.is_plain() or lab.server.connections.open
        assert code(await client.receive()) == ErrorCode.NONE


async def test_removing_all_faults_leaves_nothing(lab: Lab) -> None:
    """No slot, timer or waiter is left; the route table and the heartbeat fast path are the normal ones."""
    subscribers = lab.server.group_events.subscribers
    async with Client(lab.server) as client, Client(lab.server) as held:
        subject = Subject(lab.server, *await join_alone(client, GROUP))
        heartbeat = heartbeat_request(GROUP, subject.member_id, subject.generation_id)
        names = [
            lab.fault({"api": "OffsetFetch"}, do={"at": "request", "hold": True}),
            lab.fault({"api": "Heartbeat"}, times=None, do={"at": "answer", "delay": 1}, **{"for": "1h"}),
            lab.fault({"api": "OffsetCommit"}, times=None, do={"at": "sync", "delay": 1}),
            lab.fault(on={"event": "GroupStabilized"}, do={"expire": "x"}),
            lab.fault(on={"event": "GroupStabilized"}, do={"failover": True}),
        ]
        assert not lab.is_plain()
        held.send(REQUESTS[CASES[10][0]](subject, CASES[10][1]), CASES[10][1])
        await lab.hit(names[0])
        assert (await client.call(heartbeat, 3)).error_code == 0
        assert code(await client.call(commit(subject, 8), 8)) == 0
        waiting = asyncio.ensure_future(lab.faults.wait_for_hits(names[0], 5, 60_000))
        await asyncio.sleep(0)
        assert lab.faults.waiter_count == 1
        seams = lab.faults._injectors
        assert seams is not None
        kept = weakref.ref(lab.faults._faults[names[0]])
        lab.faults.remove_all()
        with pytest.raises(Problem) as caught:
            await waiting
        assert caught.value.kind is ProblemKind.NO_SUCH_FAULT
        await held.receive()
        await lab.until_plain()
        assert not seams.disk.waits
        assert lab.server.group_events.subscribers == subscribers
        del waiting, caught
        gc.collect()
        assert kept() is None
        # The same bytes again are answered without being decoded.
        for _ in range(3):
            assert (await client.call(heartbeat, 3)).error_code == 0
        assert any(list(connection.repeated_requests()) for connection in lab.server.connections.open)


async def test_waits_for_hits_are_bounded_and_report_hits(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    name = lab.fault({"api": "OffsetCommit"}, skip=1, do={"at": "request", "hold": True})
    async with Client(lab.server) as client:
        await client.call(simple_commit(1), 2)
        with pytest.raises(Problem) as caught:
            await lab.faults.wait_for_hits(name, 1, 10)
        assert caught.value.kind is ProblemKind.NOT_MET
        assert "has hit 0 times" in caught.value.detail
        assert "matched 1 times" in caught.value.detail
        monkeypatch.setattr(faults_module, "MAX_WAITERS", 0)
        with pytest.raises(Problem) as caught:
            await lab.faults.wait_for_hits(name, 1, 10)
        assert caught.value.kind is ProblemKind.TOO_MANY
    assert not lab.faults.waiter_count


async def test_a_replaced_fault_ends_its_waits(lab: Lab) -> None:
    name = lab.fault({"api": "OffsetCommit"}, do={"at": "request", "hold": True})
    waiting = asyncio.ensure_future(lab.faults.wait_for_hits(name, 1, TIMEOUT_S * 1000))
    await asyncio.sleep(0)
    rule = {"name": name, "match": {"api": "SyncGroup"}, "do": {"at": "request", "hold": True}}
    lab.faults.install_fault(msgspec.convert(rule, FaultRule), replaces=True)
    with pytest.raises(Problem) as caught:
        await waiting
    assert caught.value.kind is ProblemKind.NO_SUCH_FAULT
    assert "replaced" in caught.value.detail


async def test_an_explanation_names_held_requests(lab: Lab) -> None:
    acts: list[OperatorAction] = []
    lab.control.actions.listeners.append(acts.append)
    async with Client(lab.server, "alice") as alice, Client(lab.server, "bob") as bob:
        member_id, generation_id = await join_alone(alice, GROUP)
        match = {"api": "JoinGroup", "group": GROUP}
        name = lab.fault(match, name="slow-join", do={"at": "request", "hold": True})
        bob.send(join_request(GROUP), 3)
        await lab.hit(name)
        lab.fault({"api": "Heartbeat"}, name="ghost", do={"at": "request", "error": "UNKNOWN_MEMBER_ID"})
        response = await alice.call(heartbeat_request(GROUP, member_id, generation_id), 3)
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        partition = lab.server.runtime.find_partition(GROUP)
        assert partition.state is PartitionState.OWNED
        assert partition.machine is not None
        view = partition.machine.view_group(GROUP, lab.server.group_clock.now())
        assert view is not None
        held, hidden = lab.faults.find_held_requests(view)
        assert "slow-join holds the JoinGroup of bob" in held.sentence
        assert held.action is not None
        assert held.action.arguments == {"fault": "slow-join"}
        assert hidden.members == [member_id]
        assert hidden.action is not None
        assert hidden.action.arguments == {"group": GROUP, "member": member_id}
        lab.faults.remove_all(by="test")
        assert not lab.faults.find_held_requests(view)
    assert [(act.kind, act.group_id) for act in acts] == [
        ("fault", GROUP),
        ("fault", GROUP),
        ("fault", None),
        ("fault", GROUP),
        ("fault", None),
    ]
    assert acts[1].what == "slow-join holds JoinGroup of bob"
