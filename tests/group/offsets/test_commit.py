import pytest

from coordinator.group.event_details import RefusedOffset
from coordinator.group.group_event_types import CommitRefused, OffsetsCommitted, SimpleGroupCreated
from coordinator.group.group_record_codec import compute_batch_size
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.records.group_record_schemas import OffsetCommitKey, OffsetCommitValue
from protocol.records.group_record_serde import encode_key, encode_value
from protocol.schema import ZERO_UUID
from storage import record as storage_record
from storage.batch import encode_batch
from tests.group.ask import named
from tests.group.config import group_config
from tests.group.coordinator import GROUP, START, Coordinator
from tests.group.stories import new_generation, stable_group

TOPIC_ID = bytes(range(16))


def test_a_commit_is_recorded_and_can_be_fetched() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    error = coordinator.commit(member, 1, partition=3, offset=42, metadata="note", leader_epoch=5)
    assert error is ErrorCode.NONE
    record = coordinator.records[-1]
    assert record.key == OffsetCommitKey(group=GROUP, topic="foo", partition=3)
    assert record.value == OffsetCommitValue(
        offset=42, leader_epoch=5, metadata="note", commit_timestamp=coordinator.now.wall_ms
    )
    assert record.value_version == 3
    assert coordinator.fetch() == {("foo", 3): (42, 5, "note")}
    assert coordinator.find_events(OffsetsCommitted) == [OffsetsCommitted(GROUP, member, 1)]


def test_a_later_commit_wins_even_with_a_smaller_offset() -> None:
    coordinator = Coordinator()
    coordinator.commit(offset=10)
    coordinator.commit(offset=-5)
    assert coordinator.fetch() == {("foo", 0): (-5, -1, "")}


def test_no_metadata_is_stored_as_none_at_all() -> None:
    coordinator = Coordinator()
    coordinator.commit(metadata=None)
    assert coordinator.fetch() == {("foo", 0): (7, -1, "")}


def test_a_simple_consumer_creates_its_group_without_a_record_of_it() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    assert len(coordinator.records) == 1
    assert coordinator.find_events(SimpleGroupCreated) == [SimpleGroupCreated(GROUP)]
    described = coordinator.describe()
    assert (described.group_state, described.protocol_type) == ("Empty", "")


def test_the_empty_group_id_may_hold_offsets() -> None:
    coordinator = Coordinator()
    assert coordinator.commit(group="") is ErrorCode.NONE
    assert coordinator.fetch(group="") == {("foo", 0): (7, -1, "")}


def test_in_an_empty_group_a_commit_without_generation_is_anyones() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    assert coordinator.commit("whoever", instance="whatever") is ErrorCode.NONE


@pytest.mark.parametrize("version", range(11))
def test_a_generation_of_a_group_that_is_not_there_is_an_error_of_the_group_from_version_9(
    version: int,
) -> None:
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert Coordinator().commit("m", 1, version=version) is expected


def test_a_refused_commit_stores_nothing_and_says_why() -> None:
    coordinator = Coordinator()
    leader, _ = new_generation(coordinator)
    assert coordinator.commit(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.fetch() == {}
    assert coordinator.find_events(CommitRefused) == [
        CommitRefused(
            GROUP,
            1,
            named(leader),
            ErrorCode.REBALANCE_IN_PROGRESS,
            "CompletingRebalance",
            None,
            partitions=1,
            offsets=(RefusedOffset("foo", 0, 7, None),),
        )
    ]


def test_an_error_of_the_group_stands_on_every_partition() -> None:
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=0) for index in (4, 5)]
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=3,
        member_id="m",
        topics=[
            OffsetCommitRequestTopic(name="a", topic_id=TOPIC_ID, partitions=partitions),
            OffsetCommitRequestTopic(name="b", partitions=[]),
        ],
    )
    response = Coordinator().send(request, 9).answer(OffsetCommitResponse)
    assert [(topic.name, topic.topic_id) for topic in response.topics] == [
        ("a", TOPIC_ID),
        ("b", bytes(16)),
    ]
    assert [(one.partition_index, one.error_code) for one in response.topics[0].partitions] == [
        (4, 69),
        (5, 69),
    ]


