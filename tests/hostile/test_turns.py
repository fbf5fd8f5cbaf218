"""Requests that are each within the limits and together exceed a fair share."""

from pathlib import Path
from typing import Final

from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.hostile.siege.attacker import Attacker, frame, read
from tests.hostile.siege.siege import besieged

GROUPS: Final = 20_000
PIPELINED: Final = 100
"""Some seconds of work: many times what a neighbour may have to wait."""
CONNECTIONS: Final = 20
LIST: Final = ListGroupsRequest(states_filter=["Stable"], types_filter=["classic"])


async def make_groups(attacker: Attacker) -> None:
    """Groups that have an offset, and no members."""
    client = await attacker.connect()
    parts = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    topics = [OffsetCommitRequestTopic(name="orders", partitions=parts)]
    for start in range(0, GROUPS, 500):
        names = [f"group-{number}" for number in range(start, start + 500)]
        commits = [frame(OffsetCommitRequest(group_id=name, topics=topics), 2) for name in names]
        await client.send(b"".join(commits))
        for _ in names:
            assert await client.answer() is not None


async def test_pipelined_requests_that_take_long(tmp_path: Path) -> None:
    async with besieged(tmp_path, ["--topic", "orders:1"]) as siege:
        await make_groups(siege.attacker)
        await siege.begin()
        hostile = await siege.attacker.connect()
        await hostile.send(frame(LIST, 5) * PIPELINED)
        for _ in range(PIPELINED):
            answered = read(ListGroupsResponse, 5, await hostile.answer())
            assert answered.error_code == ErrorCode.NONE
            assert [group.group_id for group in answered.groups] == ["neighbours"]
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_many_connections_that_each_ask_for_something_long(tmp_path: Path) -> None:
    async with besieged(tmp_path, ["--topic", "orders:1"]) as siege:
        await make_groups(siege.attacker)
        await siege.begin()
        crowd = [await siege.attacker.connect() for _ in range(CONNECTIONS)]
        for _ in range(3):
            for hostile in crowd:
                await hostile.send(frame(LIST, 5) * 2)
        for hostile in crowd:
            for _ in range(6):
                assert await hostile.answer() is not None
        toll = await siege.toll()
        assert toll.is_bearable(), toll
