"""OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit at all versions."""

from typing import Any

import pytest

from coordinator.broker.server import Server
from coordinator.security.core.acl import AclOperation
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.schema import ZERO_UUID
from tests.apis.authorized_clients import GROUP, TOPIC, TRANSACTIONAL_ID, admin_and_alice, allow, authorizing
from tests.broker.harness import Client

NONE, DENIED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED, UNKNOWN = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN_ID = b"\7" * 16


def id_of(server: Server, name: str) -> bytes:
    topic = server.data_plane.catalogue.find_topic(name)
    return UNKNOWN_ID if topic is None else topic.topic_id


def commit(server: Server, version: int, *names: str, group: str = "g") -> OffsetCommitRequest:
    """Of partition 0 of each topic."""
    topics = []
    for name in names:
        parts = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")]
        topic_id = id_of(server, name) if version >= 10 else ZERO_UUID
        topics.append(OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=parts))
    return OffsetCommitRequest(group_id=group, topics=topics)


def errors_of(server: Server, answer: Any, version: int) -> dict[str, int]:
    names = {id_of(server, name): name for name in ("orders", "secret")}
    return {
        names.get(topic.topic_id, "nowhere") if version >= 10 else topic.name: part.error_code
        for topic in answer.topics
        for part in topic.partitions
    }


@pytest.mark.parametrize("version", [0, 2, 5, 8, 9, 10])
async def test_a_commit_needs_the_group_then_each_topic(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    async with authorizing(monkeypatch) as server, Client(server, "alice") as alice:
        names = ("secret", "orders", "nowhere")

        async def errors(*asked: str) -> dict[str, int]:
            answer = await alice.call(commit(server, version, *asked), version)
            return errors_of(server, answer, version)

        await allow(server, "alice", AclOperation.READ, TOPIC, "orders")
        assert await errors(*names) == dict.fromkeys(names, GROUP_DENIED)
        await allow(server, "alice", AclOperation.READ, GROUP, "g")
        absent = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else DENIED
        assert await errors(*names) == {"secret": DENIED, "orders": NONE, "nowhere": absent}
        assert await errors("secret") == {"secret": DENIED}
        if version < 10:
            await allow(server, "alice", AclOperation.READ, TOPIC, "nowhere")
            assert (await errors(*names))["nowhere"] == UNKNOWN
        # Errors found before the group handles the request come first, in request order.
        assert list(await errors("orders", "nowhere", "secret")) == ["nowhere", "secret", "orders"]


@pytest.mark.parametrize("version", [0, 1, 2, 7])
async def test_offsets_of_one_group(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await admin.call(commit(server, 8, "secret", "orders"), 8)
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in ("secret", "orders")]
        request = OffsetFetchRequest(group_id="g", topics=topics)
        answer = await alice.call(request, version)
        if version < 2:
            parts = [part for topic in answer.topics for part in topic.partitions]
            assert [(part.error_code, part.committed_offset) for part in parts] == [(GROUP_DENIED, -1)] * 2
        else:
            assert (answer.error_code, answer.topics) == (GROUP_DENIED, [])
        await allow(server, "alice", AclOperation.DESCRIBE, GROUP, "g")
        await allow(server, "alice", AclOperation.DESCRIBE, TOPIC, "orders")
        answer = await alice.call(request, version)
        found = [(topic.name, part) for topic in answer.topics for part in topic.partitions]
        assert [(name, part.committed_offset, part.error_code) for name, part in found] == [
            ("orders", 5, NONE),
            ("secret", -1, DENIED),
        ]
        if version >= 2:
            answer = await alice.call(OffsetFetchRequest(group_id="g", topics=None), version)
            assert [topic.name for topic in answer.topics] == ["orders"]


@pytest.mark.parametrize("version", [8, 9, 10])
async def test_offsets_of_several_groups(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await admin.call(commit(server, 8, "secret", "orders"), 8)
        await admin.call(commit(server, 8, "orders", group="theirs"), 8)
        await allow(server, "alice", AclOperation.DESCRIBE, GROUP, "g")
        await allow(server, "alice", AclOperation.DESCRIBE, TOPIC, "orders")
        names = (["nowhere"] if version >= 10 else []) + ["secret", "orders"]
        topics = [
            OffsetFetchRequestTopics(
                name=name,
                topic_id=id_of(server, name) if version >= 10 else ZERO_UUID,
                partition_indexes=[0],
            )
            for name in names
        ]
        groups = [
            OffsetFetchRequestGroup(group_id="theirs", topics=topics),
            OffsetFetchRequestGroup(group_id="g", topics=topics),
            OffsetFetchRequestGroup(group_id="g", topics=None),
        ]
        answer = await alice.call(OffsetFetchRequest(groups=groups), version)
        denied, named, whole = answer.groups
        assert (denied.group_id, denied.error_code, denied.topics) == ("theirs", GROUP_DENIED, [])
        errors = errors_of(server, named, version)
        expected = {"orders": NONE, "secret": DENIED}
        if version >= 10:
            expected["nowhere"] = ErrorCode.UNKNOWN_TOPIC_ID
        assert errors == expected
        assert list(errors) == ["orders", *(name for name in names if name != "orders")]
        assert errors_of(server, whole, version) == {"orders": NONE}


async def test_deleting_offsets_needs_delete_on_the_group_and_read_on_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await admin.call(commit(server, 8, "secret", "orders"), 8)
        topics = [
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            for name in ("orders", "nowhere", "secret")
        ]
        request = OffsetDeleteRequest(group_id="g", topics=topics)
        answer = await alice.call(request, 0)
        assert (answer.error_code, answer.topics) == (GROUP_DENIED, [])
        await allow(server, "alice", AclOperation.DELETE, GROUP, "g")
        await allow(server, "alice", AclOperation.READ, TOPIC, "orders", "nowhere")
        answer = await alice.call(request, 0)
        assert answer.error_code == NONE
        errors = errors_of(server, answer, 0)
        assert list(errors.items()) == [("nowhere", UNKNOWN), ("secret", DENIED), ("orders", NONE)]
        fetched = await admin.call(OffsetFetchRequest(group_id="g", topics=None), 7)
        assert [topic.name for topic in fetched.topics] == ["secret"]


@pytest.mark.parametrize("version", [0, 3, 5])
async def test_a_commit_in_a_transaction_needs_the_id_the_group_and_topics(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    async with authorizing(monkeypatch) as server, Client(server, "alice") as alice:
        parts = [
            TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        ]
        topics = [TxnOffsetCommitRequestTopic(name=name, partitions=parts) for name in ("orders", "secret")]
        request = TxnOffsetCommitRequest(
            transactional_id="pay", group_id="g", producer_id=1, producer_epoch=0, topics=topics
        )

        async def errors() -> list[int]:
            answer = await alice.call(request, version)
            return [part.error_code for topic in answer.topics for part in topic.partitions]

        assert await errors() == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
        await allow(server, "alice", AclOperation.WRITE, TRANSACTIONAL_ID, "pay")
        assert await errors() == [GROUP_DENIED] * 2
        await allow(server, "alice", AclOperation.READ, GROUP, "g")
        assert await errors() == [DENIED] * 2
        await allow(server, "alice", AclOperation.READ, TOPIC, "orders")
        refused, answered = await errors()
        assert refused == DENIED
        assert answered not in (NONE, DENIED)  # there is no such transaction
