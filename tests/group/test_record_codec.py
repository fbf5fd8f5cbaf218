from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.record_codec import GroupRecordCodec, encode_offset
from coordinator.machine.outcome import Fact
from protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
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


def test_metadata_of_groups_goes_through_the_codec() -> None:
    key = GroupMetadataKey(group="g")
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol="range", leader="m", members=[]
    )
    record = GroupRecordCodec().encode(Fact(key, value, 3))
    assert (record.key, record.value) == (encode_key(key), encode_value(value, 3))
