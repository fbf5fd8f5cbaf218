"""Records of `__consumer_offsets`: bytes as Kafka writes them, types that are not ours, damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.primitives import Malformed
from protocol.records.group_record_schemas import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    TargetTopicPartitions,
)
from protocol.records.group_record_serde import (
    Key,
    UnknownKey,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.protocol.declared import examples

OFFSET_KEY = OffsetCommitKey(group="grp", topic="foo", partition=0)
GROUP_KEY = GroupMetadataKey(group="grp")
TIME = 1700000000000
TIME_HEX = "0000018bcfe56800"
MEMBER = MemberMetadata(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/h",
    rebalance_timeout=2,
    session_timeout=1,
    subscription=b"\1",
    assignment=b"\2",
)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (OFFSET_KEY, "0001 0003 677270 0003 666f6f 00000000"),
        (GROUP_KEY, "0002 0003 677270"),
    ],
)
def test_keys(key: Key, text: str) -> None:
    assert encode_key(key) == bytes.fromhex(text)
    assert decode_key(bytes.fromhex(text)) == key


def test_the_oldest_type_of_offset_key_is_read() -> None:
    assert decode_key(bytes.fromhex("0000 0003 677270 0003 666f6f 00000000")) == OFFSET_KEY


OFFSETS = {
    0: (
        OffsetCommitValue(offset=100, metadata="m", commit_timestamp=TIME),
        f"0000 0000000000000064 0001 6d {TIME_HEX}",
    ),
    1: (
        OffsetCommitValue(offset=100, metadata="m", commit_timestamp=TIME, expire_timestamp=TIME),
        f"0001 0000000000000064 0001 6d {TIME_HEX} {TIME_HEX}",
    ),
    2: (
        OffsetCommitValue(offset=100, metadata="m", commit_timestamp=TIME),
        f"0002 0000000000000064 0001 6d {TIME_HEX}",
    ),
    3: (
        OffsetCommitValue(offset=100, leader_epoch=5, metadata="", commit_timestamp=TIME),
        f"0003 0000000000000064 00000005 0000 {TIME_HEX}",
    ),
    4: (
        OffsetCommitValue(
            offset=100, leader_epoch=5, metadata="", commit_timestamp=TIME, topic_id=bytes(range(16))
        ),
        f"0004 0000000000000064 00000005 01 {TIME_HEX} 01 00 10 000102030405060708090a0b0c0d0e0f",
    ),
}


@pytest.mark.parametrize("version", OFFSETS)
def test_offset_values(version: int) -> None:
    value, text = OFFSETS[version]
    data = bytes.fromhex(text)
    assert encode_value(value, version) == data
    assert decode_value(OFFSET_KEY, data) == value


def test_an_empty_group() -> None:
    value = GroupMetadataValue(
        protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=TIME, members=[]
    )
    data = bytes.fromhex(f"0003 0000 00000000 ffff ffff {TIME_HEX} 00000000")
    assert encode_value(value, 3) == data
    assert decode_value(GROUP_KEY, data) == value


HEAD = "0001 70 00000004 0001 61 0001 6d"
GROUPS = {
    0: f"0000 {HEAD} 00000001 0001 6d 0001 63 0002 2f68 00000001 00000001 01 00000001 02",
    1: f"0001 {HEAD} 00000001 0001 6d 0001 63 0002 2f68 00000002 00000001 00000001 01 00000001 02",
    2: f"0002 {HEAD} {TIME_HEX} 00000001 0001 6d 0001 63 0002 2f68 00000002 00000001 00000001 01 00000001 02",
    3: f"0003 {HEAD} {TIME_HEX} 00000001 0001 6d 0001 69 0001 63 0002 2f68 00000002 00000001 "
    "00000001 01 00000001 02",
    4: f"0004 0270 00000004 0261 026d {TIME_HEX} 02 026d 0269 0263 032f68 00000002 00000001 0201 0202 00 00",
}


@pytest.mark.parametrize("version", GROUPS)
def test_a_group_with_a_member(version: int) -> None:
    data = bytes.fromhex(GROUPS[version])
    value = GroupMetadataValue(
        protocol_type="p",
        generation=4,
        protocol="a",
        leader="m",
        current_state_timestamp=TIME,
        members=[MEMBER],
    )
    assert encode_value(value, version) == data
    read = decode_value(GROUP_KEY, data)
    assert isinstance(read, GroupMetadataValue)
    assert encode_value(read, version) == data
    (member,) = read.members
    assert member.rebalance_timeout == (-1 if version == 0 else 2)
    assert member.group_instance_id == ("i" if version >= 3 else None)
    assert read.current_state_timestamp == (TIME if version >= 2 else -1)


@pytest.mark.parametrize("record_type", [9, 10, 17, 24, 32767, -1])
def test_types_of_other_groups_are_kept_as_they_are(record_type: int) -> None:
    data = record_type.to_bytes(2, "big", signed=True) + b"whatever"
    assert decode_key(data) == UnknownKey(record_type, data)


@pytest.mark.parametrize("text", ["", "00", "0001", "0001 0003 677270", "0002 0003 677270 00", "0002 ffff"])
def test_a_damaged_key(text: str) -> None:
    with pytest.raises(Malformed):
        decode_key(bytes.fromhex(text))


@pytest.mark.parametrize("key", [OFFSET_KEY, GROUP_KEY], ids=["offset", "group"])
@pytest.mark.parametrize(
    "text", ["", "00", "0005 00000000", "ffff 00000000", "0003", "0003 0000000000000064 00"]
)
def test_a_damaged_value_or_one_of_a_version_to_come(key: Key, text: str) -> None:
    with pytest.raises(Malformed):
        decode_value(key, bytes.fromhex(text))


@examples(300)
@given(data=st.binary(max_size=50), version=st.integers(0, 5), key=st.sampled_from([OFFSET_KEY, GROUP_KEY]))
def test_any_bytes_are_a_value_or_malformed(data: bytes, version: int, key: Key) -> None:
    try:
        value: Value = decode_value(key, version.to_bytes(2, "big") + data)
    except Malformed:
        return
    assert decode_value(key, encode_value(value, version)) == value


ID = bytes(7) + b"\1" + bytes(7) + b"\2"
ID_HEX = ID.hex()
MEMBER_KEY = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
HEAD_OF_MEMBER = "0000 00 00 06 70726f6265 0b 2f3132372e302e302e31 02 04 666f6f 01 0000ea60 00"


def member_value(classic: ClassicMemberMetadata | None) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="probe",
        client_host="/127.0.0.1",
        subscribed_topic_names=["foo"],
        subscribed_topic_regex="",
        rebalance_timeout_ms=60_000,
        server_assignor=None,
        classic_member_metadata=classic,
    )


CLASSIC = ClassicMemberMetadata(
    session_timeout_ms=5, supported_protocols=[ClassicProtocol(name="range", metadata=b"\1\2")]
)
CONSUMER_GROUPS: list[tuple[Key, Value, str]] = [
    (MEMBER_KEY, member_value(None), f"{HEAD_OF_MEMBER} 01 00 01 00"),
    (
        MEMBER_KEY,
        member_value(CLASSIC),
        f"{HEAD_OF_MEMBER} 01 00 11 01 00000005 02 06 72616e6765 03 0102 00 00",
    ),
    (
        ConsumerGroupMetadataKey(group_id="g"),
        ConsumerGroupMetadataValue(epoch=2, metadata_hash=-1),
        "0000 00000002 01 00 08 ffffffffffffffff",
    ),
    (
        ConsumerGroupMetadataKey(group_id="g"),
        ConsumerGroupMetadataValue(epoch=5),
        "0000 00000005 00",
    ),
    (
        ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=2, assignment_timestamp=TIME),
        f"0000 00000002 01 00 08 {TIME_HEX}",
    ),
    (
        ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TargetTopicPartitions(topic_id=ID, partitions=[0, 1, 2])]
        ),
        f"0000 02 {ID_HEX} 04 00000000 00000001 00000002 00 00",
    ),
    (
        ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=[]),
        "0000 01 00",
    ),
    (
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=2,
            previous_member_epoch=0,
            state=0,
            assigned_partitions=[
                CurrentTopicPartitions(topic_id=ID, partitions=[0, 1, 2], assignment_epochs=[2, 2, 2])
            ],
            partitions_pending_revocation=[],
        ),
        f"0000 0000000200000000 00 02 {ID_HEX} 04 000000000000000100000002 01000d 04 000000020000000200000002 0100",
    ),
    (
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=2,
            previous_member_epoch=0,
            state=0,
            assigned_partitions=[],
            partitions_pending_revocation=[],
        ),
        "0000 00000002 00000000 00 01 01 00",
    ),
    (
        ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="fo+"),
        ConsumerGroupRegularExpressionValue(topics=["foo"], version=7, timestamp=TIME),
        f"0000 02 04 666f6f 0000000000000007 {TIME_HEX} 00",
    ),
]


@pytest.mark.parametrize(("key", "value", "text"), CONSUMER_GROUPS)
def test_records_of_consumer_groups_are_those_of_a_broker(key: Key, value: Value, text: str) -> None:
    """A member of the consumer protocol has a null that is written: Kafka's schema has another default there."""
    data = bytes.fromhex(text)
    assert encode_value(value, 0) == data
    assert decode_value(key, data) == value
    assert decode_key(encode_key(key)) == key
