"""A server with group clocks: tests hold and advance them while other clocks run on."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from coordinator.broker.server import Server
from coordinator.core import clock
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse
from protocol.records.group_record_schemas import OffsetCommitKey, OffsetCommitValue
from protocol.records.group_record_serde import decode_key, decode_value
from storage.record import Record
from tests.broker.harness import Client, heartbeat_request, join_request, serving, sync_request
from tests.broker.test_group_partitions import code, commit, committed
from tests.runtime.held_clock import HeldClock
from tests.storage.faulty_files import FaultyFiles

TIMEOUT_MS = 10_000
SESSION_MS = 100
FETCH_WAIT_MS = 4 * SESSION_MS
INITIAL_DELAY_MS = 3000
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS),
    "offsets.retention.check.interval.ms": str(MINUTE_MS),
}


@pytest.fixture
def held() -> HeldClock:
    held = HeldClock(behind_ms=60 * MINUTE_MS)
    held.hold()
    return held


@pytest.fixture
async def server(held: HeldClock) -> AsyncIterator[Server]:
    async with serving("/data", PROPERTIES, files=FaultyFiles(), group_clock=held) as server:
        yield server


async def described(client: Client) -> DescribedGroup:
    answer = await client.call(DescribeGroupsRequest(groups=["g"]), 0)
    group: DescribedGroup = answer.groups[0]
    return group


async def until_members(client: Client, count: int) -> None:
    """Waits until the group has so many."""
    last_ms = clock.monotonic_ms() + TIMEOUT_MS
    while (members := len((await described(client)).members)) != count:
        assert clock.monotonic_ms() < last_ms, members


async def form(
    server: Server, members: Sequence[Client], held: HeldClock, session_timeout_ms: int
) -> list[JoinGroupResponse]:
    """Makes a Stable group of clients, which takes group time until all have joined, and none from then on."""
    for member in members:
        member.send(join_request("g", session_timeout_ms=session_timeout_ms), 3)
    async with Client(server) as other:
        await until_members(other, len(members))
        while (await described(other)).group_state == "PreparingRebalance":
            held.advance(INITIAL_DELAY_MS)
    joined: list[JoinGroupResponse] = [await member.receive() for member in members]
    leader_id = joined[0].leader
    assignments = {answer.member_id: b"all" for answer in joined}
    for member, answer in zip(members, joined, strict=True):
        given = assignments if answer.member_id == leader_id else {}
        member.send(sync_request("g", answer.member_id, answer.generation_id, given), 3)
    for member in members:
        synced: SyncGroupResponse = await member.receive()
        assert synced.error_code == ErrorCode.NONE
    return joined


async def beat(client: Client, joined: JoinGroupResponse, times: int = 3) -> ErrorCode:
    """Heartbeats of the same bytes, of which only the first is decoded; the answer to all."""
    request = heartbeat_request("g", joined.member_id, joined.generation_id)
    answers = {(await client.call(request, 3)).error_code for _ in range(times)}
    assert len(answers) == 1
    return ErrorCode(answers.pop())


@pytest.mark.parametrize("times", [1, 3])
async def test_no_session_ends_while_the_clock_is_held_and_fetches_are_answered_all_the_same(
    server: Server, held: HeldClock, times: int
) -> None:
    async with Client(server) as client, Client(server) as reader:
        (joined,) = await form(server, [client], held, SESSION_MS)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)
        topics = [FetchTopic(topic="orders", partitions=[wanted])]
        asked_ms = clock.monotonic_ms()
        fetched = await reader.call(FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, topics=topics), 11)
        assert fetched.error_code == ErrorCode.NONE
        assert clock.monotonic_ms() - asked_ms >= FETCH_WAIT_MS
        assert [member.member_id for member in (await described(reader)).members] == [joined.member_id]
        assert await beat(client, joined, times) == ErrorCode.NONE
        held.advance(SESSION_MS)
        await until_members(reader, 0)
        assert await beat(client, joined) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_those_who_are_silent_for_a_session_expire_and_nobody_else(
    server: Server, held: HeldClock
) -> None:
    session_timeout_ms = 6000
    async with Client(server) as lively, Client(server) as silent, Client(server) as other:
        joined, _ = await form(server, [lively, silent], held, session_timeout_ms)
        assert len((await described(other)).members) == 2
        assert await beat(lively, joined) == ErrorCode.NONE
        for _ in range(3):
            assert (await described(other)).group_state == "Stable"
            held.advance(session_timeout_ms // 3)
            await beat(lively, joined)
        await until_members(other, 1)
        assert [member.member_id for member in (await described(other)).members] == [joined.member_id]
        assert await beat(lively, joined) == ErrorCode.REBALANCE_IN_PROGRESS


async def test_a_clock_that_runs_ahead_is_ahead_for_repeated_heartbeats_too(
    server: Server, held: HeldClock
) -> None:
    async with Client(server) as client, Client(server) as other:
        (joined,) = await form(server, [client], held, 6000)
        assert await beat(client, joined) == ErrorCode.NONE
        held.let_go()
        for _ in range(5):
            held.advance(5000)
            assert await beat(client, joined) == ErrorCode.NONE
        assert (await described(other)).group_state == "Stable"


async def test_commits_are_stamped_and_expire_by_group_time_and_records_are_not(
    server: Server, held: HeldClock
) -> None:
    async with Client(server) as client:
        await asyncio.wait_for(server.ready.wait(), 60)
        held.advance(100 * DAY_MS)
        assert code(await client.call(commit(7), 2)) == ErrorCode.NONE
        (written,) = offsets_written(server)
        assert written.key is not None
        assert written.value is not None
        key = decode_key(written.key)
        assert isinstance(key, OffsetCommitKey)
        value = decode_value(key, written.value)
        assert isinstance(value, OffsetCommitValue)
        assert value.commit_timestamp == held.now().wall_ms
        assert abs(written.timestamp_ms - clock.wall_ms()) < MINUTE_MS
        held.advance(6 * DAY_MS)
        assert await committed(client) == 7
        held.advance(2 * DAY_MS)
        last_ms = clock.monotonic_ms() + TIMEOUT_MS
        while await committed(client) != -1:
            assert clock.monotonic_ms() < last_ms


def offsets_written(server: Server) -> list[Record]:
    """Return the content of the groups' log."""
    log = server.runtime.partitions[0].log
    assert log is not None
    return [record for batch in log.iterate_batches() for record in batch.records()]
