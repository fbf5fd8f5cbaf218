"""Groups that are right by Kafka's rules, although they look odd: none of them has a violation."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from coordinator.control.diagnosis.violation import OracleFinding, OracleName, Severity
from coordinator.group.group_view import GroupView
from coordinator.group.topics_image import TopicImage, TopicsImage
from tests.control.diagnosis.watched_story import WatchedStory

DEFAULTS = "session=45s rebalance=5m"
"""Of Java's consumer: session.timeout.ms and max.poll.interval.ms."""


@pytest.fixture
def story() -> WatchedStory:
    """A story with one topic of two partitions."""
    return WatchedStory(TopicsImage([TopicImage("orders", bytes(16), 2)]))


def found(story: WatchedStory, oracle: OracleName) -> list[OracleFinding]:
    return [finding for finding in story.watch.findings if finding.oracle is oracle]


def stuck(story: WatchedStory) -> list[Severity]:
    return [finding.severity for finding in found(story, OracleName.STUCK_REBALANCE)]


def test_a_rebalance_that_waits_for_a_killed_member_until_its_session_ends(story: WatchedStory) -> None:
    """Two consumers with default settings, one of them killed 8 s before another one joins."""
    story.play(
        f"given alice=orders:0 bob=orders:1 {DEFAULTS}",
        "advance 3s",
        "heartbeat alice",
        "heartbeat bob",
        "advance 8s",
        "heartbeat alice",
        f"join carol v=3 {DEFAULTS}",
        "heartbeat alice",
        "join alice",
        "advance 36s",
    )
    view = story.shard.view_group("g", story.now())
    assert view is not None
    assert (view.state, len(view.members)) == ("PreparingRebalance", 3)
    story.play("advance 1s", "sync alice alice=orders:0 carol=orders:1", "sync carol", "advance 5s")
    view = story.shard.view_group("g", story.now())
    assert view is not None
    assert (view.state, len(view.members)) == ("Stable", 2)
    assert story.watch.findings == []


def test_a_member_that_processes_its_records_for_as_long_as_it_may_between_two_polls(
    story: WatchedStory,
) -> None:
    story.play(f"given alice=orders:0 bob=orders:1 {DEFAULTS}", f"join carol v=3 {DEFAULTS}", "join alice")
    for _ in range(29):
        story.play("advance 10s", "heartbeat bob")
    story.play("advance 9s", "join bob")
    story.play("sync alice alice=orders:0 bob=orders:1", "sync bob", "sync carol")
    assert story.watch.findings == []


def test_a_rebalance_that_begins_again_and_again_is_a_notice_for_its_group(story: WatchedStory) -> None:
    story.play("given alice=orders:0 bob=orders:1 session=60s rebalance=60s")
    for number in range(10):
        # A new member joins each time before the leader has assigned.
        story.play(f"join late{number} v=3 session=60s rebalance=60s", "join alice", "join bob")
        story.play(*(f"join late{before}" for before in range(number)), "advance 20s")
    assert stuck(story) == [Severity.NOTICE]


def test_a_static_member_that_heartbeats_and_does_not_rejoin_is_a_notice_once(story: WatchedStory) -> None:
    story.play("client alice instance=i1", "given alice=orders:0 bob=orders:1 session=12s rebalance=5s")
    story.play("leave bob")
    for _ in range(30):
        story.play("advance 5s", "heartbeat alice")
    view = story.shard.view_group("g", story.now())
    assert view is not None
    assert view.state == "PreparingRebalance"
    assert stuck(story) == [Severity.NOTICE]


def test_a_coordinator_that_does_not_end_a_rebalance_at_its_deadline_is_a_violation(
    story: WatchedStory,
) -> None:
    def overdue(view: GroupView) -> GroupView:
        assert view.rebalance is not None
        return replace(view, rebalance=replace(view.rebalance, left_ms=0))

    story.play("given alice=orders:0 bob=orders:1 session=30m rebalance=5m", "join carol v=3 rebalance=5m")
    seen_by_oracles(story, overdue)
    for _ in range(8):  # after 30 s it is seen to be overdue, after another 30 s it is a violation
        story.play("advance 10s")
    (finding,) = found(story, OracleName.STUCK_REBALANCE)
    assert finding.severity is Severity.VIOLATION
    assert "JoinGroup of alice" in finding.detail


def seen_by_oracles(story: WatchedStory, change: Callable[[GroupView], GroupView]) -> None:
    view_of = story.watch.find_group

    def view(group_id: str) -> GroupView | None:
        view = view_of(group_id)
        return None if view is None else change(view)

    story.watch.find_group = view  # type: ignore[method-assign]


def test_standby_replicas_in_the_assignment_are_a_notice(story: WatchedStory) -> None:
    """Faust's default with one table and two workers: each has the partitions of the other as standbys."""
    story.play("given alice=orders:0,orders:1 bob=orders:0,orders:1 protocols=faust session=30m")
    (finding,) = story.watch.findings
    assert (finding.oracle, finding.severity) == (OracleName.DOUBLE_OWNER, Severity.NOTICE)
    assert finding.partitions == [("orders", 0), ("orders", 1)]
    assert "faust" in finding.detail


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_two_owners_by_an_assignor_of_kafka_are_a_violation(story: WatchedStory, assignor: str) -> None:
    story.play(f"given alice=orders:0,orders:1 bob=orders:1 protocols={assignor} session=30m")
    (finding,) = story.watch.findings
    assert (finding.oracle, finding.severity) == (OracleName.DOUBLE_OWNER, Severity.VIOLATION)
    assert finding.partitions == [("orders", 1)]


def test_an_assignor_of_another_name_moves_partitions_as_it_likes(story: WatchedStory) -> None:
    story.play(
        "client alice protocols=my-cooperative session=30m",
        "client bob protocols=my-cooperative session=30m",
        "given alice=orders:0,orders:1 bob=",
        "join alice owned=orders:0,orders:1",
        "join bob",
        "sync alice alice=orders:0 bob=orders:1",
        "sync bob",
    )
    assert story.watch.findings == []


def test_an_idle_kafkajs_member_has_one_notice_that_names_its_settings(story: WatchedStory) -> None:
    """It sends a heartbeat every 5 s, after an empty fetch, in a session of 6 s."""
    story.watch.find_open_connections = lambda: {0}  # type: ignore[method-assign]
    story.play("given alice=orders:0,orders:1 session=6s rebalance=60s")
    for _ in range(60):
        for _ in range(5):
            story.play("advance 1s")
        story.play("heartbeat alice")
    (finding,) = story.watch.findings
    assert (finding.oracle, finding.severity) == (OracleName.STARVED_HEARTBEAT, Severity.NOTICE)
    assert "session.timeout.ms" in finding.detail
    assert "heartbeat.interval.ms" in finding.detail


@pytest.mark.parametrize(
    ("assignor", "severity"),
    [("range", Severity.VIOLATION), ("RoundRobinAssigner", Severity.NOTICE), ("stream", Severity.NOTICE)],
)
def test_a_partition_left_out_is_a_violation_of_assignors_that_assign_all(
    story: WatchedStory, assignor: str, severity: Severity
) -> None:
    story.play(f"given alice=orders:0 protocols={assignor} session=30m", "advance 5s")
    (finding,) = story.watch.findings
    assert (finding.oracle, finding.severity) == (OracleName.ORPHAN_PARTITION, severity)
