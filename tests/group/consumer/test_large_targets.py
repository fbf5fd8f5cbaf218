"""Background computation of targets: blocked requests, their order, and changes meanwhile."""

import pytest

from coordinator.core.outcome import WorkDone
from coordinator.group.consumer import target_assignment
from coordinator.group.topics_image import TopicImage
from protocol.error_codes import ErrorCode
from tests.group.ask import Ask
from tests.group.consumer.members import FOO, Members, read_response


@pytest.fixture(autouse=True, params=["many partitions", "many names"])
def every_target_is_large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = {"many partitions": "INLINE_MAX", "many names": "MAX_INLINE_NAMES"}[request.param]
    monkeypatch.setattr(target_assignment, limit, -1)


@pytest.fixture
def group() -> Members:
    members = Members()
    members.does_work = False
    return members


def joins(group: Members, member_id: str) -> Ask:
    return group.beat(member_id, 0, names=["foo"], owned={}, rebalance=60_000)


def test_heartbeats_that_wait_are_answered_in_order(group: Members) -> None:
    first, second = joins(group, "A"), joins(group, "B")
    assert first.is_parked
    assert second.is_parked
    assert len(group.work) == 1
    group.do_work()
    assert read_response(first) == (2, {FOO: [0, 1, 2]})
    assert read_response(second) == (2, {}), "the next target is due only after an interval"


def test_a_target_for_topics_that_have_changed_is_computed_again(group: Members) -> None:
    ask = joins(group, "A")
    group.topics_are(TopicImage("foo", FOO, 5))
    group.do_work()
    assert ask.is_parked
    group.do_work()
    assert read_response(ask) == (2, {FOO: [0, 1, 2, 3, 4]})


def test_a_change_of_another_topic_keeps_the_target(group: Members) -> None:
    ask = joins(group, "A")
    group.topics_are(TopicImage("foo", FOO, 3), TopicImage("other", b"o" * 16, 5))
    group.do_work()
    assert read_response(ask) == (2, {FOO: [0, 1, 2]})


def test_what_cannot_be_computed_is_told_and_nothing_was_written(group: Members) -> None:
    ask = joins(group, "A")
    written = list(group.records)
    group.tell(WorkDone(group.work.pop(), None, "no memory"))
    error, message = read_response(ask)
    assert error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "no memory" in str(message)
    assert group.records == written == []


def test_who_waits_is_told_when_the_partition_goes(group: Members) -> None:
    pending = [joins(group, "A"), joins(group, "B")]
    group.unload()
    assert [ask.error for ask in pending] == [ErrorCode.NOT_COORDINATOR] * 2


def test_a_result_that_comes_after_a_restart_is_nobodys(group: Members) -> None:
    joins(group, "A")
    (work,) = group.work
    group.restart()
    group.tell(WorkDone(work, target_assignment.compute_target(work.argument)))  # type: ignore[arg-type]
    assert group.records == []
