"""Offset expiration in a running daemon (KIP-211): expired offsets, retained offsets, and tombstones."""

import logging
import re
import time
from pathlib import Path

import pytest

from coordinator.broker.server import Server
from coordinator.core import clock
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.records.group_record_schemas import GroupMetadataKey, OffsetCommitKey
from protocol.records.group_record_serde import decode_key
from tests.broker.harness import Client, heartbeat_request, join_alone, serving
from tests.broker.test_group_partitions import ONE_PARTITION, code, commit, committed

PROPERTIES = {**ONE_PARTITION, "offsets.retention.check.interval.ms": "20"}
TOPICS = (("orders", 1), ("payments", 1))
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
CANARY = "canary"
LINE = re.compile(r"Removed (\d+) expired offsets in \d+ milliseconds\.")


class ShiftedTime:
    """A wall clock that a test sets forward. Timers and sessions do not change."""

    def __init__(self) -> None:
        self.shift_ms = 0

    def advance(self, ms: int) -> None:
        self.shift_ms += ms

    @staticmethod
    def monotonic_ns() -> int:
        return time.monotonic_ns()

    def time_ns(self) -> int:
        return time.time_ns() + self.shift_ms * 1_000_000


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> ShiftedTime:
    shifted = ShiftedTime()
    monkeypatch.setattr(clock, "time", shifted)
    return shifted


def commit_topic(topic: str, *, retention_time_ms: int = -1, group: str = "g") -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    return OffsetCommitRequest(
        group_id=group,
        retention_time_ms=retention_time_ms,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])],
    )


async def looked(client: Client, wall: ShiftedTime, ms: int) -> None:
    """Set the clock forward and wait for the next check of expired offsets. That check also removes offsets that
    expire at the new time."""
    request = commit_topic("orders", retention_time_ms=ms, group=CANARY)
    assert code(await client.call(request, 2)) == ErrorCode.NONE
    wall.advance(ms)
    while await committed(client, CANARY) != -1:
        pass


async def groups(client: Client) -> set[str]:
    answer = await client.call(ListGroupsRequest(), 0)
    assert answer.error_code == ErrorCode.NONE
    return {group.group_id for group in answer.groups}


def tombstones(server: Server) -> list[object]:
    """The keys of every tombstone in the log."""
    log = server.runtime.partitions[0].log
    assert log is not None
    keys = [
        decode_key(record.key)
        for batch in log.iterate_batches()
        for record in batch.records()
        if record.value is None and record.key is not None
    ]
    return [key for key in keys if getattr(key, "group", CANARY) != CANARY]


