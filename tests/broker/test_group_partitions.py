"""The groups between log and clients: restarts, a disk that fails, partitions that are loading."""

import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.broker.server import Server
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from storage.record import Record
from tests.broker.harness import (
    Client,
    heartbeat_request,
    join_alone,
    join_request,
    serving,
    settings,
    start,
    sync_request,
)
from tests.storage.faulty_files import FaultyFiles

DATA = "/data"
ONE_PARTITION = {"offsets.topic.num.partitions": "1"}


def commit(
    offset: int, *, group: str = "g", member_id: str = "", generation_id: int = -1
) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=generation_id,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[part])],
    )


def fetch(group: str = "g") -> OffsetFetchRequest:
    topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
    return OffsetFetchRequest(group_id=group, topics=[topic])


def code(answer: Any) -> int:
    """The error of the only partition of an answer to OffsetCommit."""
    return int(answer.topics[0].partitions[0].error_code)


async def committed(client: Client, group: str = "g") -> int:
    answer = await client.call(fetch(group), 5)
    assert answer.error_code == ErrorCode.NONE
    return int(answer.topics[0].partitions[0].committed_offset)


async def active(server: Server) -> None:
    """Waits until every partition is in service again, and can be written, by asking as a client would."""
    async with Client(server) as client:
        while (await client.call(ListGroupsRequest(), 0)).error_code != ErrorCode.NONE or is_only_read(
            server
        ):
            pass


def is_only_read(server: Server) -> bool:
    """Whether a partition waits for a disk that refuses."""
    return any(partition.state is PartitionState.READ_ONLY for partition in server.runtime.partitions)


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


