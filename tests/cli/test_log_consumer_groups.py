"""`groupd log` shows the records of consumer groups field by field."""

from pathlib import Path
from typing import Any

import pytest

from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol.records.group_record_schemas import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    PartitionRacks,
    TargetTopicPartitions,
    TopicMetadata,
)
from storage.record import Record
from storage.topic_partition import uuid_to_text
from tests.cli.log_directory import OFFSETS, fact, json_lines, log, write_data_directory

TOPIC_ID = bytes(range(16))
ORDERS_ID = uuid_to_text(TOPIC_ID)
SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(topics=["orders"]), 0)
OF_GROUP, OF_MEMBER = {"group": "g"}, {"group": "g", "member_id": "m"}
NOON_MS = 1_700_000_000_000

FACTS: list[tuple[Any, Any, dict[str, Any], dict[str, Any], list[str]]] = [
    (
        ConsumerGroupMetadataKey(group_id="g"),
        ConsumerGroupMetadataValue(epoch=7, metadata_hash=-5),
        {"type": 3, **OF_GROUP},
        {"epoch": 7, "metadata_hash": -5},
        ["consumer_group_metadata group=g epoch=7 metadata_hash=-5"],
    ),
    (
        ConsumerGroupPartitionMetadataKey(group_id="g"),
        ConsumerGroupPartitionMetadataValue(
            topics=[
                TopicMetadata(
                    topic_id=TOPIC_ID,
                    topic_name="orders",
                    num_partitions=2,
                    partition_metadata=[PartitionRacks(partition=0, racks=["a"])],
                )
            ]
        ),
        {"type": 4, **OF_GROUP},
        {
            "topics": [
                {
                    "topic_id": ORDERS_ID,
                    "topic_name": "orders",
                    "num_partitions": 2,
                    "partition_metadata": [{"partition": 0, "racks": ["a"]}],
                }
            ]
        },
        ["group=g topics=[orders:2]"],
    ),
    (
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id="r 1",
            client_id="c",
            client_host="/h",
            subscribed_topic_names=["orders", "a,b"],
            subscribed_topic_regex="",
            rebalance_timeout_ms=45_000,
            server_assignor="range",
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=6000,
                supported_protocols=[
                    ClassicProtocol(name="range", metadata=SUBSCRIPTION),
                    ClassicProtocol(name="odd", metadata=b"\1"),
                ],
            ),
        ),
        {"type": 5, **OF_MEMBER},
        {
            "instance_id": None,
            "rack_id": "r 1",
            "client_id": "c",
            "client_host": "/h",
            "subscribed_topic_names": ["orders", "a,b"],
            "subscribed_topic_regex": "",
            "rebalance_timeout_ms": 45_000,
            "server_assignor": "range",
            "classic_member_metadata": {
                "session_timeout_ms": 6000,
                "supported_protocols": [
                    {
                        "name": "range",
                        "subscription": {
                            "version": 0,
                            "topics": ["orders"],
                            "owned_partitions": [],
                            "generation_id": -1,
                            "rack_id": None,
                            "user_data": None,
                        },
                    },
                    {"name": "odd", "subscription": {"hex": "01"}},
                ],
            },
        },
        ["member_id=m instance_id=null", 'rack_id="r 1"', "range(orders)", "odd(0x01)", '[orders, "a,b"]'],
    ),
    (
        ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=7, assignment_timestamp=NOON_MS),
        {"type": 6, **OF_GROUP},
        {"assignment_epoch": 7, "assignment_timestamp": NOON_MS},
        ["group=g assignment_epoch=7 assignment_timestamp=2023-11-14T22:13:20.000Z"],
    ),
    (
        ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TargetTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 2])]
        ),
        {"type": 7, **OF_MEMBER},
        {"topic_partitions": [{"topic_id": ORDERS_ID, "partitions": [0, 2]}]},
        [f"topic_partitions=[{ORDERS_ID}-0, {ORDERS_ID}-2]"],
    ),
    (
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=7,
            previous_member_epoch=6,
            state=1,
            assigned_partitions=[
                CurrentTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1], assignment_epochs=[3, 7])
            ],
            partitions_pending_revocation=[CurrentTopicPartitions(topic_id=TOPIC_ID, partitions=[4])],
        ),
        {"type": 8, **OF_MEMBER},
        {
            "member_epoch": 7,
            "previous_member_epoch": 6,
            "state": 1,
            "state_name": "UNREVOKED_PARTITIONS",
            "assigned_partitions": [
                {"topic_id": ORDERS_ID, "partitions": [0, 1], "assignment_epochs": [3, 7]}
            ],
            "partitions_pending_revocation": [
                {"topic_id": ORDERS_ID, "partitions": [4], "assignment_epochs": None}
            ],
        },
        [
            "member_epoch=7 previous_member_epoch=6",
            "state=UNREVOKED_PARTITIONS",
            f"assigned_partitions=[{ORDERS_ID}-0@3, {ORDERS_ID}-1@7]",
            f"partitions_pending_revocation=[{ORDERS_ID}-4]",
        ],
    ),
    (
        ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="ord.*"),
        ConsumerGroupRegularExpressionValue(topics=["orders"], version=9, timestamp=NOON_MS),
        {"type": 16, **OF_GROUP, "regular_expression": "ord.*"},
        {"topics": ["orders"], "version": 9, "timestamp": NOON_MS},
        ['group=g regular_expression="ord.*" topics=[orders]', "timestamp=2023-11-14T22:13:20.000Z"],
    ),
]


def write(path: Path, records: list[Record]) -> Path:
    write_data_directory(path / "data", {OFFSETS: [records]})
    return path / "data"


@pytest.mark.parametrize("case", FACTS, ids=lambda case: type(case[0]).__name__)
def test_every_field_of_a_record_is_shown(case: Any, tmp_path: Path) -> None:
    key, value, key_fields, fields, words = case
    path = write(tmp_path, [fact(key, value, version=0), fact(key, None)])
    record, tombstone = json_lines(log("dump", path, "--json"))
    assert record["key"] == tombstone["key"] == key_fields
    assert record["value"] == {"version": 0, **fields}
    assert (tombstone["value"], tombstone["tombstone"]) == (None, True)
    assert "error" not in record
    text, deleted = log("dump", path).stdout.splitlines()
    assert all(part in text for part in words), text
    assert deleted.endswith("<DELETE>")


def test_an_invalid_value_is_shown_as_bytes_with_the_reason(tmp_path: Path) -> None:
    whole = fact(*FACTS[5][:2], version=0)
    assert whole.value is not None
    (line,) = json_lines(log("dump", write(tmp_path, [whole._replace(value=whole.value[:5])]), "--json"))
    assert line["key"] == {"type": 8, **OF_MEMBER}
    assert line["error"]
    assert line["value"] == {"version": 0, "hex": whole.value[:5].hex()}


def test_filters_and_statistics_know_them(tmp_path: Path) -> None:
    path = write(tmp_path, [fact(key, value, version=0) for key, value, *_ in FACTS])
    kinds = [line["key"]["type"] for line in json_lines(log("dump", path, "--json", "--topic", "orders"))]
    assert kinds == [4, 5, 16]
    assert len(json_lines(log("dump", path, "--json", "--group", "g"))) == len(FACTS)
    assert "consumer_group_regular_expression" in log("stats", path).stdout
    assert log("verify", path).exit_code == 0
