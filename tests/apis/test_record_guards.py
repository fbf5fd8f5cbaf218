"""Authorization of Produce, Fetch and other partition requests."""

import asyncio
from typing import Any

import pytest

from coordinator.broker.server import Server
from coordinator.security.core.acl import AclOperation
from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.schema import ZERO_UUID
from storage.batch import encode_batch
from storage.record import Record
from tests.apis.authorized_clients import (
    CLUSTER,
    TOPIC,
    TRANSACTIONAL_ID,
    acl,
    admin_and_alice,
    allow,
    change,
)
from tests.broker.harness import Client
from tests.topics.transacting import transactional

NONE, DENIED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN, UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
NOBODYS_ID = b"\7" * 16
VALUE = encode_batch([Record(-1, 1_700_000_000_000, None, b"hello")])
TIMEOUT_S = 60


def id_of(server: Server, name: str) -> bytes:
    topic = server.data_plane.catalogue.find_topic(name)
    return NOBODYS_ID if topic is None else topic.topic_id


def produce(
    server: Server,
    version: int,
    *names: str,
    acks: int = -1,
    records: bytes = VALUE,
    transactional_id: str | None = None,
) -> ProduceRequest:
    data = [
        TopicProduceData(
            name=name,
            topic_id=id_of(server, name) if version >= 13 else ZERO_UUID,
            partition_data=[PartitionProduceData(index=0, records=records)],
        )
        for name in names
    ]
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=data)


def produced(server: Server, answer: Any, version: int) -> list[tuple[str, int, int]]:
    names = {id_of(server, name): name for name in ("orders", "secret")}
    return [
        (
            names.get(topic.topic_id, "nowhere") if version >= 13 else topic.name,
            part.error_code,
            part.base_offset,
        )
        for topic in answer.responses
        for part in topic.partition_responses
    ]


@pytest.mark.parametrize("version", [3, 7, 9, 12, 13])
async def test_produce_needs_write_on_each_topic(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.WRITE, TOPIC, "orders")
        request = produce(server, version, "secret", "orders", "nowhere")
        found = produced(server, await alice.call(request, version), version)
        assert found[0] == ("orders", NONE, 0)
        absent = UNKNOWN_ID if version >= 13 else DENIED
        assert sorted(found[1:]) == sorted([("secret", DENIED, -1), ("nowhere", absent, -1)])
        found = produced(server, await alice.call(produce(server, version, "secret"), version), version)
        assert found == [("secret", DENIED, -1)]


async def test_a_transactional_id_alone_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.WRITE, TOPIC, "orders")
        request = produce(server, 9, "orders", transactional_id="pay")
        assert produced(server, await alice.call(request, 9), 9) == [("orders", NONE, 0)]
        records = transactional(1, 0, 0, time_ms=1_700_000_000_000)
        request = produce(server, 9, "orders", "secret", records=records, transactional_id="pay")
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert [each[1] for each in produced(server, await alice.call(request, 9), 9)] == [refused] * 2
        await allow(server, "alice", AclOperation.WRITE, TRANSACTIONAL_ID, "pay")
        errors = [each[1] for each in produced(server, await alice.call(request, 9), 9)]
        assert errors[-1] == DENIED
        assert errors[0] not in (DENIED, refused)


@pytest.mark.parametrize("names", [("secret",), ("secret", "orders")])
async def test_who_wants_no_answer_is_told_by_the_end_of_the_connection(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await allow(server, "alice", AclOperation.WRITE, TOPIC, "orders")
        alice.send(produce(server, 9, *names, acks=0), 9)
        assert await alice.closed()
        ends = [await end_of(admin, name) for name in ("orders", "secret")]
        assert ends == [len(names) - 1, 0]
        async with Client(server, "alice") as again:
            again.send(produce(server, 9, "orders", acks=0), 9)
            again.send(fetch(server, 11, "orders"), 11)
            assert int.from_bytes((await again.receive_frame())[:4], "big") == 2  # of the second request


async def end_of(client: Client, name: str) -> int:
    part = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[part])])
    answer = await client.call(request, 5)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def fetch(
    server: Server, version: int, *names: str, session_id: int = 0, epoch: int = -1, max_wait_ms: int = 0
) -> FetchRequest:
    topics = [
        FetchTopic(
            topic=name,
            topic_id=id_of(server, name) if version >= 13 else ZERO_UUID,
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)],
        )
        for name in names
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=topics
    )


