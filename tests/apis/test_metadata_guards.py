"""Metadata, DescribeTopicPartitions, DescribeCluster: visible, rejected and hidden topics."""

from typing import Any

import pytest

from coordinator.security.core.acl import AclOperation
from protocol.error_codes import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.schema import ZERO_UUID
from tests.apis.authorized_clients import CLUSTER, TOPIC, admin_and_alice, allow, authorizing
from tests.broker.harness import Client

NONE, DENIED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
OPERATIONS_NOT_REQUESTED = -(2**31)


def named(*names: str, creates: bool = False, operations: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=creates,
        include_topic_authorized_operations=operations,
    )


def errors(answer: Any) -> list[tuple[str, int]]:
    return [(topic.name, topic.error_code) for topic in answer.topics]


def bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


@pytest.mark.parametrize("version", [0, 1, 4, 9, 12, 13])
async def test_refused_topics_come_last_whether_they_exist_or_not(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.READ, TOPIC, "orders", "absent")
        answer = await alice.call(named("secret", "orders", "nowhere", "absent"), version)
        may_not_create = UNKNOWN if version >= 4 else DENIED  # older versions always want them created
        shown, *refused = answer.topics
        assert (shown.name, shown.error_code, len(shown.partitions)) == ("orders", NONE, 3)
        assert sorted((topic.name, topic.error_code) for topic in refused) == [
            ("absent", may_not_create),
            ("nowhere", DENIED),
            ("secret", DENIED),
        ]
        for topic in refused:
            assert (topic.topic_id, topic.is_internal, topic.partitions) == (ZERO_UUID, False, [])
        answer = await alice.call(named("secret", "secret"), version)
        assert errors(answer) == [("secret", DENIED)]
        assert len(answer.brokers) == 1


@pytest.mark.parametrize("version", [0, 1, 9, 12])
async def test_of_all_topics_those_that_may_not_be_described_are_missing(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        request = MetadataRequest(topics=[] if version == 0 else None)
        assert (await alice.call(request, version)).topics == []
        await allow(server, "alice", AclOperation.DESCRIBE, TOPIC, "orders")
        assert errors(await alice.call(request, version)) == [("orders", NONE)]
        assert {"orders", "secret"} <= dict(errors(await admin.call(request, version))).keys()


async def test_by_id_a_refused_topic_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.DESCRIBE, TOPIC, "orders")
        catalogue = server.data_plane.catalogue
        orders, secret = catalogue.find_topic("orders"), catalogue.find_topic("secret")
        assert orders is not None
        assert secret is not None
        unknown = b"\7" * 16
        ids = (secret.topic_id, orders.topic_id, unknown)
        request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id) for topic_id in ids])
        answer = await alice.call(request, 12)
        found = {topic.topic_id: (topic.name, topic.error_code) for topic in answer.topics}
        assert found == {
            orders.topic_id: ("orders", NONE),
            secret.topic_id: (None, DENIED),
            unknown: (None, ErrorCode.UNKNOWN_TOPIC_ID),
        }


async def test_a_topic_is_created_by_asking_for_who_may_create_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.DESCRIBE, TOPIC, "one", "two", "three")
        await allow(server, "alice", AclOperation.CREATE, TOPIC, "one")
        answer = await alice.call(named("hidden", "two", "one", creates=True), 9)
        assert errors(answer) == [("one", NONE), ("two", DENIED), ("hidden", DENIED)]
        assert server.data_plane.catalogue.find_topic("two") is None
        await allow(server, "alice", AclOperation.CREATE, CLUSTER)
        answer = await alice.call(named("hidden", "two", creates=True), 9)
        assert errors(answer) == [("two", NONE), ("hidden", DENIED)]
        assert errors(await alice.call(named("three"), 9)) == [("three", UNKNOWN)]


async def test_who_may_not_create_is_told_that_there_is_none_where_none_are_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    properties = {"auto.create.topics.enable": "false"}
    async with admin_and_alice(monkeypatch, properties) as (server, _, alice):
        await allow(server, "alice", AclOperation.DESCRIBE, TOPIC, "two")
        assert errors(await alice.call(named("two", creates=True), 9)) == [("two", UNKNOWN)]


async def test_what_may_be_done_is_told_to_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await allow(server, "alice", AclOperation.WRITE, TOPIC, "orders")
        request = named("orders", "secret", operations=True)
        request.include_cluster_authorized_operations = True
        answer = await alice.call(request, 9)
        orders, secret = answer.topics
        assert orders.topic_authorized_operations == bits(AclOperation.WRITE, AclOperation.DESCRIBE)
        assert secret.topic_authorized_operations == OPERATIONS_NOT_REQUESTED
        assert answer.cluster_authorized_operations == 0
        await allow(server, "alice", AclOperation.DESCRIBE, CLUSTER)
        assert (await alice.call(request, 9)).cluster_authorized_operations == bits(AclOperation.DESCRIBE)
        answer = await admin.call(request, 9)
        assert answer.topics[0].topic_authorized_operations == 0xDF8
        assert answer.cluster_authorized_operations == 0x1F20 | 1 << AclOperation.ALTER
        answer = await alice.call(named("orders"), 9)
        assert answer.topics[0].topic_authorized_operations == OPERATIONS_NOT_REQUESTED


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_everybody_may_know_the_brokers(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answer = await alice.call(request, version)
        assert (answer.error_code, len(answer.brokers)) == (NONE, 1)
        assert answer.cluster_authorized_operations == 0
        await allow(server, "alice", AclOperation.ALTER, CLUSTER)
        answer = await alice.call(request, version)
        assert answer.cluster_authorized_operations == bits(AclOperation.ALTER, AclOperation.DESCRIBE)


async def test_pages_of_topics_are_of_those_that_may_be_described(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [(name, 2) for name in ("a", "b", "c", "d")]
    async with authorizing(monkeypatch, topics=topics) as server, Client(server, "alice") as alice:
        request = DescribeTopicPartitionsRequest(topics=[])
        assert (await alice.call(request, 0)).topics == []
        await allow(server, "alice", AclOperation.READ, TOPIC, "a", "c")
        answer = await alice.call(request, 0)
        assert errors(answer) == [("a", NONE), ("c", NONE)]
        allowed = bits(AclOperation.READ, AclOperation.DESCRIBE)
        assert [topic.topic_authorized_operations for topic in answer.topics] == [allowed] * 2
        asked = [TopicRequest(name=name) for name in ("d", "c", "b", "a")]
        answer = await alice.call(DescribeTopicPartitionsRequest(topics=asked), 0)
        assert errors(answer) == [("a", NONE), ("c", NONE), ("b", DENIED), ("d", DENIED)]
        # A page continues after hidden topics.
        request = DescribeTopicPartitionsRequest(
            topics=[], cursor=Cursor(topic_name="b", partition_index=1), response_partition_limit=1
        )
        answer = await alice.call(request, 0)
        assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("c", 1)]
        assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("c", 1)
        request = DescribeTopicPartitionsRequest(
            topics=asked, cursor=Cursor(topic_name="b", partition_index=1)
        )
        assert errors(await alice.call(request, 0)) == [("c", NONE), ("b", DENIED), ("d", DENIED)]