def test_too_long_a_text_is_refused_by_itself_and_counted_in_utf_16_units() -> None:
    coordinator = Coordinator(group_config(offset_metadata_max_bytes=4))
    for metadata, error in (
        ("abcd", ErrorCode.NONE),
        ("abcde", ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("éééé", ErrorCode.NONE),
        ("😀😀", ErrorCode.NONE),
        ("😀😀x", ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ):
        assert coordinator.commit(metadata=metadata) is error
    assert coordinator.fetch() == {("foo", 0): (7, -1, "😀😀")}
    request = OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequestTopic(
                name="foo",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=1, committed_offset=1, committed_metadata="12345"
                    ),
                    OffsetCommitRequestPartition(partition_index=2, committed_offset=2),
                ],
            )
        ],
    )
    response = coordinator.send(request, 9).answer(OffsetCommitResponse)
    assert [one.error_code for one in response.topics[0].partitions] == [12, 0]
    assert coordinator.fetch({"foo": [1, 2]}) == {("foo", 1): (-1, -1, ""), ("foo", 2): (2, -1, "")}


def test_a_commit_timestamp_of_version_1_is_kept() -> None:
    coordinator = Coordinator()
    coordinator.commit(version=1, commit_timestamp=123)
    value = coordinator.records[-1].value
    assert isinstance(value, OffsetCommitValue)
    assert value.commit_timestamp == 123


def test_a_retention_time_of_the_clients_own_is_written_in_the_older_form() -> None:
    coordinator = Coordinator()
    coordinator.commit(version=4, retention_time_ms=1_000, leader_epoch=3, topic_id=TOPIC_ID)
    record = coordinator.records[-1]
    assert record.value_version == 1
    assert record.value == OffsetCommitValue(
        offset=7, metadata="", commit_timestamp=START.wall_ms, expire_timestamp=START.wall_ms + 1_000
    )


def test_the_id_of_the_topic_is_written_where_it_is_known() -> None:
    coordinator = Coordinator()
    coordinator.commit(topic_id=TOPIC_ID)
    record = coordinator.records[-1]
    assert isinstance(record.value, OffsetCommitValue)
    assert (record.value_version, record.value.topic_id) == (4, TOPIC_ID)


def test_without_partitions_there_is_nothing_to_answer() -> None:
    coordinator = Coordinator()
    request = OffsetCommitRequest(group_id=GROUP, topics=[])
    assert coordinator.send(request, 9).answer(OffsetCommitResponse).topics == []
    assert coordinator.records == []


def test_offsets_too_large_for_a_batch_of_the_log_are_all_refused() -> None:
    coordinator = Coordinator(group_config(message_max_bytes=500))
    assert coordinator.commit(metadata="x" * 500) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.records == []
    assert coordinator.fetch() == {}
    assert coordinator.commit(metadata="x" * 300) is ErrorCode.NONE


@pytest.mark.parametrize("topic_id", [ZERO_UUID, TOPIC_ID])
@pytest.mark.parametrize("metadata", ["", "x", "é" * 40])
def test_a_commit_of_many_offsets_is_refused_above_the_size_of_its_batch(
    metadata: str, topic_id: bytes
) -> None:
    request = OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=number, committed_offset=1, committed_metadata=metadata
                    )
                    for number in range(100)
                ],
            )
        ],
    )
    unbounded = Coordinator()
    unbounded.send(request, 10)
    size = compute_batch_size(unbounded.records)
    for limit, error in ((size, ErrorCode.NONE), (size - 1, ErrorCode.UNKNOWN_SERVER_ERROR)):
        coordinator = Coordinator(group_config(message_max_bytes=limit))
        (topic,) = coordinator.send(request, 10).answer(OffsetCommitResponse).topics
        assert {partition.error_code for partition in topic.partitions} == {error}
        assert len(coordinator.records) == (0 if error else 100)


def test_the_bound_is_the_size_of_the_batch_in_the_log() -> None:
    coordinator = Coordinator()
    coordinator.commit(metadata="é" * 40, topic_id=TOPIC_ID)
    record = coordinator.records[-1]
    assert record.value is not None
    stored = storage_record.Record(
        0, 0, encode_key(record.key), encode_value(record.value, record.value_version)
    )
    size = len(encode_batch([stored]))
    assert compute_batch_size([record]) == size
    for limit, error in ((size, ErrorCode.NONE), (size - 1, ErrorCode.UNKNOWN_SERVER_ERROR)):
        bounded = Coordinator(group_config(message_max_bytes=limit))
        assert bounded.commit(metadata="é" * 40, topic_id=TOPIC_ID) is error
