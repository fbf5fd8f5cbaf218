"""Requests of a great many tiny things: each is cheap, and there is one byte for each."""

from pathlib import Path
from typing import Final

from coordinator.group.consumer.heartbeat_validation import MAX_SUBSCRIBED_TOPICS
from protocol.apis import APIS
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.primitives import MAX_UNKNOWN_TAGS, write_uvarint
from tests.hostile.heartbeats import joining, owning
from tests.hostile.siege.attacker import frame, read
from tests.hostile.siege.siege import Siege, besieged

TOPICS: Final = 20_000
PARTITIONS: Final = 100_000
OWNED_TOPICS: Final = 1_000
FIRST_EPOCH: Final = 2
"""The epoch of a member that is alone in a new group."""
TAGS: Final = 2_000_000
SESSIONS: Final = 6
OF_A_SESSION: Final = 40_000
"""The number of partitions: the one kept session takes a part of the allowed memory, all sessions far more."""
KEPT: Final = ("-o", f"max.incremental.fetch.session.cache.partitions={OF_A_SESSION}")


def with_tags(data: bytes, count: int, *, in_header: bool) -> bytes:
    """A request without tagged fields, with so many empty ones at the end of its header or of its body."""
    tags = bytearray()
    write_uvarint(tags, count)
    for tag in range(count):
        write_uvarint(tags, tag)
        tags.append(0)
    header_end = 4 + 10 + int.from_bytes(data[12:14], "big")
    at = header_end if in_header else len(data) - 1
    assert data[at] == 0, "no tagged section"
    whole = data[4:at] + tags + data[at + 1 :]
    return len(whole).to_bytes(4, "big") + whole


def fetch_of(partitions: int, topic: str = "nobody", *, session: tuple[int, int] = (0, 0)) -> FetchRequest:
    parts = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1000)
        for number in range(partitions)
    ]
    session_id, epoch = session
    topics = [FetchTopic(topic=topic, partitions=parts)]
    return FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, session_id=session_id, session_epoch=epoch, topics=topics
    )


async def send_and_read(siege: Siege, data: bytes) -> bytes | None:
    hostile = await siege.attacker.connect()
    await hostile.send(data)
    return await hostile.answer()


async def test_unknown_tagged_fields_count_as_elements(tmp_path: Path) -> None:
    plain = frame(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    async with besieged(tmp_path) as siege:
        some = with_tags(with_tags(plain, MAX_UNKNOWN_TAGS, in_header=False), 1, in_header=True)
        many = [with_tags(plain, TAGS, in_header=in_header) for in_header in (True, False)]
        assert await send_and_read(siege, some) is not None
        await siege.begin()
        for data in many:
            assert await send_and_read(siege, data) is None
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_the_elements_of_each_api_are_bounded(tmp_path: Path) -> None:
    protocols = [JoinGroupRequestProtocol(name="", metadata=b"")] * (APIS[11].max_elements + 1)
    join = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=protocols
    )
    keys = FindCoordinatorRequest(coordinator_keys=[""] * (APIS[10].max_elements + 1))
    most = FindCoordinatorRequest(coordinator_keys=[""] * APIS[10].max_elements)
    async with besieged(tmp_path) as siege:
        await siege.begin()
        assert await send_and_read(siege, frame(join, 9)) is None
        assert await send_and_read(siege, frame(keys, 6)) is None
        assert await send_and_read(siege, frame(fetch_of(APIS[1].max_elements), 12)) is None
        assert await send_and_read(siege, frame(most, 6)) is not None
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_a_member_names_as_many_topics_and_owns_as_many_partitions_as_there_may_be(
    tmp_path: Path,
) -> None:
    names = [f"absent-{number}" for number in range(TOPICS)]
    partitions = range(PARTITIONS // OWNED_TOPICS)
    owned = owning("g", FIRST_EPOCH, OWNED_TOPICS, partitions, names)
    async with besieged(tmp_path) as siege:
        await siege.begin()
        client = await siege.attacker.connect()
        joined = await client.call(joining("g", names), 1)
        assert (joined.error_code, joined.member_epoch) == (ErrorCode.NONE, FIRST_EPOCH)
        assert (await client.call(owned, 1)).error_code == ErrorCode.NONE
        too_many = await client.call(joining("g", ["the same"] * (MAX_SUBSCRIBED_TOPICS + 1)), 1)
        assert too_many.error_code == ErrorCode.INVALID_REQUEST
        assert str(MAX_SUBSCRIBED_TOPICS) in too_many.error_message
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_fetch_sessions_of_unknown_partitions_are_bounded(tmp_path: Path) -> None:
    data = frame(fetch_of(OF_A_SESSION), 12)
    async with besieged(tmp_path, (*KEPT, "--topic", "orders:1")) as siege:
        await siege.begin()
        sessions = []
        for _ in range(SESSIONS):
            answered = await send_and_read(siege, data)
            sessions.append(answered is not None and int.from_bytes(answered[11:15], "big") != 0)
        assert sessions == [True] + [False] * (SESSIONS - 1)
        client = await siege.attacker.connect()
        await client.send(frame(fetch_of(1, "orders"), 12))
        served = read(FetchResponse, 12, await client.answer())
        assert (served.session_id, served.responses[0].partitions[0].error_code) == (0, ErrorCode.NONE)
        toll = await siege.toll()
        assert toll.is_bearable(), toll
