"""Long requests with another request at each of their checkpoints.

Each case runs with the other request before, after and at each checkpoint of the long request. The responses and
the final state must be those of one of the two orders.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import pytest

from coordinator.apis import authorization_rules, offset_handlers, request_task
from coordinator.broker.server import Server
from coordinator.core.time_budget import TimeBudget
from coordinator.network import request_routes
from coordinator.security.core.acl import AclOperation
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
    OffsetFetchRequestTopics,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.apis.authorized_clients import GROUP, TOPIC, TRANSACTIONAL_ID, acl, admin_and_alice, allow, change
from tests.broker.harness import Client, begin_producer, join_alone

TOPICS: Final = ("a", "b", "c")
GROUPS: Final = ("g", "h")
READ_ALL: Final = (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.DELETE)


class Stage(NamedTuple):
    """A server, an admin, a client with rights on the topics and groups of one run alone, and their names."""

    server: Server
    admin: Client
    alice: Client
    suffix: str
    member_id: str
    """The only member of group `h`."""
    generation: int
    producer: dict[str, Any]
    """The fields of requests that name a transactional producer, once it has begun."""

    def name(self, base: str) -> str:
        return base + self.suffix

    def topic_id(self, base: str) -> bytes:
        topic = self.server.data_plane.catalogue.find_topic(self.name(base))
        return b"\7" * 16 if topic is None else topic.topic_id

    async def delete_topic(self) -> None:
        """Delete the second topic."""
        deleted = await self.admin.call(DeleteTopicsRequest(topic_names=[self.name("b")], timeout_ms=1000), 3)
        assert [each.error_code for each in deleted.responses] == [ErrorCode.NONE]

    async def revoke_topic(self) -> None:
        """Take the rights on the second topic away from alice."""
        acls = [acl("alice", operation, TOPIC, self.name("b")) for operation in READ_ALL]
        await change(self.server, removed=acls)

    async def leave_group(self) -> None:
        """Let the member leave the second group."""
        leave = LeaveGroupRequest(group_id=self.name("h"), members=[MemberIdentity(member_id=self.member_id)])
        assert (await self.admin.call(leave, 4)).error_code == ErrorCode.NONE

    async def fetch_offsets(self) -> object:
        """Return the committed offsets of both groups, when no transaction is open there."""
        groups = [OffsetFetchRequestGroup(group_id=self.name(group), topics=None) for group in GROUPS]
        while True:
            fetched = await self.admin.call(OffsetFetchRequest(groups=groups, require_stable=True), 8)
            errors = {
                part.error_code for group in fetched.groups for t in group.topics for part in t.partitions
            }
            if ErrorCode.UNSTABLE_OFFSET_COMMIT not in errors:
                return fetched
            await asyncio.sleep(0.01)

    async def list_topics(self) -> object:
        """Return which of the topics exist."""
        return [self.server.data_plane.catalogue.find_topic(self.name(base)) is not None for base in TOPICS]


Action = Callable[[Stage], Awaitable[object]]


class Case(NamedTuple):
    """A long request, the other request, and the state that both leave."""

    request: Callable[[Stage], tuple[Any, int]]
    other: Action
    observe: Action = Stage.fetch_offsets
    prepare: Action | None = None


class Interruption:
    """Runs another request at one checkpoint, while the request that has the checkpoint waits."""

    def __init__(self) -> None:
        self._other: Callable[[], Awaitable[object]] | None = None
        self._left = 0

    def set(self, checkpoint: int, other: Callable[[], Awaitable[object]]) -> None:
        self._left, self._other = checkpoint, other

    def clear(self) -> bool:
        """Return whether the checkpoint came, and forget it."""
        was_due, self._other = self._other is None, None
        return was_due

    async def checkpoint(self) -> None:
        if self._other is None:
            return
        if self._left:
            self._left -= 1
            return
        other, self._other = self._other, None
        await asyncio.ensure_future(other())


@pytest.fixture
def interruption(monkeypatch: pytest.MonkeyPatch) -> Interruption:
    made = Interruption()
    monkeypatch.setattr(TimeBudget, "checkpoint", lambda _: made.checkpoint())
    monkeypatch.setattr(authorization_rules, "ELEMENTS_PER_STEP", 1)
    monkeypatch.setattr(offset_handlers, "MAX_TOPICS_PER_PART", 1)
    for module in (offset_handlers, request_task):
        monkeypatch.setattr(module, "MAX_PARTITIONS_PER_STEP", 1)
    monkeypatch.setattr(request_routes, "MAX_INLINE_ELEMENTS", 1)  # every request is a large one
    return made


def offset_commit(stage: Stage, version: int = 8) -> tuple[Any, int]:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topics = [
        OffsetCommitRequestTopic(name=stage.name(base), topic_id=stage.topic_id(base), partitions=[part])
        for base in TOPICS
    ]
    return OffsetCommitRequest(group_id=stage.name("g"), topics=topics), version


def member_commit(stage: Stage) -> tuple[Any, int]:
    request, version = offset_commit(stage)
    request.group_id = stage.name("h")
    request.member_id, request.generation_id_or_member_epoch = stage.member_id, stage.generation
    return request, version


def offset_fetch(stage: Stage, version: int = 8, fetched_groups: Sequence[str] = GROUPS) -> tuple[Any, int]:
    topics = [
        OffsetFetchRequestTopics(
            name=stage.name(base), topic_id=stage.topic_id(base), partition_indexes=[0, 1]
        )
        for base in TOPICS
    ]
    groups = [OffsetFetchRequestGroup(group_id=stage.name(group), topics=topics) for group in fetched_groups]
    return OffsetFetchRequest(groups=groups), version


def offset_delete(stage: Stage) -> tuple[Any, int]:
    part = OffsetDeleteRequestPartition(partition_index=0)
    topics = [OffsetDeleteRequestTopic(name=stage.name(base), partitions=[part]) for base in TOPICS]
    return OffsetDeleteRequest(group_id=stage.name("g"), topics=topics), 0


async def begin_transaction(stage: Stage) -> None:
    begun = await begin_producer(stage.admin, stage.name("t"))
    stage.producer.update(
        transactional_id=stage.name("t"), producer_id=begun.producer_id, producer_epoch=begun.producer_epoch
    )


async def begin_offsets(stage: Stage) -> None:
    await begin_transaction(stage)
    added = AddOffsetsToTxnRequest(**stage.producer, group_id=stage.name("g"))
    assert (await stage.admin.call(added, 3)).error_code == ErrorCode.NONE


def txn_offset_commit(stage: Stage) -> tuple[Any, int]:
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=9, committed_metadata="")
    topics = [TxnOffsetCommitRequestTopic(name=stage.name(base), partitions=[part]) for base in TOPICS]
    return TxnOffsetCommitRequest(**stage.producer, group_id=stage.name("g"), topics=topics), 3


async def commit_and_fetch(stage: Stage) -> object:
    ended = await stage.admin.call(EndTxnRequest(**stage.producer, committed=True), 3)
    assert ended.error_code == ErrorCode.NONE
    return await stage.fetch_offsets()


def add_partitions(stage: Stage) -> tuple[Any, int]:
    request = {f"v3_and_below_{key}": value for key, value in stage.producer.items()}
    topics = [AddPartitionsToTxnTopic(name=stage.name(base), partitions=[0, 1]) for base in TOPICS]
    return AddPartitionsToTxnRequest(**request, v3_and_below_topics=topics), 3


def delete_groups(stage: Stage) -> tuple[Any, int]:
    return DeleteGroupsRequest(groups_names=[stage.name(group) for group in GROUPS]), 2


def describe_groups(stage: Stage) -> tuple[Any, int]:
    return DescribeGroupsRequest(groups=[stage.name(group) for group in GROUPS]), 5


def metadata(stage: Stage) -> tuple[Any, int]:
    topics = [MetadataRequestTopic(name=stage.name(base)) for base in TOPICS]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9


def describe_all_topics(_: Stage) -> tuple[Any, int]:
    return DescribeTopicPartitionsRequest(topics=[], response_partition_limit=100), 0


CASES: Final = {
    "OffsetCommit, a topic is deleted": Case(offset_commit, Stage.delete_topic),
    "OffsetCommit by id, a topic is deleted": Case(
        lambda stage: offset_commit(stage, 10), Stage.delete_topic
    ),
    "OffsetCommit, a right is revoked": Case(offset_commit, Stage.revoke_topic),
    "OffsetCommit, the member leaves": Case(member_commit, Stage.leave_group),
    "OffsetFetch, a topic is deleted": Case(offset_fetch, Stage.delete_topic),
    # As in Kafka, each group is read by itself: after a deletion, one may still have the topic and another may not.
    "OffsetFetch by id, a topic is deleted": Case(
        lambda stage: offset_fetch(stage, 10, ["g"]), Stage.delete_topic
    ),
    "OffsetFetch, a right is revoked": Case(offset_fetch, Stage.revoke_topic),
    "OffsetDelete, a topic is deleted": Case(offset_delete, Stage.delete_topic),
    "OffsetDelete, a right is revoked": Case(offset_delete, Stage.revoke_topic),
    "TxnOffsetCommit, a topic is deleted": Case(
        txn_offset_commit, Stage.delete_topic, commit_and_fetch, begin_offsets
    ),
    "AddPartitionsToTxn, a topic is deleted": Case(
        add_partitions, Stage.delete_topic, Stage.list_topics, begin_transaction
    ),
    "AddPartitionsToTxn, a right is revoked": Case(
        add_partitions, Stage.revoke_topic, Stage.list_topics, begin_transaction
    ),
    "DeleteGroups, the member leaves": Case(delete_groups, Stage.leave_group),
    "DescribeGroups, the member leaves": Case(describe_groups, Stage.leave_group),
    "Metadata, a topic is deleted": Case(metadata, Stage.delete_topic, Stage.list_topics),
    "DescribeTopicPartitions, a topic is deleted": Case(
        describe_all_topics, Stage.delete_topic, Stage.list_topics
    ),
}


class CaseRunner:
    """Runs cases on one server, each on topics and groups of its own."""

    def __init__(self, server: Server, admin: Client, alice: Client) -> None:
        self._server = server
        self._admin = admin
        self._alice = alice
        self._numbers = count(100)

    async def set_up(self, case: Case) -> Stage:
        suffix = f"-{next(self._numbers)}"
        topics = [MetadataRequestTopic(name=base + suffix) for base in TOPICS]
        await self._admin.call(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9)
        for operation in READ_ALL:
            await allow(self._server, "alice", operation, TOPIC, *(base + suffix for base in TOPICS))
            await allow(self._server, "alice", operation, GROUP, *(base + suffix for base in GROUPS))
            await allow(self._server, "alice", operation, TRANSACTIONAL_ID, "t" + suffix)
        member_id, generation = await join_alone(self._admin, "h" + suffix)
        stage = Stage(self._server, self._admin, self._alice, suffix, member_id, generation, {})
        request, version = offset_commit(stage)
        await self._admin.call(request, version)
        if case.prepare is not None:
            await case.prepare(stage)
        return stage

    async def run(self, case: Case, *, order: str, interruption: Interruption, at: int = 0) -> str:
        """Return the response and the final state of one run, without names and ids."""
        stage = await self.set_up(case)
        request, version = case.request(stage)
        ids = {stage.topic_id(base): base for base in TOPICS}
        if order == "before":
            await case.other(stage)
        elif order == "during":
            interruption.set(at, lambda: case.other(stage))
        response = await stage.alice.call(request, version)
        was_interrupted = interruption.clear()
        if order == "during" and not was_interrupted:
            return ""
        if order == "after":
            await case.other(stage)
        seen = repr((response, await case.observe(stage)))
        for topic_id, base in ids.items():
            seen = seen.replace(repr(topic_id), base)
        seen = seen.replace(stage.suffix, "").replace(stage.member_id, "member")
        for base in TOPICS:
            await self._admin.call(DeleteTopicsRequest(topic_names=[base + stage.suffix], timeout_ms=1000), 3)
        return seen


@pytest.mark.parametrize("name", CASES)
async def test_what_a_client_sees_is_that_of_one_of_the_two_orders(
    monkeypatch: pytest.MonkeyPatch, interruption: Interruption, name: str
) -> None:
    case = CASES[name]
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        runner = CaseRunner(server, admin, alice)
        before = await runner.run(case, order="before", interruption=interruption)
        after = await runner.run(case, order="after", interruption=interruption)
        assert before != after, "the other request matters"
        for at in count():
            during = await runner.run(case, order="during", interruption=interruption, at=at)
            if not during:
                break
            assert during in (before, after), f"at checkpoint {at}"
        assert at >= 2, "the request has checkpoints"
