import pytest

from coordinator.core.outcome import Context, TransactionOwner
from coordinator.group.event_details import GenerationDiffers, RefusedOffset
from coordinator.group.group_event_types import (
    CommitRefused,
    MemberFenced,
    OffsetsCommitted,
    OffsetsPending,
    SimpleGroupCreated,
)
from coordinator.group.group_request_rules import (
    build_group_error_response,
    find_error_before_lookup,
    find_loading_error,
    is_read_only,
)
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from protocol.records.group_record_schemas import OffsetCommitKey, OffsetCommitValue
from tests.group.ask import named
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stories import new_generation, stable_group

TOPIC_ID = bytes(range(16))


def request(*topics: tuple[str, list[int]], group: str = GROUP, text: str = "") -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group,
        producer_id=5,
        producer_epoch=2,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                topic_id=TOPIC_ID,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=index, committed_metadata=text
                    )
                    for index in indexes
                ],
            )
            for name, indexes in topics
        ],
    )


def test_the_records_are_a_batch_of_the_transaction_in_the_form_of_a_plain_commit() -> None:
    coordinator = Coordinator()
    context = Context(0, 5, "client", "/10.0.0.1")
    outcome = coordinator.shard.handle(request(("foo", [3, 4]), ("bar", [0])), context, coordinator.now)
    assert outcome.in_transaction == TransactionOwner(5, 2)
    assert outcome.marker is None
    assert [record.key for record in outcome.records] == [
        OffsetCommitKey(group=GROUP, topic=topic, partition=partition)
        for topic, partition in (("foo", 3), ("foo", 4), ("bar", 0))
    ]
    first = outcome.records[0]
    assert first.value_version == 4
    assert first.value == OffsetCommitValue(
        offset=3, metadata="", commit_timestamp=coordinator.now.wall_ms, topic_id=TOPIC_ID
    )
    ((_, response),) = outcome.replies
    assert isinstance(response, TxnOffsetCommitResponse)
    assert [(topic.name, topic.topic_id) for topic in response.topics] == [
        ("foo", TOPIC_ID),
        ("bar", TOPIC_ID),
    ]
    assert {one.error_code for topic in response.topics for one in topic.partitions} == {0}


def test_it_counts_once_the_transaction_is_committed() -> None:
    coordinator = Coordinator()
    coordinator.commit(offset=3)
    assert coordinator.txn_commit(9, offset=8, metadata="note", leader_epoch=4) is ErrorCode.NONE
    assert coordinator.fetch() == {("foo", 0): (3, -1, "")}
    coordinator.end(9)
    assert coordinator.fetch() == {("foo", 0): (8, 4, "note")}


def test_an_aborted_one_never_counts() -> None:
    coordinator = Coordinator()
    coordinator.commit(offset=3)
    coordinator.txn_commit(9, offset=8)
    coordinator.end(9, is_committed=False)
    assert coordinator.fetch() == {("foo", 0): (3, -1, "")}


def test_it_is_told_as_pending_and_not_as_committed() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.txn_commit(9, member, 1)
    assert coordinator.find_events(OffsetsPending) == [OffsetsPending(GROUP, member, 9, 1)]
    assert coordinator.find_events(OffsetsCommitted) == []


def test_a_simple_group_is_made_and_seen_by_everybody() -> None:
    coordinator = Coordinator()
    coordinator.txn_commit(9)
    assert coordinator.find_events(SimpleGroupCreated) == [SimpleGroupCreated(GROUP)]
    for _ in range(2):
        described = coordinator.describe()
        assert (described.error_code, described.group_state, described.protocol_type) == (0, "Empty", "")
        (listed,) = coordinator.list_groups().answer(ListGroupsResponse).groups
        assert (listed.group_id, listed.group_state) == (GROUP, "Empty")
        coordinator.restart()


def test_an_aborted_transaction_leaves_its_group_until_retention_looks() -> None:
    coordinator = Coordinator()
    coordinator.txn_commit(9)
    coordinator.end(9, is_committed=False)
    assert coordinator.state() == "Empty"
    coordinator.advance(coordinator.config.offsets_retention_check_interval_ms)
    assert coordinator.state() == "Dead"


def test_a_restart_forgets_a_group_that_only_an_aborted_transaction_made() -> None:
    coordinator = Coordinator()
    coordinator.txn_commit(9)
    coordinator.end(9, is_committed=False)
    coordinator.restart()
    assert coordinator.state() == "Dead"


