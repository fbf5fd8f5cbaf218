"""Fills a daemon with objects that make elements of requests expensive: topics with many partitions, groups with
many members, offsets, open transactions, producers and ACLs.
"""

import asyncio
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from coordinator.core.clock import wall_ms
from protocol.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from storage.batch import encode_batch
from storage.record import Record
from tests.hostile.attacks.field_values import (
    SESSION_TIMEOUT_MS,
    DaemonState,
    MemberIdentity,
    ProducerIdentity,
)
from tests.hostile.siege.attacker import Attacker, Hostile, frame

OPTIONS: Final = (
    *("-o", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    *("-o", "allow.everyone.if.no.acl.found=true"),
    *("-o", "group.initial.rebalance.delay.ms=0"),
    *("-o", "group.consumer.assignment.interval.ms=0"),
    *("-o", "group.consumer.max.session.timeout.ms=1800000"),
    *("-o", "group.consumer.session.timeout.ms=1800000"),
)
"""Of a daemon that is filled: members do not expire on a busy machine, and every element is authorized by ACLs."""
TRANSACTION_TIMEOUT_MS: Final = 900_000
WIDE: Final = "wide"
CROWD: Final = "crowd"
CONSUMERS: Final = "consumers"
_NOT_READY: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""The answers of a transaction coordinator before its topic is created and loaded."""
_IN_FLIGHT: Final = 200
_POLL_INTERVAL_S: Final = 0.05
TRANSACTION: Final = 1
"""The type of key of a FindCoordinator that searches for a transaction coordinator."""
_CLUSTER_NAME: Final = "kafka-cluster"
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = 2, 3, 4, 5
_ALL, _READ, _ALLOW, _LITERAL, _PREFIXED = 2, 3, 3, 3, 4
_CRC_AT, _CHECKED_FROM, _PRODUCER_ID_AT = 17, 21, 43


class StateSize(NamedTuple):
    """How many objects a daemon is filled with."""

    topics: int
    wide_partitions: int
    """Of the first topic; the others have two."""
    groups: int
    """Empty groups with offsets."""
    members: int
    """Of the classic group, and half as many of the consumer group."""
    transactions: int
    producers: int
    acls: int


SAMPLE_STATE: Final = StateSize(40, 300, 200, 16, 4, 100, 60)
EXTENDED_STATE: Final = StateSize(100, 1_000, 600, 40, 10, 500, 300)
LARGEST_STATE: Final = StateSize(2_000, 9_000, 20_000, 300, 100, 10_000, 5_000)


async def fill_daemon(attacker: Attacker, size: StateSize) -> DaemonState:
    """Create all objects; return their names."""
    client = await attacker.connect()
    state = DaemonState()
    await _create_acls(client, state, size)
    await _create_topics(client, state, size)
    await _commit_offsets(client, state, size)
    await _fill_classic_group(attacker, state, size)
    await _fill_consumer_group(client, state, size)
    await _open_transactions(client, state, size)
    await _write_producers(client, size)
    return state


async def _create_acls(client: Hostile, state: DaemonState, size: StateSize) -> None:
    """Allow everything to everybody by the last of many rules."""
    names = {_TOPIC: "*", _GROUP: "*", _CLUSTER: _CLUSTER_NAME, _TRANSACTIONAL_ID: "*"}
    rules = [_rule(kind, name, "User:ANONYMOUS", _ALL) for kind, name in names.items()]
    state.acl_resources = [f"resource-{number}" for number in range(size.acls)]
    rules += [_rule(_TOPIC, name, "User:mallory", _READ, _PREFIXED) for name in state.acl_resources]
    answer = await client.call(CreateAclsRequest(creations=rules), 3)
    assert {result.error_code for result in answer.results} == {ErrorCode.NONE}


def _rule(kind: int, name: str, principal: str, operation: int, pattern: int = _LITERAL) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=_ALLOW,
    )


async def _create_topics(client: Hostile, state: DaemonState, size: StateSize) -> None:
    state.topics = [WIDE, *(f"topic-{number}" for number in range(size.topics))]
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=size.wide_partitions if name == WIDE else 2,
            replication_factor=-1,
            assignments=[],
            configs=[],
        )
        for name in state.topics
    ]
    answer = await client.call(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.NONE}
    metadata = await client.call(MetadataRequest(topics=None), 12)
    state.topic_ids = {topic.name: topic.topic_id for topic in metadata.topics}
    state.broker_id = metadata.brokers[0].node_id


async def _commit_offsets(client: Hostile, state: DaemonState, size: StateSize) -> None:
    """Offsets of empty groups on some topics, and of the classic group on every partition of the wide topic."""
    state.groups = [CROWD, *(f"group-{number}" for number in range(size.groups))]
    some = [_offsets(name, 1) for name in state.topics[1:4]]
    requests = [OffsetCommitRequest(group_id=name, topics=some) for name in state.groups[1:]]
    requests.append(OffsetCommitRequest(group_id=CROWD, topics=[_offsets(WIDE, size.wide_partitions)]))
    await _call_all(client, requests, 2)


def _offsets(topic: str, partitions: int) -> OffsetCommitRequestTopic:
    numbers = range(partitions)
    return OffsetCommitRequestTopic(
        name=topic,
        partitions=[OffsetCommitRequestPartition(partition_index=n, committed_offset=n) for n in numbers],
    )


async def _call_all(client: Hostile, requests: Sequence[Any], version: int) -> None:
    """Send requests, some at a time, and read their answers."""
    for start in range(0, len(requests), _IN_FLIGHT):
        some = requests[start : start + _IN_FLIGHT]
        await client.send(b"".join(frame(request, version) for request in some))
        for _ in some:
            assert await client.answer() is not None


async def _fill_classic_group(attacker: Attacker, state: DaemonState, size: StateSize) -> None:
    """Let all members join while the first one delays the rebalance; then let it join again."""
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=state.topics), 1)
    first, *others = [await attacker.connect() for _ in range(size.members)]
    leader = (await _join(first, CROWD, subscription)).member_id
    joins = [asyncio.ensure_future(_join(client, CROWD, subscription)) for client in others]
    members: list[Any] = []
    while len(members) < size.members:
        description = await first.call(DescribeGroupsRequest(groups=[CROWD]), 4)
        members = description.groups[0].members
    joined = [await _join(first, CROWD, subscription, leader), *await asyncio.gather(*joins)]
    assert {answer.error_code for answer in joined} == {ErrorCode.NONE}
    state.members = [answer.member_id for answer in joined]
    plan = [SyncGroupRequestAssignment(member_id=member, assignment=subscription) for member in state.members]
    syncs = zip((first, *others), joined, strict=True)
    await asyncio.gather(*(_sync(client, answer, plan) for client, answer in syncs))


async def _join(client: Hostile, group_id: str, metadata: bytes, member_id: str = "") -> Any:
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    return await client.call(request, 3)


async def _sync(client: Hostile, joined: Any, plan: list[SyncGroupRequestAssignment]) -> None:
    request = SyncGroupRequest(
        group_id=CROWD,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=plan if joined.member_id == joined.leader else [],
    )
    answer = await client.call(request, 3)
    assert answer.error_code == ErrorCode.NONE


async def _fill_consumer_group(client: Hostile, state: DaemonState, size: StateSize) -> None:
    state.consumer_groups = [CONSUMERS, *(f"consumers-{number}" for number in range(size.groups // 50))]
    joins = [_first_heartbeat(CONSUMERS, f"m-{n}", state.topics) for n in range(size.members // 2)]
    joins += [_first_heartbeat(name, "m", state.topics[1:4]) for name in state.consumer_groups[1:]]
    await _call_all(client, joins, 1)


def _first_heartbeat(group_id: str, member_id: str, topics: list[str]) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        subscribed_topic_names=topics,
        topic_partitions=[],
    )


async def _open_transactions(client: Hostile, state: DaemonState, size: StateSize) -> None:
    # Kafka creates the topic of the transaction coordinator at the first search for it.
    search = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["transaction-0"])
    assert await client.call(search, 4) is not None
    for number in range(size.transactions):
        name = f"transaction-{number}"
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        answer = await client.call(request, 3)
        while answer.error_code in _NOT_READY:
            await asyncio.sleep(_POLL_INTERVAL_S)
            answer = await client.call(request, 3)
        assert answer.error_code == ErrorCode.NONE, answer
        state.producers.append(ProducerIdentity(name, answer.producer_id, answer.producer_epoch))
    partitions = list(range(size.wide_partitions))
    await _call_all(client, [_addition(producer, partitions) for producer in state.producers], 3)
    offsets = [_transactional_offsets(producer, partitions) for producer in state.producers]
    await _call_all(client, offsets, 3)


def _addition(producer: ProducerIdentity, partitions: list[int]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=WIDE, partitions=partitions)],
    )


def _transactional_offsets(producer: ProducerIdentity, partitions: list[int]) -> TxnOffsetCommitRequest:
    commits = [
        TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=1, committed_metadata="")
        for number in partitions
    ]
    return TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=CROWD,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=WIDE, partitions=commits)],
    )


async def _write_producers(client: Hostile, size: StateSize) -> None:
    """Write a batch of each idempotent producer into one partition."""
    batch = bytearray(encode_batch([Record(-1, wall_ms(), b"k", b"v")], producer_id=0, base_sequence=0))
    frames = []
    for producer_id in range(size.producers):
        struct.pack_into(">q", batch, _PRODUCER_ID_AT, 10**6 + producer_id)
        struct.pack_into(">I", batch, _CRC_AT, crc32c(batch[_CHECKED_FROM:]))
        data = [PartitionProduceData(index=0, records=bytes(batch))]
        topic = TopicProduceData(name=WIDE, partition_data=data)
        frames.append(frame(ProduceRequest(acks=0, timeout_ms=1000, topic_data=[topic]), 7))
    for start in range(0, len(frames), _IN_FLIGHT):
        await client.send(b"".join(frames[start : start + _IN_FLIGHT]))
        assert (await client.call(ListGroupsRequest(), 4)).error_code == ErrorCode.NONE


async def join_own_group(client: Hostile, group_id: str, *, is_consumer_group: bool) -> MemberIdentity:
    """Make a group with one member; a classic one still waits for its assignment."""
    if is_consumer_group:
        answer = await client.call(_first_heartbeat(group_id, "owner", []), 1)
        assert answer.error_code == ErrorCode.NONE, answer
        return MemberIdentity(group_id, answer.member_id, answer.member_epoch)
    answer = await _join(client, group_id, b"")
    assert answer.error_code == ErrorCode.NONE, answer
    return MemberIdentity(group_id, answer.member_id, answer.generation_id)