def fetched(server: Server, answer: Any, version: int) -> dict[str, tuple[int, bool]]:
    names = {id_of(server, name): name for name in ("orders", "secret")}
    return {
        names.get(topic.topic_id, "nowhere") if version >= 13 else topic.topic: (
            part.error_code,
            bool(part.records),
        )
        for topic in answer.responses
        for part in topic.partitions
    }


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 17])
async def test_fetch_needs_read_on_each_topic(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await admin.call(produce(server, 9, "orders", "secret"), 9)
        await allow(server, "alice", AclOperation.READ, TOPIC, "orders")
        answer = await alice.call(fetch(server, version, "secret", "orders", "nowhere"), version)
        absent = UNKNOWN_ID if version >= 13 else DENIED
        assert fetched(server, answer, version) == {
            "orders": (NONE, True),
            "secret": (DENIED, False),
            "nowhere": (absent, False),
        }
        refused = [
            part for topic in answer.responses for part in topic.partitions if part.error_code == DENIED
        ]
        assert all(part.high_watermark == -1 for part in refused)
        # Nothing to wait for: the answer comes at once.
        request = fetch(server, version, "secret", max_wait_ms=60_000)
        assert fetched(server, await alice.call(request, version), version) == {"secret": (DENIED, False)}


@pytest.mark.parametrize("version", [11, 13])
async def test_a_session_is_looked_at_each_time(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await admin.call(produce(server, 9, "orders", "secret"), 9)
        await allow(server, "alice", AclOperation.READ, TOPIC, "orders")
        answer = await alice.call(fetch(server, version, "orders", "secret", epoch=0), version)
        session_id = answer.session_id
        assert session_id
        for epoch in (1, 2):  # each rejection reports the error
            request = fetch(server, version, session_id=session_id, epoch=epoch)
            found = fetched(server, await alice.call(request, version), version)
            assert found["secret"] == (DENIED, False)
        await allow(server, "alice", AclOperation.READ, TOPIC, "secret")
        await change(server, removed=[acl("alice", AclOperation.READ, TOPIC, "orders")])
        request = fetch(server, version, session_id=session_id, epoch=3)
        found = fetched(server, await alice.call(request, version), version)
        assert found == {"secret": (NONE, True), "orders": (DENIED, False)}


async def test_a_fetch_waits_for_what_it_may_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await allow(server, "alice", AclOperation.READ, TOPIC, "orders")
        alice.send(fetch(server, 11, "orders", "secret", max_wait_ms=60_000), 11)
        answer = asyncio.ensure_future(alice.receive())
        await admin.call(produce(server, 9, "secret"), 9)
        assert not answer.done()
        await admin.call(produce(server, 9, "orders"), 9)
        found = fetched(server, await asyncio.wait_for(answer, TIMEOUT_S), 11)
        assert found == {"orders": (NONE, True), "secret": (DENIED, False)}


async def test_what_a_follower_fetches_needs_cluster_action(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.READ, TOPIC, "orders")
        request = fetch(server, 11, "orders")
        request.replica_id = 2
        assert fetched(server, await alice.call(request, 11), 11) == {"orders": (DENIED, False)}


@pytest.mark.parametrize("version", [0, 1, 5, 9])
async def test_offsets_are_told_of_topics_that_may_be_described(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.DESCRIBE, TOPIC, "orders")
        topics = [
            ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
            for name in ("secret", "orders", "nowhere")
        ]
        answer = await alice.call(ListOffsetsRequest(replica_id=-1, topics=topics), version)
        assert [(topic.name, topic.partitions[0].error_code) for topic in answer.topics] == [
            ("orders", NONE),
            ("secret", DENIED),
            ("nowhere", DENIED),
        ]


async def test_epochs_are_told_of_topics_that_may_be_described_and_of_all_to_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.DESCRIBE, TOPIC, "orders")
        topics = [
            OffsetForLeaderTopic(
                topic=name, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)]
            )
            for name in ("secret", "orders")
        ]
        request = OffsetForLeaderEpochRequest(topics=topics)
        answer = await alice.call(request, 4)
        assert [(topic.topic, topic.partitions[0].error_code) for topic in answer.topics] == [
            ("orders", NONE),
            ("secret", DENIED),
        ]
        await allow(server, "alice", AclOperation.CLUSTER_ACTION, CLUSTER)
        answer = await alice.call(request, 4)
        assert {topic.partitions[0].error_code for topic in answer.topics} == {NONE}


async def test_records_are_deleted_where_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await admin.call(produce(server, 9, "orders", "secret"), 9)
        await allow(server, "alice", AclOperation.DELETE, TOPIC, "orders")
        topics = [
            DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
            for name in ("secret", "orders")
        ]
        answer = await alice.call(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
        found = [(topic.name, part) for topic in answer.topics for part in topic.partitions]
        assert sorted((name, part.error_code, part.low_watermark) for name, part in found) == [
            ("orders", NONE, 1),
            ("secret", DENIED, -1),
        ]


async def test_producers_are_described_where_reading_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.READ, TOPIC, "orders")
        topics = [
            DescribeProducersTopicRequest(name=name, partition_indexes=[0])
            for name in ("secret", "orders", "nowhere")
        ]
        answer = await alice.call(DescribeProducersRequest(topics=topics), 0)
        assert [(topic.name, topic.partitions[0].error_code) for topic in answer.topics] == [
            ("secret", DENIED),
            ("orders", NONE),
            ("nowhere", DENIED),
        ]
