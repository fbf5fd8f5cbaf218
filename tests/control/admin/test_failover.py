"""Moves of a coordinator: the responses during a move, and the state afterwards."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.operator_actions import OperatorAction
from coordinator.control.problem import Problem, ProblemKind
from coordinator.http.api.api_route import ApiCall
from coordinator.http.api.cluster_routes import (
    GroupFailoverBody,
    fail_over_group,
    fail_over_partition,
    format_failover,
)
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from tests.broker.harness import (
    TIMEOUT_S,
    Client,
    heartbeat_request,
    join_alone,
    join_request,
    settings,
    start,
)
from tests.broker.test_group_partitions import code, commit, committed

GROUP = "billing"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    how = settings(None, {"offsets.topic.num.partitions": "2"}, topics=[("orders", 1)])
    server = await start(how)
    yield server
    await server.close()


@pytest.fixture
async def control(server: Server) -> AsyncIterator[ControlPlane]:
    control = ControlPlane(server)
    subscribers, listeners = server.group_events.subscribers, list(server.runtime.lifecycle.load_listeners)
    yield control
    assert server.runtime.lifecycle.load_listeners == listeners
    assert server.group_events.subscribers == subscribers
    control.close()
    assert not control.failover.in_progress_count


def sharing(server: Server) -> str:
    """Another group of the same offsets partition."""
    number = server.runtime.find_partition(GROUP).number
    names = (f"audit-{n}" for n in range(100))
    return next(name for name in names if server.runtime.find_partition(name).number == number)


async def test_members_come_back_and_nothing_is_lost(server: Server, control: ControlPlane) -> None:
    acts: list[OperatorAction] = []
    control.actions.listeners.append(acts.append)
    async with Client(server) as client, Client(server) as other:
        member_id, generation_id = await join_alone(client, GROUP)
        answer = await client.call(
            commit(41, group=GROUP, member_id=member_id, generation_id=generation_id), 5
        )
        assert code(answer) == 0
        assert code(await other.call(commit(5, group=sharing(server)), 2)) == 0
        moving = asyncio.ensure_future(control.failover.failover_group(GROUP, 200, 200, 5000, "test_story"))
        outcomes = set()
        while not moving.done():
            beat = await client.call(heartbeat_request(GROUP, member_id, generation_id), 3)
            listed = await client.call(
                commit(6, group=GROUP, member_id=member_id, generation_id=generation_id), 5
            )
            outcomes |= {(beat.error_code, code(listed))}
        answer = await moving
        # Never that the member is unknown, or that it has to rejoin.
        assert (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR) in outcomes
        assert (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) in outcomes
        assert {error for pair in outcomes for error in pair} <= {
            ErrorCode.NONE,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        }
        assert sorted(answer.groups) == sorted([GROUP, sharing(server)])
        assert answer.served_after_ms >= 400
        group = answer.group
        assert group is not None
        assert (group.generation_kept, group.members, group.members_back, group.rebalances) == (True, 1, 1, 0)
        assert await committed(client, GROUP) in (6, 41)
        assert await committed(other, sharing(server)) == 5
        text = format_failover(answer)
        assert f"generation {generation_id} kept, 1 of 1 members back, 0 rebalances" in text
    assert [(act.kind, act.group_id, act.by) for act in acts] == [("failover", GROUP, "test_story")]


async def test_parked_requests_are_answered_at_once(server: Server, control: ControlPlane) -> None:
    async with Client(server) as client, Client(server) as newcomer:
        member_id, generation_id = await join_alone(client, GROUP)
        await client.call(heartbeat_request(GROUP, member_id, generation_id), 3)
        newcomer.send(join_request(GROUP), 3)
        async with asyncio.timeout(TIMEOUT_S):
            while (await client.call(heartbeat_request(GROUP, member_id, generation_id), 3)).error_code == 0:
                pass
        moving = asyncio.ensure_future(control.failover.failover_group(GROUP, 0, 0, 0))
        assert (await newcomer.receive()).error_code == ErrorCode.NOT_COORDINATOR
        answer = await moving
        assert answer.group is not None
        assert answer.group.generation_kept


async def test_epochs_rise_and_the_other_partition_stays(server: Server, control: ControlPlane) -> None:
    partition = server.runtime.find_partition(GROUP)
    other = server.runtime.partitions[1 - partition.number]
    before = (partition.epoch, other.epoch, other.tenure)
    for _ in range(3):
        await control.failover.failover_partition(partition.number, 0, 0)
    assert partition.epoch == before[0] + 6
    assert (other.epoch, other.tenure) == before[1:]


async def test_a_second_move_has_to_wait_for_the_first(server: Server, control: ControlPlane) -> None:
    first = asyncio.ensure_future(control.failover.failover_partition(0, 50, 0))
    await asyncio.sleep(0)
    with pytest.raises(Problem) as caught:
        await control.failover.failover_partition(0, 0, 0)
    assert caught.value.kind is ProblemKind.LOADING
    await first


async def test_a_cancelled_failover_still_completes(server: Server, control: ControlPlane) -> None:
    moving = asyncio.ensure_future(control.failover.failover_partition(0, 20, 20))
    await asyncio.sleep(0)
    moving.cancel()
    async with Client(server) as client, asyncio.timeout(TIMEOUT_S):
        while control.failover.in_progress_count:
            await client.call(ListGroupsRequest(), 0)
        assert (await client.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE


async def test_impossible_failovers_are_refused(server: Server, control: ControlPlane) -> None:
    def call(path: dict[str, str]) -> ApiCall:
        return ApiCall(path=path, query=None, body=GroupFailoverBody(), actor=None)

    for handle, path, kind in [
        (fail_over_group, {"group": "nobody"}, ProblemKind.NO_SUCH_GROUP),
        (fail_over_partition, {"number": "2"}, ProblemKind.BAD_REQUEST),
        (fail_over_partition, {"number": "x"}, ProblemKind.BAD_REQUEST),
    ]:
        with pytest.raises(Problem) as caught:
            await handle(control, call(path))
        assert caught.value.kind is kind


async def test_a_hundred_moves_under_commits_lose_nothing(server: Server, control: ControlPlane) -> None:
    """Many groups commit all the time, and check only acknowledged commits."""
    groups = [f"group-{number}" for number in range(20)]
    acknowledged = dict.fromkeys(groups, 0)
    is_over = False

    async def commit_on(group: str) -> None:
        offset = 0
        async with Client(server) as client:
            while not is_over:
                offset += 1
                if code(await client.call(commit(offset, group=group), 2)) == ErrorCode.NONE:
                    acknowledged[group] = offset
            assert acknowledged[group] <= await committed(client, group) <= offset

    committing = [asyncio.ensure_future(commit_on(group)) for group in groups]
    for number in range(50):
        await asyncio.gather(
            *(control.failover.failover_partition(n, number % 3, number % 2) for n in range(2))
        )
        # Somebody gets through in between.
        before = sum(acknowledged.values())
        async with asyncio.timeout(TIMEOUT_S), Client(server) as client:
            while sum(acknowledged.values()) == before:
                await client.call(ListGroupsRequest(), 0)
    is_over = True
    await asyncio.gather(*committing)
    assert min(acknowledged.values()) > 10


async def test_returned_members_are_counted_in_real_time(server: Server, control: ControlPlane) -> None:
    async with Client(server) as client:
        member_id, generation_id = await join_alone(client, GROUP)
        heartbeat = heartbeat_request(GROUP, member_id, generation_id)
        await control.clocks.set_clock(GROUP, frozen=True, expires_disconnected=False)
        moving = asyncio.ensure_future(control.failover.failover_group(GROUP, 0, 0, TIMEOUT_S * 1000))
        while not moving.done():
            await client.call(heartbeat, 3)
        group = (await moving).group
        assert group is not None
        assert group.members_back == 1
        # In a clock that is an hour ahead, a silent member looks recently active.
        await control.clock_commands.advance_clock(
            GROUP, 3_600_000, silent=None, settle_ms=0, description="advance 1h", actor=None
        )
        await control.clocks.set_clock(GROUP, frozen=False, expires_disconnected=False)
        group = (await control.failover.failover_group(GROUP, 0, 0, 0)).group
        assert group is not None
        assert group.members_back == 0


@pytest.mark.parametrize("spans", [(600_000, 0), (0, 600_000)])
async def test_a_stop_during_a_failover_loses_nothing(spans: tuple[int, int]) -> None:
    how = settings(None, topics=[("orders", 1)])
    server = await start(how)
    control = ControlPlane(server)
    async with Client(server) as client:
        assert code(await client.call(commit(41, group=GROUP), 2)) == 0
    number = server.runtime.find_partition(GROUP).number
    moving = asyncio.ensure_future(control.failover.failover_partition(number, *spans))
    await asyncio.sleep(0)
    assert control.failover.in_progress_count
    control.close()
    await server.close()
    with pytest.raises(Problem) as caught:
        await moving
    assert caught.value.kind is ProblemKind.LOADING
    server = await start(how)
    async with Client(server) as client:
        assert await committed(client, GROUP) == 41
    await server.close()
