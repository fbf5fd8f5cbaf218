from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.outcome import Fact
from coordinator.group.durable_groups import DurableGroups
from coordinator.group.group_record_codec import (
    GroupRecordCodec,
    compute_key_size,
    compute_value_size,
    encode_offset,
)
from protocol.records.group_record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    CurrentTopicPartitions,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TargetTopicPartitions,
)
from protocol.records.group_record_serde import (
    OFFSET_COMMIT,
    RECORD_TYPES,
    SERVED_TYPES,
    TYPES_BY_NUMBER,
    decode_value,
    encode_key,
    encode_value,
)

INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
NAMES = st.sampled_from(["", "g", "orders", "日本"])
VALUES = st.builds(
    OffsetCommitValue,
    offset=INT64,
    leader_epoch=INT32,
    metadata=st.one_of(st.just(""), st.text(max_size=20), st.text("ab", min_size=120, max_size=135)),
    commit_timestamp=INT64,
    topic_id=st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16)),
)


@given(VALUES)
def test_an_offset_has_the_bytes_that_the_codec_gives_it(value: OffsetCommitValue) -> None:
    assert encode_offset(value) == encode_value(value, 4)


@given(
    st.lists(st.tuples(NAMES, NAMES, st.integers(0, 3), VALUES, st.sampled_from([0, 2, 3, 4]), st.booleans()))
)
def test_records_have_the_bytes_that_the_codec_gives_them(
    commits: list[tuple[str, str, int, OffsetCommitValue, int, bool]],
) -> None:
    encode = GroupRecordCodec().encoder()
    for group, topic, partition, value, version, is_tombstone in commits:
        key = OffsetCommitKey(group=group, topic=topic, partition=partition)
        record = encode(Fact(key, None if is_tombstone else value, version))
        assert record.key == encode_key(key)
        assert record.value == (None if is_tombstone else encode_value(value, version))


@given(NAMES, NAMES, VALUES, st.sampled_from([0, 1, 2, 3, 4]))
def test_the_sizes_of_an_offset_are_those_of_its_bytes(
    group: str, topic: str, value: OffsetCommitValue, version: int
) -> None:
    fact = Fact(OffsetCommitKey(group=group, topic=topic, partition=7), value, version)
    assert compute_key_size(fact.key) == len(encode_key(fact.key))
    assert compute_value_size(fact) == len(encode_value(value, version))


def test_metadata_of_groups_goes_through_the_codec() -> None:
    key = GroupMetadataKey(group="g")
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol="range", leader="m", members=[]
    )
    record = GroupRecordCodec().encode(Fact(key, value, 3))
    assert (record.key, record.value) == (encode_key(key), encode_value(value, 3))


EXPIRING = st.builds(
    OffsetCommitValue, offset=INT64, metadata=NAMES, commit_timestamp=INT64, expire_timestamp=INT64
)


@given(VALUES | EXPIRING)
def test_a_value_is_written_in_a_version_that_has_all_it_says(value: OffsetCommitValue) -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    version = OFFSET_COMMIT.find_value_version(value)
    assert decode_value(key, encode_value(value, version)) == value
    # Like Kafka, groupd writes the lowest version that can hold all fields.
    assert version == (1 if value.expire_timestamp != -1 else 4 if value.topic_id != bytes(16) else 3)


def test_every_type_that_is_served_has_one_store_and_no_number_belongs_to_two() -> None:
    stored = [kind for store in DurableGroups().stores for kind in store.record_types]
    assert len(stored) == len(SERVED_TYPES)
    assert set(stored) == set(SERVED_TYPES)
    assert len(TYPES_BY_NUMBER) == sum(len(kind.numbers) for kind in RECORD_TYPES)


def test_states_of_earlier_versions_are_read_on() -> None:
    """The content name of a state file must not change: a file with another name is not loaded."""
    assert GroupRecordCodec().contents == "groups, of record types 0 to 8, 16"


def test_a_key_from_before_0_9_is_the_same_key() -> None:
    codec = GroupRecordCodec()
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=0))
    assert codec.canonical_key(key) == codec.canonical_key(b"\0\0" + key[2:]) == key
    assert codec.canonical_key(b"\0\x0a" + key[2:]) is None


NUMBERS = st.integers(0, 300).map(lambda count: list(range(count)))
IDS = st.binary(min_size=16, max_size=16)
TARGETS = st.builds(
    ConsumerGroupTargetAssignmentMemberValue,
    topic_partitions=st.lists(
        st.builds(TargetTopicPartitions, topic_id=IDS, partitions=NUMBERS), max_size=140
    ),
)
OWNED = st.lists(
    st.builds(
        CurrentTopicPartitions, topic_id=IDS, partitions=NUMBERS, assignment_epochs=st.none() | NUMBERS
    ),
    max_size=140,
)
CURRENT = st.builds(
    ConsumerGroupCurrentMemberAssignmentValue,
    member_epoch=INT32,
    previous_member_epoch=INT32,
    state=st.sampled_from([0, 1, 2]),
    assigned_partitions=OWNED,
    partitions_pending_revocation=OWNED,
)


@settings(max_examples=30)
@given(TARGETS)
def test_the_size_of_a_target_is_that_of_its_bytes(value: ConsumerGroupTargetAssignmentMemberValue) -> None:
    fact = Fact(ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"), value)
    assert compute_value_size(fact) == len(encode_value(value, 0))


@settings(max_examples=30)
@given(CURRENT)
def test_the_size_of_an_assignment_is_that_of_its_bytes(
    value: ConsumerGroupCurrentMemberAssignmentValue,
) -> None:
    fact = Fact(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), value)
    assert compute_value_size(fact) == len(encode_value(value, 0))
