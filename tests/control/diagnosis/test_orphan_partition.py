"""When a partition without an owner is an orphan: not while its owner hands it over, nor before members know it."""

import pytest

from coordinator.control.diagnosis.violation import OracleName, Severity
from coordinator.core.time_budget import UnlimitedBudget, run_in_one_step
from coordinator.group.topics_image import TopicImage, TopicsImage
from coordinator.topics.data_plane_answer import PartitionsAdded
from tests.control.diagnosis.virtual_oracles import VirtualOracleContext
from tests.control.diagnosis.watched_story import WatchedStory


def orders(count: int) -> TopicsImage:
    return TopicsImage([TopicImage("orders", bytes(16), count)])


@pytest.fixture
def story() -> WatchedStory:
    """A group in which members without requests stay for half an hour."""
    return WatchedStory(orders(2))


def orphans(story: WatchedStory) -> list[str]:
    return [
        f"{topic}-{number}"
        for finding in story.watch.findings
        if finding.oracle is OracleName.ORPHAN_PARTITION
        for topic, number in finding.partitions
    ]


def severities(story: WatchedStory) -> set[Severity]:
    return {finding.severity for finding in story.watch.findings}


def test_a_partition_is_an_orphan_after_five_seconds_of_rest(story: WatchedStory) -> None:
    story.play("given A=orders:0 session=30m", "advance 4s")
    assert orphans(story) == []
    story.play("advance 1s")
    assert orphans(story) == ["orders-1"]


def test_a_rebalance_restarts_the_time_limit(story: WatchedStory) -> None:
    story.play(
        "given A=orders:0 session=30m", "advance 4s", "join A", "sync A A=orders:0,orders:1", "advance 1h"
    )
    assert orphans(story) == []


def test_a_check_that_waited_while_the_group_rebalanced_finds_nothing(story: WatchedStory) -> None:
    """It has a view of the generation before."""
    story.watch.held_checks = []
    story.play("given A=orders:0 session=30m", "advance 5s")
    check = story.watch.held_checks[-1]
    story.play("join A", "sync A A=orders:0,orders:1", "advance 5s")
    run_in_one_step(check(UnlimitedBudget()))
    assert orphans(story) == []
    story.play("join A", "sync A A=orders:0", "advance 5s")
    run_in_one_step(story.watch.held_checks[-1](UnlimitedBudget()))
    assert orphans(story) == ["orders-1"]


def test_an_owner_has_its_rebalance_timeout_to_hand_over(story: WatchedStory) -> None:
    story.play(
        "client A protocols=cooperative-sticky session=30m rebalance=2m",
        "given A=orders:0,orders:1",
        "join A owned=orders:0,orders:1",
        "sync A A=orders:0",
        "advance 119s",
    )
    assert orphans(story) == []
    story.play("advance 1s")
    assert orphans(story) == ["orders-1"]


def test_partitions_that_came_to_a_group_are_known_to_its_members_in_the_end(story: WatchedStory) -> None:
    story.play("given A=orders:0,orders:1 session=30m", "advance 10m")
    story.watch.topics = orders(3)
    story.watch.rules.topic_ages.on_topics_changed([PartitionsAdded("orders", bytes(16), 3)])
    story.play("join A", "sync A A=orders:0,orders:1", "advance 299s")
    assert orphans(story) == []
    story.play("advance 1s")
    assert orphans(story) == ["orders-2"]
    # A consumer with a longer metadata.max.age.ms, or librdkafka without a refresh interval, may learn of it later.
    assert severities(story) == {Severity.NOTICE}


def test_a_long_lived_group_is_known_to_be_younger_than_its_topics(story: WatchedStory) -> None:
    story.play(
        "given A=orders:0,orders:1 session=30m", "advance 20m", "join A", "sync A A=orders:0", "advance 5s"
    )
    assert orphans(story) == ["orders-1"]
    assert severities(story) == {Severity.VIOLATION}


def test_growth_long_ago_is_not_forgotten(story: WatchedStory) -> None:
    story.play("given A=orders:0,orders:1 session=30m", "advance 1m")
    story.watch.topics = orders(3)
    story.watch.rules.topic_ages.on_topics_changed([PartitionsAdded("orders", bytes(16), 3)])
    story.play("advance 20m", "join A", "sync A A=orders:0,orders:1", "advance 5s")
    assert orphans(story) == ["orders-2"]
    assert severities(story) == {Severity.NOTICE}


def test_members_of_a_group_that_was_read_back_may_know_less_than_the_topics_say(story: WatchedStory) -> None:
    story.play("given A=orders:0 session=30m")
    story.watch = VirtualOracleContext(lambda: story.shard, story.now, orders(2))
    story.play("crash", "advance 4m")
    assert orphans(story) == []
    story.play("advance 1m")
    assert orphans(story) == ["orders-1"]
    assert severities(story) == {Severity.NOTICE}