async def test_members_carry_on_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server) as client:
        member_id, generation_id = await join_alone(client, "g")
        assert code(await client.call(commit(42, member_id=member_id, generation_id=generation_id), 5)) == 0
    async with serving(tmp_path) as server, Client(server) as client:
        assert (await client.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0
        assert await committed(client) == 42
        synced = await client.call(sync_request("g", member_id, generation_id), 3)
        assert synced.assignment == b"all"


async def test_the_number_of_partitions_found_wins_over_the_config(tmp_path: Path) -> None:
    async with serving(tmp_path, {"offsets.topic.num.partitions": "7"}) as server, Client(server) as client:
        for number in range(20):
            await client.call(commit(number, group=f"g{number}"), 2)
    async with serving(tmp_path, {"offsets.topic.num.partitions": "50"}) as server, Client(server) as client:
        assert len(server.runtime.partitions) == 7
        assert [await committed(client, f"g{number}") for number in range(20)] == list(range(20))


async def test_nothing_acknowledged_is_lost_when_the_power_goes(files: FaultyFiles) -> None:
    server = await start(settings(DATA, ONE_PARTITION, topics=[("orders", 1)], files=files))
    async with Client(server) as client:
        for offset in range(1, 30):
            assert code(await client.call(commit(offset), 2)) == ErrorCode.NONE
            survivor = files.crash()
    server.abandon()
    async with serving(DATA, ONE_PARTITION, files=survivor, topics=()) as server, Client(server) as client:
        assert await committed(client) == 29


@pytest.fixture
async def server(files: FaultyFiles) -> AsyncIterator[Server]:
    server = await start(settings(DATA, ONE_PARTITION, topics=[("orders", 1)], files=files))
    yield server
    files.faults.clear()
    await active(server)
    await server.close()


@pytest.mark.parametrize("operation", ["write", "fdatasync"])
async def test_a_failing_disk_costs_the_partition_not_the_daemon(
    server: Server, files: FaultyFiles, operation: str
) -> None:
    async with Client(server) as client, Client(server) as parked:
        member_id, generation_id = await join_alone(client, "g")
        assert code(await client.call(commit(1, member_id=member_id, generation_id=generation_id), 5)) == 0
        parked.send(join_request("g"), 3)
        while (await client.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0:
            pass
        # What the journal does not take is synced with its segment, unless the disk refuses that too.
        files.fail(operation, error=errno.ENOSPC, times=2)
        failed = await client.call(commit(2, member_id=member_id, generation_id=generation_id), 5)
        assert code(failed) == ErrorCode.NOT_COORDINATOR
        assert (await parked.receive()).error_code == ErrorCode.NOT_COORDINATOR
        await active(server)
        assert await committed(client) in (1, 2)
        # What was not written is forgotten: the group is as the disk has it, and the member goes on in it.
        assert (await client.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0
        assert code(await client.call(commit(3, member_id=member_id, generation_id=generation_id), 5)) == 0
        assert await committed(client) == 3


async def test_a_disk_that_stays_broken_is_tried_again(server: Server, files: FaultyFiles) -> None:
    async with Client(server) as client:
        assert code(await client.call(commit(1), 2)) == ErrorCode.NONE
        files.fail("fdatasync", times=3)
        assert code(await client.call(commit(2), 2)) == ErrorCode.NOT_COORDINATOR
        answers = {int((await client.call(heartbeat_request("g", "m", 1), 3)).error_code)}
        assert answers <= {ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID}
        files.faults.clear()
        await active(server)
        assert code(await client.call(commit(3), 2)) == ErrorCode.NONE
        assert await committed(client) == 3


async def test_what_is_asked_while_loading(tmp_path: Path) -> None:
    async with serving(tmp_path, ONE_PARTITION) as server, Client(server) as client:
        member_id, generation_id = await join_alone(client, "g")
    server = await start(settings(tmp_path, ONE_PARTITION))
    # A partition that takes its time: the load never gets its turn.
    partition = server.runtime.partitions[0]
    shard, partition.machine, partition.state = partition.machine, None, PartitionState.LOADING
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    async with Client(server) as client:
        assert (await client.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0
        assert (await client.call(heartbeat_request("", "m", 1), 3)).error_code == ErrorCode.INVALID_GROUP_ID
        assert (await client.call(join_request("g"), 3)).error_code == loading
        too_short = join_request("g", session_timeout_ms=1)
        assert (await client.call(too_short, 3)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        synced = await client.call(sync_request("g", member_id, generation_id), 3)
        assert synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert code(await client.call(commit(1), 2)) == loading
        assert (await client.call(fetch(), 5)).error_code == loading
        old = await client.call(fetch(), 1)
        assert old.topics[0].partitions[0].error_code == loading
        assert (await client.call(ListGroupsRequest(), 0)).error_code == loading
        described = await client.call(DescribeGroupsRequest(groups=["g"]), 0)
        assert described.groups[0].error_code == loading
        partition.state = PartitionState.FAILED
        assert (await client.call(join_request("g"), 3)).error_code == ErrorCode.NOT_COORDINATOR
        assert (await client.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
        partition.machine, partition.state = shard, PartitionState.OWNED
        assert (await client.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0
    await server.close()


async def test_a_damaged_partition_leaves_the_others_in_service(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server) as client:
        groups = [f"g{number}" for number in range(12)]
        for group in groups:
            await client.call(commit(5, group=group), 2)
        damaged = server.runtime.find_partition("g0")
    # Cleanly stopped and of a known kind, but no key that a group could have.
    async with serving(tmp_path) as server:
        log = server.runtime.partitions[damaged.number].log
        assert log is not None
        log.append_records([Record(-1, 0, b"\0\2\0", b"\0\3")], 0)
    server = await start(settings(tmp_path))
    async with Client(server) as client:
        for group in groups:
            answer = await client.call(fetch(group), 5)
            hit = server.runtime.find_partition(group).number == damaged.number
            assert answer.error_code == (ErrorCode.NOT_COORDINATOR if hit else ErrorCode.NONE)
    await server.close()


async def test_records_of_unknown_kinds_are_passed_over(tmp_path: Path) -> None:
    async with serving(tmp_path, ONE_PARTITION) as server, Client(server) as client:
        await client.call(commit(5), 2)
        log = server.runtime.partitions[0].log
        assert log is not None
        log.append_records([Record(-1, 0, b"\0\x63future", b"\0\0")], 0)
    async with serving(tmp_path, ONE_PARTITION) as server, Client(server) as client:
        assert await committed(client) == 5


async def test_groups_that_contradict_themselves_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(None, ONE_PARTITION) as server, Client(server) as client:
        member_id, generation_id = await join_alone(client, "g")
        shard = server.runtime.partitions[0].machine
        assert shard is not None

        def contradict(*_: object) -> None:
            raise AssertionError("two leaders")

        with monkeypatch.context() as patched:
            patched.setattr(type(shard), "handle", contradict)
            answer = await client.call(sync_request("g", member_id, generation_id), 3)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        await active(server)
        assert (await client.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0


@pytest.mark.parametrize("flush", ["always", "interval", "os"])
async def test_commits_work_under_every_flush_policy(tmp_path: Path, flush: str) -> None:
    properties = {"log.flush": flush, "log.flush.interval.ms": "10"}
    async with serving(tmp_path, properties) as server, Client(server) as client:
        assert code(await client.call(commit(8), 2)) == ErrorCode.NONE
        assert await committed(client) == 8
    async with serving(tmp_path, properties) as server, Client(server) as client:
        assert await committed(client) == 8


async def test_a_consumer_can_read_the_offsets_topic() -> None:
    async with serving(None, ONE_PARTITION) as server, Client(server) as client, Client(server) as reader:
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)
        reader.send(
            FetchRequest(
                max_wait_ms=10_000,
                min_bytes=1,
                topics=[FetchTopic(topic="__consumer_offsets", partitions=[wanted])],
            ),
            11,
        )
        await client.call(commit(3), 2)
        answer = await reader.receive()
        assert b"orders" in answer.responses[0].partitions[0].records


async def test_closing_answers_those_who_are_parked() -> None:
    server = await start(
        settings(None, {"group.initial.rebalance.delay.ms": "60000"}, topics=[("orders", 1)])
    )
    async with Client(server) as joiner, Client(server) as reader:
        joiner.send(join_request("g"), 3)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)
        topics = [FetchTopic(topic="orders", partitions=[wanted])]
        reader.send(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics), 11)
        async with Client(server) as other:
            while not (await other.call(ListGroupsRequest(), 0)).groups:
                pass
        await server.close()
        assert (await joiner.receive()).error_code == ErrorCode.NOT_COORDINATOR
        assert (await reader.receive()).error_code == ErrorCode.NONE
        assert await joiner.closed()


async def test_offsets_of_a_deleted_topic_go(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server) as client:
        await client.call(commit(5), 2)
        await client.call(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 3)
        assert await committed(client) == -1
    async with serving(tmp_path, topics=()) as server, Client(server) as client:
        assert await committed(client) == -1


async def test_a_record_that_cannot_be_encoded_costs_nothing_but_its_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(None, ONE_PARTITION) as server, Client(server) as client:
        assert code(await client.call(commit(1), 2)) == ErrorCode.NONE

        def refuse(*_: object) -> None:
            raise ValueError("does not fit")

        with monkeypatch.context() as patched:
            patched.setattr(type(server.runtime.partitions[0]), "buffer_outcome", refuse)
            assert code(await client.call(commit(2), 2)) == ErrorCode.UNKNOWN_SERVER_ERROR
        await active(server)
        assert await committed(client) == 1
        assert code(await client.call(commit(3), 2)) == ErrorCode.NONE
        assert await committed(client) == 3
