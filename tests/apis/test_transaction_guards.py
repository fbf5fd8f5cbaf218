"""Producer ids and transactions."""

import logging

import pytest

from coordinator.security.core.acl import AclOperation
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.apis.authorized_clients import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, admin_and_alice, allow
from tests.broker.harness import Client, begin_producer
from tests.topics.transacting import transactional

NONE, DENIED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
LIST = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
ANY_ID = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)


@pytest.mark.parametrize("version", [0, 2, 5])
async def test_a_producer_id_is_for_who_may_write_something(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "bob", AclOperation.IDEMPOTENT_WRITE, CLUSTER)
        answer = await alice.call(ANY_ID, version)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (CLUSTER_DENIED, -1, -1)
        await allow(server, "alice", AclOperation.WRITE, TOPIC, "nowhere")
        assert (await alice.call(ANY_ID, version)).error_code == NONE
        async with Client(server, "bob") as bob:
            assert (await bob.call(ANY_ID, version)).error_code == NONE


async def test_a_producer_without_rights_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    async with admin_and_alice(monkeypatch) as (_, _, alice):
        assert (await alice.call(ANY_ID, 5)).error_code == CLUSTER_DENIED
    assert "operation = IDEMPOTENT_WRITE" in caplog.text


async def test_a_transactional_id_is_for_who_may_write_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        held = await begin_producer(admin, "pay")
        await allow(server, "alice", AclOperation.DESCRIBE, TRANSACTIONAL_ID, "pay")
        begin = InitProducerIdRequest(transactional_id="pay", transaction_timeout_ms=60_000)
        end = EndTxnRequest(
            transactional_id="pay",
            producer_id=held.producer_id,
            producer_epoch=held.producer_epoch,
            committed=True,
        )
        offsets = AddOffsetsToTxnRequest(
            transactional_id="pay",
            producer_id=held.producer_id,
            producer_epoch=held.producer_epoch,
            group_id="g",
        )
        assert [(await alice.call(request, 3)).error_code for request in (begin, end, offsets)] == [
            ID_DENIED
        ] * 3
        await allow(server, "alice", AclOperation.WRITE, TRANSACTIONAL_ID, "pay")
        assert (await alice.call(offsets, 3)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        await allow(server, "alice", AclOperation.READ, GROUP, "g")
        assert (await alice.call(offsets, 3)).error_code == NONE
        assert (await alice.call(end, 3)).error_code == NONE
        assert (await alice.call(begin, 3)).error_code != ID_DENIED


async def test_partitions_are_added_where_all_topics_may_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        held = await begin_producer(admin, "pay")

        async def errors(*names: str) -> dict[tuple[str, int], int]:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="pay",
                v3_and_below_producer_id=held.producer_id,
                v3_and_below_producer_epoch=held.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[0, 2]) for name in names],
            )
            answer = await alice.call(request, 3)
            return {
                (topic.name, part.partition_index): part.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            }

        assert set((await errors("orders")).values()) == {ID_DENIED}
        await allow(server, "alice", AclOperation.WRITE, TRANSACTIONAL_ID, "pay")
        await allow(server, "alice", AclOperation.WRITE, TOPIC, "orders", "nowhere")
        assert await errors("orders", "secret", "nowhere") == {
            ("orders", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
            ("orders", 2): ErrorCode.OPERATION_NOT_ATTEMPTED,
            ("secret", 0): DENIED,
            ("secret", 2): DENIED,
            ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("nowhere", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert set((await errors("orders")).values()) == {NONE}


async def test_what_brokers_add_needs_cluster_action(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        held = await begin_producer(admin, "pay")
        transaction = AddPartitionsToTxnTransaction(
            transactional_id="pay",
            producer_id=held.producer_id,
            producer_epoch=held.producer_epoch,
            topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        await allow(server, "alice", AclOperation.WRITE, TRANSACTIONAL_ID, "pay")
        answer = await alice.call(request, 5)
        assert (answer.error_code, answer.results_by_transaction) == (CLUSTER_DENIED, [])
        await allow(server, "alice", AclOperation.CLUSTER_ACTION, CLUSTER)
        answer = await alice.call(request, 5)
        assert (answer.error_code, len(answer.results_by_transaction)) == (NONE, 1)


async def test_a_whole_transaction_of_who_may_just_do_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server adds the partitions and writes the markers itself, without authorization of the client."""
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await allow(server, "alice", AclOperation.WRITE, TRANSACTIONAL_ID, "pay")
        await allow(server, "alice", AclOperation.WRITE, TOPIC, "orders")
        held = await begin_producer(alice, "pay")
        records = transactional(held.producer_id, held.producer_epoch, 0, time_ms=1_700_000_000_000)
        part = PartitionProduceData(index=0, records=records)
        request = ProduceRequest(
            transactional_id="pay",
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="orders", partition_data=[part])],
        )
        answer = await alice.call(request, 12)
        assert answer.responses[0].partition_responses[0].error_code == NONE
        await allow(server, "bob", AclOperation.DESCRIBE, TRANSACTIONAL_ID, "pay")
        async with Client(server, "bob") as bob:  # bob may not describe the topics of the transaction
            described = DescribeTransactionsRequest(transactional_ids=["theirs", "pay"])
            denied, pay = (await bob.call(described, 0)).transaction_states
            assert (denied.transactional_id, denied.error_code) == ("theirs", ID_DENIED)
            assert (pay.error_code, pay.topics) == (NONE, [])
            listed = (await bob.call(LIST, 1)).transaction_states
            assert [state.transactional_id for state in listed] == ["pay"]
        async with Client(server, "eve") as eve:
            assert (await eve.call(LIST, 1)).transaction_states == []
        pay = (await admin.call(described, 0)).transaction_states[1]
        assert [topic.topic for topic in pay.topics] == ["orders"]
        end = EndTxnRequest(
            transactional_id="pay",
            producer_id=held.producer_id,
            producer_epoch=held.producer_epoch,
            committed=True,
        )
        assert (await alice.call(end, 5)).error_code == NONE


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("operation", [AclOperation.ALTER, AclOperation.CLUSTER_ACTION])
async def test_markers_are_written_for_brokers_and_admins(
    monkeypatch: pytest.MonkeyPatch, operation: AclOperation, version: int
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        marker = WritableTxnMarker(
            producer_id=1,
            producer_epoch=0,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[0, 1])],
            coordinator_epoch=0,
        )
        request = WriteTxnMarkersRequest(markers=[marker])

        async def errors() -> list[int]:
            answer = await alice.call(request, version)
            return [
                part.error_code
                for each in answer.markers
                for topic in each.topics
                for part in topic.partitions
            ]

        await allow(server, "alice", AclOperation.WRITE, TOPIC, "orders")
        assert await errors() == [CLUSTER_DENIED] * 2
        await allow(server, "alice", operation, CLUSTER)
        assert CLUSTER_DENIED not in await errors()
