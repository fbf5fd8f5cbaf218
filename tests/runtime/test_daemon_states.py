"""States as a daemon writes them, at its stop and while it runs, and reads them at its start."""

import errno
import os
from pathlib import Path

import pytest

from coordinator.runtime import state_keeper
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from storage.files import OsFile, OsFiles
from storage.state_file import STATE_SUFFIX
from tests.apis.test_consumer_groups import joining
from tests.broker.harness import Client, begin_producer, heartbeat_request, join_alone, serving
from tests.broker.test_group_partitions import ONE_PARTITION, code, commit, committed
from tests.broker.test_log_cleaner import one_turn


def state_files(data_dir: Path) -> list[Path]:
    return sorted(data_dir.glob(f"__consumer_offsets-*/*{STATE_SUFFIX}"))


async def commit_many(client: Client, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        client.send(commit(number, group=f"g{number % 7}"), 2)
    for _ in range(count):
        assert code(await client.receive()) == ErrorCode.NONE


async def test_a_clean_stop_leaves_a_state_and_the_next_start_uses_it(tmp_path: Path) -> None:
    orders = [("orders", 3)]
    async with serving(tmp_path, ONE_PARTITION, topics=orders) as server, Client(server) as client:
        joined = await client.call(joining("consumers"), 1)
        assert joined.assignment.topic_partitions[0].partitions == [0, 1, 2]
        member_id, generation_id = await join_alone(client, "members")
        await commit_many(client, 700)
    (first,) = state_files(tmp_path)
    async with serving(tmp_path, ONE_PARTITION) as server, Client(server) as client:
        assert server.runtime.lifecycle.loads[-1][0] < 20
        assert [await committed(client, f"g{number}") for number in range(7)] == list(range(693, 700))
        assert (await client.call(heartbeat_request("members", member_id, generation_id), 3)).error_code == 0
        going_on = joining("consumers")
        going_on.member_epoch = joined.member_epoch
        going_on.topic_partitions = joined.assignment.topic_partitions
        assert await client.call(going_on, 1) == joined
        await commit_many(client, 700, 700)
    (second,) = state_files(tmp_path)
    assert second.name > first.name
    async with serving(tmp_path, ONE_PARTITION) as server, Client(server) as client:
        assert [await committed(client, f"g{number}") for number in range(7)] == list(range(1393, 1400))


@pytest.mark.parametrize("is_ended", [False, True], ids=["open", "aborted"])
async def test_what_an_open_transaction_comes_to_is_no_state_yet(tmp_path: Path, is_ended: bool) -> None:
    async with serving(tmp_path, ONE_PARTITION) as server, Client(server) as client:
        producer = await begin_producer(client, "t")
        producer_id = producer.producer_id
        part = TxnOffsetCommitRequestPartition(partition_index=1, committed_offset=5, committed_metadata=None)
        topic = TxnOffsetCommitRequestTopic(name="orders", partitions=[part])
        pending = TxnOffsetCommitRequest(
            transactional_id="t", group_id="g0", producer_id=producer_id, producer_epoch=0, topics=[topic]
        )
        (answered,) = (await client.call(pending, 5)).topics
        assert [each.error_code for each in answered.partitions] == [ErrorCode.NONE]
        if is_ended:
            end = EndTxnRequest(
                transactional_id="t", producer_id=producer_id, producer_epoch=0, committed=False
            )
            assert (await client.call(end, 5)).error_code == ErrorCode.NONE
    async with serving(tmp_path, ONE_PARTITION) as server, Client(server) as client:
        await commit_many(client, 600)
    assert len(state_files(tmp_path)) == is_ended


@pytest.mark.parametrize("damage", [b"", b"\0" * 200], ids=["empty", "zeros"])
async def test_a_damaged_state_is_ignored_and_goes(tmp_path: Path, damage: bytes) -> None:
    async with serving(tmp_path, ONE_PARTITION) as server, Client(server) as client:
        await commit_many(client, 600)
    (path,) = state_files(tmp_path)
    path.write_bytes(damage)
    async with serving(tmp_path, ONE_PARTITION) as server, Client(server) as client:
        assert not path.exists()
        assert server.runtime.lifecycle.loads[-1][0] >= 600
        assert await committed(client, "g0") == 595
    assert state_files(tmp_path) == [path]


async def test_states_are_written_while_the_daemon_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_keeper, "MIN_RECORDS_WHILE_RUNNING", 100)
    properties = {**ONE_PARTITION, "log.flush.offset.checkpoint.interval.ms": "10"}
    async with serving(tmp_path, properties) as server, Client(server) as client:
        number = 0
        while not server.runtime.lifecycle.states.written_count:
            await commit_many(client, 20, number)
            number += 20
        (path,) = state_files(tmp_path)
        assert int(path.stem) <= server.runtime.partitions[0].position


async def test_a_stop_leaves_nothing_of_a_state_that_is_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_keeper, "MIN_RECORDS_WHILE_RUNNING", 100)
    monkeypatch.setattr(state_keeper, "PAUSE_S", 0.2)
    properties = {**ONE_PARTITION, "log.flush.offset.checkpoint.interval.ms": "10"}
    async with serving(tmp_path, properties) as server, Client(server) as client:
        await commit_many(client, 600)
        while not unfinished(tmp_path):
            await one_turn()
        assert not server.runtime.lifecycle.states.written_count
    assert unfinished(tmp_path) == []
    (path,) = state_files(tmp_path)
    assert int(path.stem) >= 600


def unfinished(data_dir: Path) -> list[Path]:
    return list(data_dir.glob(f"*/*{STATE_SUFFIX}.tmp"))


class FullFiles(OsFiles):
    """A disk without room for states."""

    def open_append(self, path: str) -> OsFile:
        if STATE_SUFFIX in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().open_append(path)


async def test_a_full_disk_costs_the_state_and_is_told_with_the_name_of_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, ONE_PARTITION, files=FullFiles()) as server, Client(server) as client:
        await commit_many(client, 600)
    (line,) = [message for message in caplog.messages if "state" in message.lower()]
    assert f"{tmp_path}/__consumer_offsets-0/" in line
    assert "no space left on device" in line
    assert state_files(tmp_path) == []
    async with serving(tmp_path, ONE_PARTITION) as server, Client(server) as client:
        assert await committed(client, "g0") == 595
