"""Messages as bytes that were written down by hand from the protocol's definition, never by our encoder."""

from typing import Any

import pytest

from protocol import codec, reference_codec
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.records.transaction_state import TransactionLogKey, TransactionLogValue, TransactionPartitions

UUID = bytes(range(16))
UUID_HEX = UUID.hex()

KNOWN: dict[str, tuple[Any, int, str]] = {
    "all topics, before null could say so": (MetadataRequest(topics=[]), 0, "00000000"),
    "all topics": (MetadataRequest(topics=None), 1, "ffffffff"),
    "all topics, flexible": (MetadataRequest(topics=None), 12, "00 01 00 00"),
    "a join before anything optional": (
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\1\2")],
        ),
        0,
        "0001 67 00002710 0000 0008 636f6e73756d6572 00000001 0005 72616e6765 00000002 0102",
    ),
    "a join with everything": (
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10000,
            rebalance_timeout_ms=300000,
            member_id="m",
            group_instance_id="i",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\1\2")],
            reason="why",
        ),
        9,
        "02 67 00002710 000493e0 02 6d 02 69 09 636f6e73756d6572 02 06 72616e6765 03 0102 00 04 776879 00",
    ),
    "the answer to a follower": (
        JoinGroupResponse(error_code=0, generation_id=2, protocol_name="range", leader="a", member_id="b"),
        9,
        "00000000 0000 00000002 00 06 72616e6765 02 61 00 02 62 01 00",
    ),
    "the newest ApiVersions request": (
        ApiVersionsRequest(client_software_name="a", client_software_version="1", cluster_id="c", node_id=1),
        5,
        "02 61 02 31 02 63 00000001 00",
    ),
    "the newest ApiVersions response, with two tags": (
        ApiVersionsResponse(
            error_code=0,
            api_keys=[ApiVersion(api_key=18, min_version=0, max_version=5)],
            supported_features=[SupportedFeatureKey(name="f", min_version=0, max_version=1)],
            finalized_features_epoch=9,
        ),
        5,
        "0000 02 0012 0000 0005 00 00000000 02 00 08 02 02 66 0000 0001 00 01 08 0000000000000009",
    ),
    "the newest DeleteGroups request": (DeleteGroupsRequest(groups_names=["g"]), 3, "02 02 67 00"),
    "the newest DeleteGroups response": (
        DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g", error_code=68, error_message="x")]),
        3,
        "00000000 02 02 67 0044 02 78 00 00",
    ),
    "the newest AlterPartitionReassignments request: one moves, one is cancelled": (
        AlterPartitionReassignmentsRequest(
            timeout_ms=1,
            allow_replication_factor_change=False,
            topics=[
                ReassignableTopic(
                    name="t",
                    partitions=[
                        ReassignablePartition(partition_index=3, replicas=[2]),
                        ReassignablePartition(partition_index=4),
                    ],
                )
            ],
        ),
        1,
        "00000001 00 02 02 74 03 00000003 02 00000002 00 00000004 00 00 00 00",
    ),
    "the newest AlterPartitionReassignments response": (
        AlterPartitionReassignmentsResponse(
            error_code=0,
            error_message=None,
            responses=[
                ReassignableTopicResponse(
                    name="t",
                    partitions=[
                        ReassignablePartitionResponse(partition_index=3, error_code=39, error_message="x")
                    ],
                )
            ],
        ),
        1,
        "00000000 01 0000 00 02 02 74 02 00000003 0027 02 78 00 00 00",
    ),
    "an election of all preferred leaders": (
        ElectLeadersRequest(topic_partitions=None),
        2,
        "00 00 0000ea60 00",
    ),
    "a page from a cursor": (
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="t")], cursor=Cursor(topic_name="t", partition_index=5)
        ),
        0,
        "02 02 74 00 000007d0 01 02 74 00000005 00 00",
    ),
    "a page from the start": (
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]),
        0,
        "02 02 74 00 000007d0 ff 00",
    ),
    "a fetch with tags at every level": (
        FetchRequest(
            cluster_id="c",
            replica_state=ReplicaState(replica_id=4),
            max_wait_ms=500,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic_id=UUID,
                    partitions=[
                        FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=16, high_watermark=1)
                    ],
                )
            ],
        ),
        18,
        "000001f4 00000001 7fffffff 00 00000000 ffffffff 02 "
        + UUID_HEX
        + " 02 00000000 ffffffff 0000000000000003 ffffffff ffffffffffffffff 00000010 01 01 08 0000000000000001 00"
        + " 01 01 02 00 02 02 63 01 0d 00000004 ffffffffffffffff 00",
    ),
    "a produce of a null batch by topic id": (
        ProduceRequest(
            acks=-1,
            timeout_ms=1,
            topic_data=[TopicProduceData(topic_id=UUID, partition_data=[PartitionProduceData(index=0)])],
        ),
        13,
        f"00 ffff 00000001 02 {UUID_HEX} 02 00000000 00 00 00 00",
    ),
    "the newest TxnOffsetCommit request": (
        TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            producer_id=7,
            producer_epoch=1,
            generation_id_or_member_epoch=2,
            member_id="m",
            topics=[
                TxnOffsetCommitRequestTopic(
                    topic_id=UUID,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=3, committed_offset=9, committed_metadata="x"
                        )
                    ],
                )
            ],
        ),
        6,
        "02 74 02 67 0000000000000007 0001 00000002 02 6d 00 02 "
        + UUID_HEX
        + " 02 00000003 0000000000000009 ffffffff 02 78 00 00 00",
    ),
    "the newest TxnOffsetCommit response": (
        TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    topic_id=UUID,
                    partitions=[TxnOffsetCommitResponsePartition(partition_index=3, error_code=120)],
                )
            ]
        ),
        6,
        f"00000000 02 {UUID_HEX} 02 00000003 0078 00 00 00",
    ),
    "whose transaction it is": (TransactionLogKey(transactional_id="t"), 0, "0001 74"),
    "an empty transaction before tags": (
        TransactionLogValue(
            producer_id=7,
            producer_epoch=0,
            transaction_timeout_ms=60000,
            transaction_status=0,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=2,
            transaction_start_timestamp_ms=-1,
        ),
        0,
        "0000000000000007 0000 0000ea60 00 ffffffff 0000000000000002 ffffffffffffffff",
    ),
    "a transaction with every tag": (
        TransactionLogValue(
            producer_id=7,
            producer_epoch=32767,
            transaction_timeout_ms=60000,
            transaction_status=2,
            transaction_partitions=[TransactionPartitions(topic="o", partition_ids=[1])],
            transaction_last_update_timestamp_ms=2,
            transaction_start_timestamp_ms=1,
            previous_producer_id=7,
            next_producer_id=8,
            client_transaction_version=2,
            next_producer_epoch=3,
        ),
        1,
        (
            "0000000000000007 7fff 0000ea60 02 02 02 6f 02 00000001 00 0000000000000002 0000000000000001"
            " 04 00 08 0000000000000007 01 08 0000000000000008 02 02 0002 03 02 0003"
        ),
    ),
}


@pytest.mark.parametrize("what", KNOWN)
def test_known_bytes(what: str) -> None:
    message, version, text = KNOWN[what]
    data = bytes.fromhex(text)
    assert codec.encode(message, version).hex() == data.hex()
    assert codec.decode(type(message), version, data) == message
    assert reference_codec.encode(message, version).hex() == data.hex()
    assert reference_codec.decode(type(message), version, data) == message


def test_a_long_string_takes_two_bytes_of_length() -> None:
    request = DeleteGroupsRequest(groups_names=["x" * 127, "y" * 126])
    assert codec.encode(request, 2) == b"\x03" + b"\x80\x01" + b"x" * 127 + b"\x7f" + b"y" * 126 + b"\x00"


def test_what_a_version_cannot_say_is_left_out() -> None:
    newest = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1,
        rebalance_timeout_ms=2,
        member_id="m",
        group_instance_id="i",
        protocol_type="p",
        protocols=[],
        reason="r",
    )
    oldest = codec.decode(JoinGroupRequest, 0, codec.encode(newest, 0))
    assert oldest == JoinGroupRequest(
        group_id="g", session_timeout_ms=1, member_id="m", protocol_type="p", protocols=[]
    )