def test_people_see_whose_offsets_are_pending() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    for producer, partition in ((9, 0), (9, 1), (8, 1)):
        coordinator.txn_commit(producer, partition=partition)
    coordinator.txn_commit(9, group="another")
    view = coordinator.shard.view_group(GROUP, coordinator.now)
    assert view is not None
    assert view.pending_offsets == {9: 2, 8: 1}
    for producer in (8, 9):
        coordinator.end(producer)
    view = coordinator.shard.view_group(GROUP, coordinator.now)
    assert view is not None
    assert view.pending_offsets == {}


def test_it_restarts_no_session() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.advance(9_999)
    assert coordinator.txn_commit(9, member, 1) is ErrorCode.NONE
    coordinator.advance(1)
    assert coordinator.state() == "Empty"


def test_what_is_refused_is_no_transaction_and_says_why() -> None:
    coordinator = Coordinator()
    leader, _ = new_generation(coordinator)
    assert coordinator.txn_commit(9, leader, 0, version=3) is ErrorCode.ILLEGAL_GENERATION
    assert coordinator.unstable({"foo": [0]}) == {("foo", 0): False}
    assert coordinator.find_events(CommitRefused) == [
        CommitRefused(
            GROUP,
            0,
            named(leader),
            ErrorCode.ILLEGAL_GENERATION,
            "CompletingRebalance",
            GenerationDiffers(0, 1),
            partitions=1,
            offsets=(RefusedOffset("foo", 0, 7, None),),
            is_transactional=True,
        )
    ]


def test_a_fenced_instance_is_told_by_what_it_sent() -> None:
    coordinator = Coordinator()
    _, follower, _ = stable_group(coordinator, 3, static=1)
    assert coordinator.txn_commit(9, follower, 1, instance="instance-0") is ErrorCode.FENCED_INSTANCE_ID
    assert [event.operation for event in coordinator.find_events(MemberFenced)] == ["txn-offset-commit"]


@pytest.mark.parametrize("version", range(7))
def test_a_generation_of_a_group_that_is_not_there_is_an_error_of_the_group_from_version_6(
    version: int,
) -> None:
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.ILLEGAL_GENERATION
    coordinator = Coordinator()
    assert coordinator.txn_commit(9, "m", 1, version=version) is expected
    assert coordinator.state() == "Dead"


def test_a_group_has_a_name() -> None:
    coordinator = Coordinator()
    assert coordinator.txn_commit(9, group="") is ErrorCode.INVALID_GROUP_ID
    assert find_error_before_lookup(request(group=""), 3, coordinator.config) is ErrorCode.INVALID_GROUP_ID
    assert find_error_before_lookup(request(), 3, coordinator.config) is ErrorCode.NONE


@pytest.mark.parametrize("version", range(7))
def test_while_its_partition_is_loading_old_clients_are_told_that_there_is_none(version: int) -> None:
    commit = request(("foo", [0, 1]), ("bar", [2]))
    assert not is_read_only(commit)
    response = build_group_error_response(commit, version, find_loading_error(commit))
    expected = ErrorCode.COORDINATOR_NOT_AVAILABLE if version < 2 else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [one.error_code for topic in response.topics for one in topic.partitions] == [expected] * 3
    response = build_group_error_response(commit, version, ErrorCode.NOT_COORDINATOR)
    assert {one.error_code for topic in response.topics for one in topic.partitions} == {16}


def test_too_long_a_text_is_refused_by_itself() -> None:
    coordinator = Coordinator(group_config(offset_metadata_max_bytes=4))
    commit = request(("foo", [1, 2]))
    commit.topics[0].partitions[0].committed_metadata = "12345"
    response = coordinator.send(commit, 5).answer(TxnOffsetCommitResponse)
    assert [one.error_code for one in response.topics[0].partitions] == [12, 0]
    coordinator.end(5)
    assert coordinator.fetch() == {("foo", 2): (2, -1, "")}
    (refused,) = coordinator.find_events(CommitRefused)
    assert (refused.is_transactional, refused.partitions) == (True, 1)


def test_without_a_record_there_is_no_batch() -> None:
    coordinator = Coordinator(group_config(offset_metadata_max_bytes=4))
    for commit in (request(("foo", [1]), text="12345"), request()):
        outcome = coordinator.shard.handle(commit, Context(0, 5, "c", "/h"), coordinator.now)
        assert (outcome.records, outcome.in_transaction) == ([], None)
        assert len(outcome.replies) == 1


def test_offsets_too_large_for_a_batch_of_the_log_are_all_refused() -> None:
    coordinator = Coordinator(group_config(message_max_bytes=500))
    assert coordinator.txn_commit(9, metadata="x" * 500) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.txn_commit(9, metadata="x" * 300) is ErrorCode.NONE
    many = coordinator.send(request(("foo", list(range(50)))), 5).answer(TxnOffsetCommitResponse)
    assert {one.error_code for one in many.topics[0].partitions} == {-1}
    assert len(coordinator.records) == 1
