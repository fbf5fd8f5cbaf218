"""Short requests with long responses."""

from pathlib import Path
from typing import Final

from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.hostile.siege.attacker import Attacker, Hostile, frame, read
from tests.hostile.siege.siege import Siege, besieged

FAT_BYTES: Final = 2_000_000
FAT: Final = ("-o", "message.max.bytes=20000000")
"""So that such a group can be written."""
READERS: Final = 3
SESSION_TIMEOUT_MS: Final = 300_000


async def fatten(attacker: Attacker) -> None:
    """Create a group with a large description."""
    request = JoinGroupRequest(
        group_id="fat",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(FAT_BYTES))],
    )
    client = await attacker.connect()
    joined = await client.call(request, 3)
    assert joined.error_code == ErrorCode.NONE
    plan = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")]
    sync = SyncGroupRequest(group_id="fat", generation_id=1, member_id=joined.member_id, assignments=plan)
    assert (await client.call(sync, 3)).error_code == ErrorCode.NONE


def describe(times: int) -> bytes:
    return frame(DescribeGroupsRequest(groups=["fat"] * times), 4)


async def unread(siege: Siege, data: bytes) -> list[Hostile]:
    """Connections that ask, and do not read."""
    crowd = [await siege.attacker.connect(receive_bytes=1) for _ in range(READERS)]
    for hostile in crowd:
        await hostile.send(data)
    return crowd


async def test_an_answer_that_is_too_large_for_anybody_costs_its_connection(tmp_path: Path) -> None:
    async with besieged(tmp_path, FAT) as siege:
        await fatten(siege.attacker)
        await siege.begin()
        for hostile in await unread(siege, describe(500)):
            assert await hostile.answer() is None
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_unread_large_answers_delay_further_ones(tmp_path: Path) -> None:
    async with besieged(tmp_path, FAT) as siege:
        await fatten(siege.attacker)
        await siege.begin()
        crowd = await unread(siege, describe(40))
        patient = await siege.attacker.connect()
        await patient.send(describe(40))
        answered = read(DescribeGroupsResponse, 4, await patient.answer())
        assert [len(group.members[0].member_metadata) for group in answered.groups] == [FAT_BYTES] * 40
        assert crowd
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_a_large_answer_keeps_its_place(tmp_path: Path) -> None:
    async with besieged(tmp_path, FAT) as siege:
        await fatten(siege.attacker)
        client = await siege.attacker.connect()
        small, versions = describe(1), frame(ApiVersionsRequest(), 0, correlation_id=7)
        await client.send(small + versions + describe(3) + versions)
        answers = [await client.answer() for _ in range(4)]
        assert [len(answer or b"") > FAT_BYTES for answer in answers] == [True, False, True, False]
