"""Static members, fencing, expressions, commits."""

import pytest

from coordinator.group.group_event_types import ConsumerMemberFenced, FenceCause
from coordinator.group.group_requests import ExtendSessions
from coordinator.group.topics_image import TopicImage
from protocol.error_codes import ErrorCode
from protocol.records.group_record_schemas import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
)
from tests.group.config import consumer_group_config, group_config
from tests.group.consumer.members import BAR, FOO, Members
from tests.group.coordinator import GROUP

SESSION_MS = 45_000


def test_a_static_member_that_leaves_for_a_while_finds_its_partitions_again() -> None:
    group = Members()
    group.enter("A", instance="i")
    assert group.say("A", -2, instance="i") == (-2, None)
    assert group.enter("B", instance="i") == (2, {FOO: [0, 1, 2]})
    error, _ = group.say("A", 2, instance="i")
    assert error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_fenced() -> None:
    group = Members()
    group.enter("A", instance="i")
    group.say("A", -2, instance="i")
    group.advance(SESSION_MS)
    assert group.epochs()[0] == "Empty"


def test_the_instance_of_a_member_that_is_there_is_not_given_away() -> None:
    group = Members()
    group.enter("A", instance="i")
    error, _ = group.enter("B", instance="i")
    assert error is ErrorCode.UNRELEASED_INSTANCE_ID
    error, _ = group.say("B", -1, instance="unheard-of")
    assert error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_keeps_what_it_has_to_give_up_is_fenced() -> None:
    group = Members()
    group.enter("A", rebalance=5_000)
    group.enter("B")
    group.advance(1_000)
    group.say("A", 2)
    group.advance(4_999)
    assert not group.find_events(ConsumerMemberFenced)
    group.advance(1)
    assert group.find_events(ConsumerMemberFenced)[0].cause is FenceCause.NOT_REVOKED
    error, _ = group.say("A", 2)
    assert error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.say("B", 2)[0] == 4


def test_a_member_whose_expression_nobody_looked_at_may_be_the_only_one_and_go() -> None:
    group = Members()
    group.does_work = False
    group.enter("A", None, regex="f.*")
    group.advance(SESSION_MS)
    assert group.epochs() == ("Empty", 2, 2)
    assert group.enter("B") == (3, {FOO: [0, 1, 2]})


