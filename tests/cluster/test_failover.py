"""A failover that ends at another broker, and faults where there are several."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from coordinator.control.daemon_control_plane import DaemonControlPlane
from coordinator.control.faults.fault_rule import FaultRule
from coordinator.control.operator_actions import OperatorAction
from coordinator.control.problem import Problem, ProblemKind
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.broker.harness import TIMEOUT_S, heartbeat_request, join_alone, join_request
from tests.cluster.brokers import NODE_IDS, Cluster, eventually, three_brokers

GROUP = "billing"
NONE, ELSEWHERE = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
FETCH = OffsetFetchRequest(
    group_id=GROUP, topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with three_brokers(tmp_path) as cluster:
        yield cluster


@pytest.fixture
async def control(cluster: Cluster) -> AsyncIterator[DaemonControlPlane]:
    control = DaemonControlPlane(cluster.server)
    yield control
    control.close()
    await control.namespaces.close()


async def test_a_group_fails_over_to_another_broker(cluster: Cluster, control: DaemonControlPlane) -> None:
    partition = cluster.partition(GROUP)
    before = cluster.owner(partition)
    to = before % 3 + 1
    member, generation = await join_alone(cluster.clients[before], GROUP)
    beat = heartbeat_request(GROUP, member, generation)
    acts: list[OperatorAction] = []
    control.actions.listeners.append(acts.append)
    moving = asyncio.ensure_future(control.failover.failover_group(GROUP, 250, 250, 10_000, to=to))
    told: list[tuple[int, int]] = []
    is_over = False
    while not is_over:
        is_over = moving.done()
        answers = [(await cluster.clients[node_id].call(FETCH, 5)).error_code for node_id in (before, to)]
        told.append((answers[0], answers[1]))
        if told[-1][1] == NONE:
            assert (await cluster.clients[to].call(beat, 3)).error_code == NONE
    answer = await moving
    steps = list(dict.fromkeys(told))
    assert [step for step in steps if step != (NONE, ELSEWHERE)] == [
        (ELSEWHERE, ELSEWHERE),
        (ELSEWHERE, LOADING),
        (ELSEWHERE, NONE),
    ]
    assert (answer.owner, cluster.owner(partition)) == (to, to)
    assert answer.group is not None
    assert (answer.group.generation_kept, answer.group.members_back, answer.group.rebalances) == (True, 1, 0)
    assert [(act.kind, act.group_id) for act in acts] == [("failover", GROUP)]


async def test_to_where_it_is_a_coordinator_comes_back(cluster: Cluster, control: DaemonControlPlane) -> None:
    owner = cluster.owner(cluster.partition(GROUP))
    await join_alone(cluster.clients[owner], GROUP)
    answer = await control.failover.failover_group(GROUP, 0, 0, 0, to=owner)
    assert answer.owner == cluster.owner(cluster.partition(GROUP)) == owner


@pytest.mark.parametrize("to", [9, 2])
async def test_nothing_fails_over_to_a_broker_that_does_not_live(
    cluster: Cluster, control: DaemonControlPlane, to: int
) -> None:
    cluster.server.membership.stop_broker(2)
    owner = cluster.owner(cluster.partition(GROUP))
    member, generation = await join_alone(cluster.clients[owner], GROUP)
    with pytest.raises(Problem) as refused:
        await control.failover.failover_group(GROUP, 0, 0, 0, to=to)
    assert refused.value.kind is ProblemKind.NOT_POSSIBLE
    beat = await cluster.clients[owner].call(heartbeat_request(GROUP, member, generation), 3)
    assert beat.error_code == NONE


async def test_a_broker_that_stops_meanwhile_keeps_nobody_away(
    cluster: Cluster, control: DaemonControlPlane
) -> None:
    partition = cluster.partition(GROUP)
    before = cluster.owner(partition)
    to, other = before % 3 + 1, (before + 1) % 3 + 1
    await join_alone(cluster.clients[before], GROUP)
    moving = asyncio.ensure_future(control.failover.failover_group(GROUP, 500, 0, 0, to=to))
    await eventually(lambda: control.failover.in_progress_count == 1)
    cluster.server.membership.stop_broker(to)
    assert (await moving).owner == before
    assert (await cluster.until(before, FETCH, 5)).error_code == NONE
    assert (await cluster.clients[other].call(FETCH, 5)).error_code == ELSEWHERE


async def test_a_fault_moves_the_coordinator_to_another_broker(
    cluster: Cluster, control: DaemonControlPlane
) -> None:
    partition = cluster.partition(GROUP)
    before = cluster.owner(partition)
    to = before % 3 + 1
    on = {"event": "GroupStabilized", "group": GROUP, "generation": ">=2"}
    rule = {"on": on, "do": {"failover": {"to": to}}}
    name = control.faults.install_fault(msgspec.convert(rule, FaultRule)).name
    member, generation = await join_alone(cluster.clients[before], GROUP)
    await cluster.clients[before].call(join_request(GROUP, member), 3)
    await control.faults.wait_for_hits(name, 1, TIMEOUT_S * 1000)
    beat = heartbeat_request(GROUP, member, generation)
    assert (await cluster.until(to, FETCH, 5)).error_code == NONE
    assert (await cluster.clients[to].call(beat, 3)).error_code != ELSEWHERE
    assert (await cluster.clients[before].call(beat, 3)).error_code == ELSEWHERE


async def test_a_fault_that_names_a_broker_that_there_is_not_is_refused(
    cluster: Cluster, control: DaemonControlPlane
) -> None:
    rule = {"on": {"event": "GroupStabilized"}, "do": {"failover": {"to": 9}}}
    with pytest.raises(Problem) as refused:
        control.faults.install_fault(msgspec.convert(rule, FaultRule))
    assert refused.value.kind is ProblemKind.NOT_POSSIBLE
    assert refused.value.fields == {"pointer": "/do/failover/to"}
    cluster.server.membership.stop_broker(2)
    rule["do"] = {"failover": {"to": 2}}
    control.faults.install_fault(msgspec.convert(rule, FaultRule))


async def test_a_fault_stands_before_every_broker(cluster: Cluster, control: DaemonControlPlane) -> None:
    rule = {
        "match": {"api": "JoinGroup", "group": GROUP},
        "do": {"at": "request", "error": "COORDINATOR_NOT_AVAILABLE"},
        "times": None,
    }
    name = control.faults.install_fault(msgspec.convert(rule, FaultRule)).name
    for node_id in NODE_IDS:
        answer = await cluster.clients[node_id].call(join_request(GROUP), 3)
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    control.faults.remove_fault(name)
    owner = cluster.owner(cluster.partition(GROUP))
    for node_id in NODE_IDS:
        answer = await cluster.clients[node_id].call(join_request(GROUP), 3)
        assert answer.error_code == (NONE if node_id == owner else ELSEWHERE)
