"""Transactions that are open and that no coordinator knows, as a directory may have them that a broker left."""

from pathlib import Path

import pytest

from coordinator.broker.directory_recovery import recover_directory
from coordinator.core import clock
from protocol.error_codes import ErrorCode
from protocol.partitioner import partition_for
from storage.files import OsFiles
from storage.topic_partition import TopicPartition
from tests.broker.harness import Client, serving, settings, start
from tests.broker.transactor import TOPICS, Transactor, committed_values, produce_request
from tests.cli.log_directory import flip, segments
from tests.topics.transacting import transactional

UNVERIFIED = {
    "transaction.partition.verification.enable": "false",
    "transaction.state.log.num.partitions": "2",
}
OTHER = "a"
"""A transactional id in the other partition."""
ASKS_NOBODY = 10
"""A version of Produce at which nothing is added to a transaction."""


async def leave_one_open(data: Path) -> Transactor:
    """Leave a transaction of one producer open, and another transaction unknown to its coordinator."""
    server = await start(settings(data, UNVERIFIED, topics=TOPICS))
    transactor = Transactor()
    async with Client(server) as client:
        await transactor.begin(client)
        await transactor.transact(client)
        await transactor.look(client)
        other = Transactor(OTHER)
        await other.begin(client)
        await other.begin(client)
        await transactor.write(client)
        records = transactional(4711, 3, 0, time_ms=clock.now().wall_ms)
        answer = await client.call(produce_request("nobody's", "orders", 0, records), ASKS_NOBODY)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    server.abandon()
    return transactor


@pytest.mark.parametrize("is_recovered", [False, True], ids=["by a start", "by groupd log recover"])
async def test_it_is_aborted(tmp_path: Path, is_recovered: bool, caplog: pytest.LogCaptureFixture) -> None:
    """What a coordinator knows stays open, and its producer ends it."""
    transactor = await leave_one_open(tmp_path)
    if is_recovered:
        recover_directory(OsFiles(), str(tmp_path))
    async with serving(tmp_path, UNVERIFIED, topics=()) as server, Client(server) as client:
        await transactor.end(client)
        found = await transactor.look(client)
        transactor.promises.check(found)
        assert found.offset == transactor.number
        assert await committed_values(client, "orders", 0) == ["t 1", "t 2"]
    (line,) = [line for line in caplog.messages if "no coordinator knows" in line]
    assert "producer 4711 (epoch 3)" in line
    assert "orders-0" in line


async def test_it_stays_open_while_somebody_unread_may_know_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    transactor = await leave_one_open(tmp_path)
    recover_directory(OsFiles(), str(tmp_path))
    other = partition_for(OTHER, 2)
    assert other != partition_for(transactor.transactional_id, 2)
    flip(segments(tmp_path, TopicPartition("__transaction_state", other))[0], 70)
    async with serving(tmp_path, UNVERIFIED, topics=()) as server, Client(server) as client:
        await transactor.end(client)
        assert await committed_values(client, "payments", 0) == ["t 1", "t 2"]
        with pytest.raises(AssertionError, match="UNSTABLE_OFFSET_COMMIT"):
            await committed_values(client, "orders", 0, wait_s=0.5)
    (line,) = [line for line in caplog.messages if "they stay open" in line]
    assert f"__transaction_state-{other} " in line


async def test_a_partition_of_the_groups_is_named_where_it_is_the_one_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    transactor = await leave_one_open(tmp_path)
    recover_directory(OsFiles(), str(tmp_path))
    damaged = TopicPartition("__consumer_offsets", partition_for(transactor.group, 3))
    flip(segments(tmp_path, damaged)[0], 70)
    async with serving(tmp_path, UNVERIFIED, topics=()) as server, Client(server) as client:
        with pytest.raises(AssertionError, match="UNSTABLE_OFFSET_COMMIT"):
            await committed_values(client, "orders", 0, wait_s=0.5)
    (line,) = [line for line in caplog.messages if "they stay open" in line]
    assert f"{damaged} " in line
    assert "__transaction_state" not in line
