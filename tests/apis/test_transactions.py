"""Transactions through the server, in cases in which Kafka sends no response."""

import logging
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.apis.test_transactional_produce import READ_COMMITTED, produce
from tests.broker.harness import Client, begin_producer, serving

LATEST = -1


async def committed_end(client: Client) -> int:
    """The last stable offset of orders-0."""
    part = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    asked = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED,
        topics=[ListOffsetsTopic(name="orders", partitions=[part])],
    )
    offset: int = (await client.call(asked, 5)).topics[0].partitions[0].offset
    return offset


async def test_the_first_who_asks_is_told_the_coordinator_once_it_is_there() -> None:
    async with serving() as server, Client(server) as client:
        assert not server.transactions.is_started
        found = await client.call(FindCoordinatorRequest(key="copier", key_type=1), 3)
        assert (found.error_code, found.port) == (ErrorCode.NONE, server.endpoints[0].port)
        await begin_producer(client, "copier")


async def test_a_batch_of_no_transactions_is_answered() -> None:
    async with serving() as server, Client(server) as client:
        await begin_producer(client, "copier")
        answer = await client.call(AddPartitionsToTxnRequest(transactions=[]), 4)
        assert (answer.error_code, answer.results_by_transaction) == (ErrorCode.NONE, [])


async def test_offsets_of_a_transaction_without_a_name_are_refused_for_good() -> None:
    async with serving() as server, Client(server) as client:
        await begin_producer(client, "copier")
        part = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_leader_epoch=-1, committed_metadata=None
        )
        commit = TxnOffsetCommitRequest(
            transactional_id="",
            group_id="billing",
            producer_id=0,
            producer_epoch=0,
            topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[part])],
        )
        answer = await client.call(commit, 3)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST


async def test_a_transaction_that_no_coordinator_knows_is_aborted_at_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unverified = {"transaction.partition.verification.enable": "false"}
    async with serving(tmp_path, unverified) as server, Client(server) as client:
        answer = await client.call(produce(producer_id=4711), 10)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert await committed_end(client) == 0
    caplog.set_level(logging.WARNING)
    async with serving(tmp_path) as server, Client(server) as client:
        await begin_producer(client, "copier")
        assert await committed_end(client) > 1
    assert "producer 4711 (epoch 0) in orders-0" in caplog.text


@pytest.mark.parametrize(
    ("timeout_ms", "error"), [(0, "INVALID_TRANSACTION_TIMEOUT"), (1, "NOT_COORDINATOR")]
)
async def test_what_is_wrong_in_any_case_is_told_by_a_coordinator_that_is_not_there(
    timeout_ms: int, error: str
) -> None:
    async with serving() as server, Client(server) as client:
        asked = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=timeout_ms)
        assert (await client.call(asked, 5)).error_code == ErrorCode[error]
