"""ConsumerGroupHeartbeat: rejections with their order and texts, and responses to members."""

import pytest

from coordinator.group.group_event_types import EpochBumped, EpochCause, TopicChange
from coordinator.group.group_requests import FetchOffsets
from coordinator.group.topics_image import TopicImage
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from tests.group.config import consumer_group_config
from tests.group.consumer.members import BAR, FOO, Members, read_response
from tests.group.coordinator import GROUP

FENCED, UNKNOWN = ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID
MISSING = ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("member_id", "epoch", "more", "message"),
    [
        ("", 1, {}, "MemberId can't be empty."),
        (" ", 0, {}, "MemberId can't be empty."),
        ("m", 1, {"group": " "}, "GroupId can't be empty."),
        ("m", 1, {"instance": ""}, "InstanceId can't be empty."),
        ("m", 1, {"rack": " "}, "RackId can't be empty."),
        ("m", 0, {"owned": {}, "names": []}, "RebalanceTimeoutMs must be provided in first request."),
        ("m", 0, {"rebalance": 1, "names": []}, "TopicPartitions must be empty when (re-)joining."),
        (
            "m",
            0,
            {"rebalance": 1, "owned": {}},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ("m", -2, {}, "InstanceId can't be null."),
        ("m", -3, {}, "MemberEpoch is invalid."),
    ],
)
def test_a_request_that_is_wrong_in_any_case(
    member_id: str, epoch: int, more: dict[str, object], message: str
) -> None:
    group = Members()
    assert group.say(member_id, epoch, **more) == (ErrorCode.INVALID_REQUEST, message)
    assert not group.log