def test_a_member_reads_what_its_expression_matches_and_what_comes_later() -> None:
    group = Members()
    assert group.enter("A", None, regex="f.*") == (1, {})
    assert group.say("A", 1) == (2, {FOO: [0, 1, 2]})
    group.topics_are(TopicImage("foo", FOO, 3), TopicImage("far", BAR, 1))
    group.advance(10_001)
    group.say("A", 2)
    assert group.say("A", 2) == (3, {FOO: [0, 1, 2], BAR: [0]})
    error, _ = group.enter("B", None, regex="(")
    assert error is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_members_commit_in_their_epoch() -> None:
    group = Members()
    group.enter("A")
    assert group.commit("A", 2) is ErrorCode.NONE
    assert group.commit("A", 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert group.commit("A", 2, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert group.commit("B", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit() is ErrorCode.UNKNOWN_MEMBER_ID
    group.say("A", -1)
    assert group.commit(offset=8) is ErrorCode.NONE


def test_a_member_that_has_not_heard_of_its_epoch_commits_what_it_has_had_since() -> None:
    group = Members()
    group.enter("A")
    group.enter("B")
    group.advance(1_000)
    group.say("A", 2)
    assert group.say("A", 2, owned={FOO: [0, 1]}) == (3, None)
    assert group.commit("A", 2, partition=0, topic_id=FOO, version=10) is ErrorCode.NONE
    assert group.commit("A", 2, partition=2, topic_id=FOO, version=10) is ErrorCode.STALE_MEMBER_EPOCH


def test_offsets_of_topics_that_nobody_reads_expire() -> None:
    group = Members()
    group.restart(group_config(offsets_retention_minutes=1, offsets_retention_check_interval_ms=5_000))
    group.enter("A")
    group.commit("A", 2, topic="foo")
    group.commit("A", 2, topic="bar")
    for _ in range(3):
        group.advance(30_000)
        group.say("A", 2)
    assert group.fetch().keys() == {("foo", 0)}


@pytest.mark.parametrize(("first", "second"), [("range", "uniform"), ("uniform", "range")])
def test_a_group_whose_votes_are_level_may_have_a_new_epoch_at_every_heartbeat(
    first: str, second: str
) -> None:
    """Kafka counts the assignors in two maps. The heartbeat of a member changes the order of the second map, and so
    the winner of a tie.
    """
    group = Members()
    group.enter("A", assignor=first)
    group.enter("B", assignor=second)
    _, epoch, _ = group.epochs()
    for member_id, named in (("A", first), ("B", second), ("A", first), ("B", second)):
        group.say(member_id, 2)
        _, later, _ = group.epochs()
        assert later - epoch == (named == "range"), member_id
        epoch = later


def test_a_subscription_that_the_log_could_not_take_is_refused_and_leaves_no_trace() -> None:
    group = Members()
    names = [f"{number:0200}" for number in range(6_000)]
    assert group.enter("A", names) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert group.records == []
    assert group.enter("A") == (2, {FOO: [0, 1, 2]})


def test_a_lone_member_with_another_expression_is_looked_at_with_its_next_heartbeat() -> None:
    group = Members()
    group.enter("A", None, regex="f.*")
    assert group.say("A", 1) == (2, {FOO: [0, 1, 2]})
    group.does_work = False
    group.say("A", 2, regex="fo+")
    assert group.work == [], "the last look is not ten seconds old"
    group.say("A", 2)
    assert len(group.work) == 1


def test_an_assignor_that_nobody_has_any_more_cannot_be_asked() -> None:
    group = Members()
    group.enter("A", assignor="range")
    group.consumer_config = consumer_group_config(group_consumer_assignors=("uniform",))
    group.restart()
    group.advance(1_000)
    assert group.enter("B") == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert [member.member_id for member in group.described().members] == ["A"]


def test_who_takes_the_place_of_another_has_a_target_of_its_own_in_the_log() -> None:
    group = Members()
    group.enter("A", instance="i")
    group.say("A", -2, instance="i")
    group.advance(1_000)
    before = len(group.records)
    group.enter("B", ["foo", "nowhere"], instance="i")
    written = [record for record in group.records[before:] if record.value is not None]
    targets = [one for one in written if isinstance(one.key, ConsumerGroupTargetAssignmentMemberKey)]
    assert [one.key.member_id for one in targets] == ["B", "B"], "with its place, and with the new target"


def test_a_broker_that_gets_the_log_back_has_to_look_at_expressions_again_and_so_has_groupd() -> None:
    """Records have version 0. In Kafka a version is an offset of the metadata, and every image there is newer."""
    group = Members()
    group.enter("A", None, regex="f.*")
    group.say("A", 1)
    group.restart()
    (resolved,) = (
        record.value for record in group.records if isinstance(record.key, ConsumerGroupRegularExpressionKey)
    )
    assert (resolved.topics, resolved.version) == (["foo"], 0)
    group.advance(10_001)
    group.does_work = False
    group.say("A", 2)
    assert len(group.work) == 1


def test_one_that_is_kept_alive_has_the_session_timeout_that_it_had() -> None:
    group = Members()
    group.enter("A")
    for later_ms in (SESSION_MS, 2 * SESSION_MS):
        group.send(ExtendSessions(GROUP, ["A"], group.now.monotonic_ms + later_ms), 0)
        view = group.shard.view_group(GROUP, group.now)
        assert view is not None
        (member,) = view.members
        assert (member.session_timeout_ms, member.session_left_ms) == (SESSION_MS, later_ms)