async def test_a_simple_group_goes_a_week_after_its_last_commit(
    tmp_path: Path, wall: ShiftedTime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(tmp_path, PROPERTIES, topics=TOPICS) as server, Client(server) as client:
        assert code(await client.call(commit_topic("payments"), 6)) == ErrorCode.NONE
        await looked(client, wall, DAY_MS)
        assert code(await client.call(commit(7), 6)) == ErrorCode.NONE
        await looked(client, wall, 6 * DAY_MS)
        assert tombstones(server) == [OffsetCommitKey(group="g", topic="payments", partition=0)]
        assert await committed(client) == 7
        await looked(client, wall, DAY_MS)
        assert await groups(client) == set()
        assert tombstones(server)[1:] == [
            OffsetCommitKey(group="g", topic="orders", partition=0),
            GroupMetadataKey(group="g"),
        ]
        described = await client.call(DescribeGroupsRequest(groups=["g"]), 0)
        assert described.groups[0].group_state == "Dead"
    removed = [int(found[1]) for record in caplog.records if (found := LINE.search(record.getMessage()))]
    # One log line per check: expirations of the same check are counted together.
    assert sum(removed) == 5
    assert len(removed) <= 5
    async with serving(tmp_path, PROPERTIES, topics=TOPICS) as server, Client(server) as client:
        assert await groups(client) == set()
        assert await committed(client) == -1


async def test_a_look_that_finds_nothing_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(None, PROPERTIES, topics=TOPICS) as server, Client(server) as client:
        assert code(await client.call(commit(7), 6)) == ErrorCode.NONE
        end_offset = server.runtime.partitions[0].position
        for _ in range(5):
            assert await committed(client) == 7
        assert server.runtime.partitions[0].position == end_offset
    assert not [record for record in caplog.records if LINE.search(record.getMessage())]


async def test_an_emptied_group_goes_a_week_after_its_last_member(tmp_path: Path, wall: ShiftedTime) -> None:
    async with serving(tmp_path, PROPERTIES, topics=TOPICS) as server, Client(server) as client:
        member_id, generation_id = await join_alone(client, "g")
        assert code(await client.call(commit(7, member_id=member_id, generation_id=generation_id), 5)) == 0
        await looked(client, wall, 30 * DAY_MS)
        assert await committed(client) == 7, "its member still reads the topic"
        left = await client.call(LeaveGroupRequest(group_id="g", member_id=member_id), 1)
        assert left.error_code == ErrorCode.NONE
        await looked(client, wall, 6 * DAY_MS)
        assert await committed(client) == 7
    # The date is in the log: a restart does not prolong it.
    async with serving(tmp_path, PROPERTIES, topics=TOPICS) as server, Client(server) as client:
        await looked(client, wall, HOUR_MS)
        assert await committed(client) == 7
        await looked(client, wall, DAY_MS)
        assert await groups(client) == set()
        assert GroupMetadataKey(group="g") in tombstones(server)


async def test_members_keep_the_offsets_of_what_they_read_and_lose_others(wall: ShiftedTime) -> None:
    async with serving(None, PROPERTIES, topics=TOPICS) as server, Client(server) as client:
        member_id, generation_id = await join_alone(client, "g")
        for topic in ("orders", "payments"):
            request = commit_topic(topic)
            request.member_id, request.generation_id_or_member_epoch = member_id, generation_id
            assert code(await client.call(request, 5)) == ErrorCode.NONE
        await looked(client, wall, 8 * DAY_MS)
        assert tombstones(server) == [OffsetCommitKey(group="g", topic="payments", partition=0)]
        assert await committed(client) == 7
        beat = await client.call(heartbeat_request("g", member_id, generation_id), 3)
        assert beat.error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_a_retention_time_of_the_clients_own_is_kept(
    tmp_path: Path, wall: ShiftedTime, version: int
) -> None:
    """Clients before Kafka 2.1 say how long; it counts instead of the daemon's, also after a restart."""
    async with serving(tmp_path, PROPERTIES, topics=TOPICS) as server, Client(server) as client:
        short = commit_topic("orders", retention_time_ms=2 * HOUR_MS, group="short")
        long = commit_topic("orders", retention_time_ms=30 * DAY_MS, group="long")
        for request in (short, long):
            assert code(await client.call(request, version)) == ErrorCode.NONE
        await looked(client, wall, HOUR_MS)
        assert await committed(client, "short") == 7
    async with serving(tmp_path, PROPERTIES, topics=TOPICS) as server, Client(server) as client:
        await looked(client, wall, HOUR_MS)
        assert await groups(client) == {"long"}
        await looked(client, wall, 20 * DAY_MS)
        assert await committed(client, "long") == 7
        await looked(client, wall, 10 * DAY_MS)
        assert await groups(client) == set()


async def test_how_long_is_a_property(wall: ShiftedTime) -> None:
    properties = {**PROPERTIES, "offsets.retention.minutes": "60"}
    async with serving(None, properties, topics=TOPICS) as server, Client(server) as client:
        assert code(await client.call(commit(7), 6)) == ErrorCode.NONE
        await looked(client, wall, HOUR_MS - 60_000)
        assert await committed(client) == 7
        await looked(client, wall, 60_000)
        assert await groups(client) == set()