def test_an_assignor_that_nobody_has() -> None:
    message = "ServerAssignor sticky is not supported. Supported assignors: uniform, range."
    assert Members().enter("m", assignor="sticky") == (ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def test_groups_and_members_that_are_not_there() -> None:
    group = Members()
    assert group.say("m", 1) == (MISSING, f"Consumer group {GROUP} not found.")
    assert group.say("m", -1) == (MISSING, f"Group {GROUP} not found.")
    group.enter("A")
    assert group.say("m", 1) == (UNKNOWN, f"Member m is not a member of group {GROUP}.")
    assert group.say("m", -1) == (UNKNOWN, f"Member m is not a member of group {GROUP}.")
    assert group.say("m", 1, instance="i") == (UNKNOWN, "Instance id i is unknown.")


def test_a_full_group_refuses_strangers_at_any_epoch() -> None:
    group = Members(consumer_config=consumer_group_config(group_consumer_max_size=1))
    group.enter("A")
    full = (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The consumer group has reached its maximum capacity of 1 members.",
    )
    assert group.enter("B") == full
    assert group.say("B", 7) == full
    assert group.say("A", 2) == (2, None)


def test_the_first_version_has_member_ids_made_by_the_coordinator() -> None:
    group = Members()
    ask = group.beat("", 0, names=["foo"], rebalance=1000, owned={}, version=0)
    response = ask.answer(ConsumerGroupHeartbeatResponse)
    assert response.member_id is not None
    assert len(response.member_id) == 22
    assert group.say(response.member_id, 2) == (2, None)


def test_a_subscription_to_nothing_changes_no_epoch() -> None:
    group = Members()
    assert group.enter("A", names=[]) == (1, {})
    assert [type(record.key).__name__ for record in group.records] == [
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupCurrentMemberAssignmentKey",
    ]
    assert group.epochs() == ("Stable", 1, 1)


def test_records_come_in_kafkas_order() -> None:
    group = Members()
    group.enter("A")
    group.say("A", -1)
    kinds = [
        (type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key"), record.value is None)
        for record in group.records
    ]
    assert kinds == [
        ("MemberMetadata", False),
        ("Metadata", False),
        ("TargetAssignmentMember", False),
        ("TargetAssignmentMetadata", False),
        ("CurrentMemberAssignment", False),
        ("CurrentMemberAssignment", True),
        ("TargetAssignmentMember", True),
        ("MemberMetadata", True),
        ("Metadata", False),
        ("TargetAssignmentMetadata", False),
    ]
    assert group.epochs() == ("Empty", 3, 3)
    group.delete_groups(GROUP)
    assert not group.shard.list_group_ids()
    assert not group.shard.snapshot_durable()


def test_only_full_requests_are_told_the_assignment_again() -> None:
    group = Members()
    group.enter("A")
    everything = {FOO: [0, 1, 2]}
    assert group.say("A", 2, owned=everything) == (2, None)
    assert group.say("A", 2, names=["foo"]) == (2, None)
    assert group.say("A", 2, names=["foo"], owned=everything, rebalance=1000) == (2, everything)


def test_a_member_that_is_silent_is_fenced() -> None:
    group = Members()
    group.enter("A")
    group.advance(40_000)
    group.enter("B")
    group.advance(5_000)
    assert group.say("A", 2)[0] is UNKNOWN
    assert group.say("B", 3) == (4, {FOO: [0, 1, 2]})


def test_a_member_that_keeps_its_partitions_is_fenced() -> None:
    group = Members()
    group.enter("A", rebalance=2_000)
    group.enter("B")
    group.advance(1_000)
    assert group.say("A", 2) == (2, {FOO: [0, 1]})
    group.advance(1_999)
    assert group.say("A", 2, owned={FOO: [0, 1, 2]}) == (2, None)
    group.advance(1)
    assert group.say("A", 2)[0] is UNKNOWN


def test_a_static_member_takes_its_place_again() -> None:
    group = Members()
    group.enter("A", instance="i")
    assert group.enter("B", instance="i")[0] is ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.say("B", 2, instance="i")[0] is ErrorCode.FENCED_INSTANCE_ID
    assert group.say("A", -2, instance="i") == (-2, None)
    assert group.epochs() == ("Reconciling", 2, 2)
    assert group.say("A", 2, instance="i")[0] is FENCED
    assert group.enter("B", instance="i") == (2, {FOO: [0, 1, 2]})
    assert group.epochs() == ("Stable", 2, 2)
    assert [member.member_id for member in group.described().members] == ["B"]


def test_a_static_member_that_stays_away_is_fenced() -> None:
    group = Members()
    group.enter("A", instance="i")
    group.say("A", -2, instance="i")
    group.advance(45_000)
    assert group.epochs() == ("Empty", 3, 3)


def test_topics_come_grow_and_go() -> None:
    group = Members()
    group.enter("A", names=["foo", "bar"])
    group.topics_are(TopicImage("foo", FOO, 3), TopicImage("bar", BAR, 1))
    group.advance(1_000)
    assert group.say("A", 2) == (3, {FOO: [0, 1, 2], BAR: [0]})
    group.topics_are(TopicImage("foo", FOO, 4), TopicImage("bar", BAR, 1))
    group.advance(1_000)
    assert group.say("A", 3) == (4, {FOO: [0, 1, 2, 3], BAR: [0]})
    group.topics_are(TopicImage("bar", BAR, 1))
    group.advance(1_000)
    assert group.say("A", 4) == (4, {BAR: [0]})
    assert group.say("A", 4, owned={BAR: [0]}) == (5, None)
    bumped = [event for event in group.find_events(EpochBumped) if event.cause is EpochCause.TOPICS_CHANGED]
    assert [(event.topics, event.change) for event in bumped] == [
        (("bar",), TopicChange.CREATED),
        (("foo",), TopicChange.GREW),
        (("foo",), TopicChange.DELETED),
    ]


def test_a_regular_expression_is_resolved_beside() -> None:
    group = Members()
    group.does_work = False
    assert group.enter("A", names=None, regex="fo+") == (1, {})
    group.do_work()
    assert group.epochs() == ("Assigning", 2, 1)
    assert group.say("A", 1) == (2, {FOO: [0, 1, 2]})
    assert group.say("A", 2, regex="") == (2, {})
    group.advance(1_000)
    assert group.say("A", 2, owned={}) == (3, None)


def test_an_expression_that_is_none_is_refused_at_once() -> None:
    group = Members()
    message = "SubscribedTopicRegex `([` is not a valid regular expression: missing closing ]."
    assert group.enter("A", names=None, regex="([") == (ErrorCode.INVALID_REGULAR_EXPRESSION, message)
    assert not group.log
    assert not group.shard.list_group_ids()


def test_a_large_target_is_computed_elsewhere_and_those_behind_wait() -> None:
    group = Members()
    group.topics_are(TopicImage("foo", FOO, 30_000))
    group.does_work = False
    first = group.beat("A", 0, names=["foo"], rebalance=1000, owned={})
    second = group.beat("B", 0, names=["foo"], rebalance=1000, owned={})
    assert (first.is_parked, second.is_parked) == (True, True)
    assert not group.log
    group.do_work()
    assert read_response(first) == (2, {FOO: list(range(30_000))})
    assert read_response(second) == (2, {})


def test_who_waits_for_a_target_is_told_when_the_partition_goes() -> None:
    group = Members()
    group.topics_are(TopicImage("foo", FOO, 30_000))
    group.does_work = False
    ask = group.beat("A", 0, names=["foo"], rebalance=1000, owned={})
    ((waiter, response),) = group.shard.unload()
    assert waiter == ask.waiter
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    assert response.error_code == ErrorCode.NOT_COORDINATOR


def test_members_prefer_another_assignor() -> None:
    group = Members()
    group.enter("A", assignor="uniform")
    assert group.described().assignor_name == "uniform"
    group.advance(1_000)
    assert group.say("A", 2, assignor="range") == (3, None)
    assert group.described().assignor_name == "range"


def test_commits_go_by_the_epoch_of_their_partition() -> None:
    group = Members()
    group.enter("A")
    group.enter("B")
    group.advance(1_000)
    group.say("A", 2)
    group.say("A", 2, owned={FOO: [0, 1]})
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert group.commit("A", 3, topic_id=FOO) is ErrorCode.NONE
    assert group.commit("A", 2, topic_id=FOO) is ErrorCode.NONE
    assert group.commit("A", 2, topic_id=FOO, partition=2) is stale
    assert group.commit("A", 1, topic_id=FOO) is stale
    assert group.commit("A", 4, topic_id=FOO) is stale
    assert group.commit("A", 3, topic_id=FOO, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert group.commit("C", 3, topic_id=FOO) is UNKNOWN
    assert group.commit("", -1, topic_id=FOO) is UNKNOWN
    assert group.txn_commit(1, "", -1, topic_id=FOO) is ErrorCode.NONE
    assert group.txn_commit(2, "A", 9, topic_id=FOO, version=5) is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("A", 2, ErrorCode.NONE),
        ("A", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("B", 2, UNKNOWN),
        ("", -1, UNKNOWN),
        (None, 2, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_fetches_go_by_the_epoch_of_their_member(member_id: str | None, epoch: int, error: ErrorCode) -> None:
    group = Members()
    group.enter("A")
    requested = OffsetFetchRequestGroup(group_id=GROUP, topics=None, member_id=member_id, member_epoch=epoch)
    response = group.send(FetchOffsets(requested), 9).answer(OffsetFetchResponseGroup)
    assert response.error_code == error


def test_an_empty_group_of_either_protocol_makes_way_for_the_other() -> None:
    group = Members()
    group.commit()
    assert group.enter("A") == (2, {FOO: [0, 1, 2]})
    assert group.fetch() == {("foo", 0): (7, -1, "")}
    group.say("A", -1)
    assert group.join(version=3).is_parked
    assert group.fetch() == {("foo", 0): (7, -1, "")}
    assert group.say("A", -1) == (MISSING, f"Group {GROUP} is not a consumer group.")
