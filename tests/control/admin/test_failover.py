"""A coordinator that moves: what clients are told meanwhile, and what is there afterwards."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from coordinator.console.api.failover import (
    GroupFailoverBody,
    fail_over_group,
    fail_over_partition,
    failover_text,
)
from coordinator.console.api.route import Call
from coordinator.control.acts import Act
from coordinator.control.control import Control
from coordinator.control.problem import Problem, ProblemKind
from coordinator.server.server import Server
from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from tests.server.harness import (
    TIMEOUT_S,
    Client,
    heartbeat_request,
    join_alone,
    join_request,
    settings,
    start,
)
from tests.server.test_runtime import code, commit, committed

GROUP = "billing"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    how = settings(None, {"offsets.topic.num.partitions": "2"}, topics=[("orders", 1)])
    server = await start(how)
    yield server
    await server.close()


@pytest.fixture
async def control(server: Server) -> AsyncIterator[Control]:
    control = Control(server)
    told, read = list(server.group_events.listeners), list(server.runtime.ownership.was_read)
    yield control
    assert server.runtime.ownership.was_read == read
    assert server.group_events.listeners == told
    control.close()
    assert not control.failover.under_way


def sharing(server: Server) -> str:
    """Another group of the same offsets partition."""
    number = server.runtime.partition_of(GROUP).number
    names = (f"audit-{n}" for n in range(100))
    return next(name for name in names if server.runtime.partition_of(name).number == number)


async def test_members_come_back_and_nothing_is_lost(server: Server, control: Control) -> None:
    acts: list[Act] = []
    control.acts.listeners.append(acts.append)
    async with Client(server) as client, Client(server) as other:
        member_id, generation_id = await join_alone(client, GROUP)
        answer = await client.call(
            commit(41, group=GROUP, member_id=member_id, generation_id=generation_id), 5
        )
        assert code(answer) == 0
        assert code(await other.call(commit(5, group=sharing(server)), 2)) == 0
        moving = asyncio.ensure_future(control.failover.group(GROUP, 200, 200, 5000, "test_story"))
        told = set()
        while not moving.done():
            beat = await client.call(heartbeat_request(GROUP, member_id, generation_id), 3)
            listed = await client.call(
                commit(6, group=GROUP, member_id=member_id, generation_id=generation_id), 5
            )
            told |= {(beat.error_code, code(listed))}
        answer = await moving
        # Never that the member is unknown, or that it has to rejoin.
        assert (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR) in told
        assert (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) in told
        assert {error for pair in told for error in pair} <= {
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
        text = failover_text(answer)
        assert f"generation {generation_id} kept, 1 of 1 members back, 0 rebalances" in text
    assert [(act.kind, act.group_id, act.by) for act in acts] == [("failover", GROUP, "test_story")]


async def test_whoever_is_parked_is_told_at_once(server: Server, control: Control) -> None:
    async with Client(server) as client, Client(server) as newcomer:
        member_id, generation_id = await join_alone(client, GROUP)
        await client.call(heartbeat_request(GROUP, member_id, generation_id), 3)
        newcomer.send(join_request(GROUP), 3)
        async with asyncio.timeout(TIMEOUT_S):
            while (await client.call(heartbeat_request(GROUP, member_id, generation_id), 3)).error_code == 0:
                pass
        moving = asyncio.ensure_future(control.failover.group(GROUP, 0, 0, 0))
        assert (await newcomer.receive()).error_code == ErrorCode.NOT_COORDINATOR
        answer = await moving
        assert answer.group is not None
        assert answer.group.generation_kept


async def test_epochs_rise_and_the_other_partition_stays(server: Server, control: Control) -> None:
    partition = server.runtime.partition_of(GROUP)
    other = server.runtime.partitions[1 - partition.number]
    before = (partition.epoch, other.epoch, other.tenure)
    for _ in range(3):
        await control.failover.partition(partition.number, 0, 0)
    assert partition.epoch == before[0] + 6
    assert (other.epoch, other.tenure) == before[1:]


async def test_a_second_move_has_to_wait_for_the_first(server: Server, control: Control) -> None:
    first = asyncio.ensure_future(control.failover.partition(0, 50, 0))
    await asyncio.sleep(0)
    with pytest.raises(Problem) as caught:
        await control.failover.partition(0, 0, 0)
    assert caught.value.kind is ProblemKind.LOADING
    await first


async def test_whoever_gives_up_waiting_does_not_keep_it_away(server: Server, control: Control) -> None:
    moving = asyncio.ensure_future(control.failover.partition(0, 20, 20))
    await asyncio.sleep(0)
    moving.cancel()
    async with Client(server) as client, asyncio.timeout(TIMEOUT_S):
        while control.failover.under_way:
            await client.call(ListGroupsRequest(), 0)
        assert (await client.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE


async def test_what_cannot_be_is_said(server: Server, control: Control) -> None:
    def call(path: dict[str, str]) -> Call:
        return Call(path=path, query=None, body=GroupFailoverBody(), actor=None)

    for handle, path, kind in [
        (fail_over_group, {"group": "nobody"}, ProblemKind.NO_SUCH_GROUP),
        (fail_over_partition, {"number": "2"}, ProblemKind.BAD_REQUEST),
        (fail_over_partition, {"number": "x"}, ProblemKind.BAD_REQUEST),
    ]:
        with pytest.raises(Problem) as caught:
            await handle(control, call(path))
        assert caught.value.kind is kind


async def test_a_hundred_moves_under_commits_lose_nothing(server: Server, control: Control) -> None:
    """Many groups commit all the time, and believe only what was acknowledged."""
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
        await asyncio.gather(*(control.failover.partition(n, number % 3, number % 2) for n in range(2)))
        # Somebody gets through in between.
        before = sum(acknowledged.values())
        async with asyncio.timeout(TIMEOUT_S), Client(server) as client:
            while sum(acknowledged.values()) == before:
                await client.call(ListGroupsRequest(), 0)
    is_over = True
    await asyncio.gather(*committing)
    assert min(acknowledged.values()) > 10


async def test_who_is_back_is_seen_whatever_the_clock_of_the_group_says(
    server: Server, control: Control
) -> None:
    async with Client(server) as client:
        member_id, generation_id = await join_alone(client, GROUP)
        heartbeat = heartbeat_request(GROUP, member_id, generation_id)
        await control.clocks.put(GROUP, frozen=True, lets_gone_go=False)
        moving = asyncio.ensure_future(control.failover.group(GROUP, 0, 0, TIMEOUT_S * 1000))
        while not moving.done():
            await client.call(heartbeat, 3)
        group = (await moving).group
        assert group is not None
        assert group.members_back == 1
        # An hour ahead, a member that says nothing looks as if it had just been heard.
        await control.moving.advance(
            GROUP, 3_600_000, silent=None, settle_ms=0, what="advance 1h", actor=None
        )
        await control.clocks.put(GROUP, frozen=False, lets_gone_go=False)
        group = (await control.failover.group(GROUP, 0, 0, 0)).group
        assert group is not None
        assert group.members_back == 0


@pytest.mark.parametrize("spans", [(600_000, 0), (0, 600_000)])
async def test_a_stop_meanwhile_keeps_nobody_waiting_and_loses_nothing(spans: tuple[int, int]) -> None:
    how = settings(None, topics=[("orders", 1)])
    server = await start(how)
    control = Control(server)
    async with Client(server) as client:
        assert code(await client.call(commit(41, group=GROUP), 2)) == 0
    number = server.runtime.partition_of(GROUP).number
    moving = asyncio.ensure_future(control.failover.partition(number, *spans))
    await asyncio.sleep(0)
    assert control.failover.under_way
    control.close()
    await server.close()
    with pytest.raises(Problem) as caught:
        await moving
    assert caught.value.kind is ProblemKind.LOADING
    server = await start(how)
    async with Client(server) as client:
        assert await committed(client, GROUP) == 41
    await server.close()
