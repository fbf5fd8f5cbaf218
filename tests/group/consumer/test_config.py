"""The effective times of a group, from the broker's properties and the group's own configs."""

import pytest

from coordinator.group.group_config import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    ConsumerGroupTimes,
    MigrationPolicy,
)
from tests.group.config import consumer_group_config


def test_a_group_without_configs_has_the_times_of_the_broker() -> None:
    assert consumer_group_config().resolve_times({}) == ConsumerGroupTimes(45_000, 5000, 1000)


def test_a_group_has_times_of_its_own() -> None:
    own = {SESSION_TIMEOUT: "50000", HEARTBEAT_INTERVAL: "6000", ASSIGNMENT_INTERVAL: "0"}
    assert consumer_group_config().resolve_times(own) == ConsumerGroupTimes(50_000, 6000, 0)
    assert consumer_group_config().resolve_times({HEARTBEAT_INTERVAL: "6000"}) == ConsumerGroupTimes(
        45_000, 6000, 1000
    )


@pytest.mark.parametrize(("text", "times"), [("1", (45_000, 5000, 1)), ("99999", (60_000, 15_000, 15_000))])
def test_times_beyond_the_bounds_of_the_broker_are_the_nearest_within(
    text: str, times: tuple[int, int, int]
) -> None:
    own = dict.fromkeys((SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL), text)
    assert consumer_group_config().resolve_times(own) == times


def test_configs_that_are_no_consumer_group_s_change_nothing() -> None:
    assert consumer_group_config().resolve_times({"share.session.timeout.ms": "50000"}) == (
        45_000,
        5000,
        1000,
    )


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (("uniform", "range"), ("uniform", "range")),
        (("range", "range"), ("range",)),
        (("org.apache.kafka.coordinator.group.assignor.RangeAssignor", "uniform"), ("range", "uniform")),
    ],
)
def test_assignors_are_known_by_their_short_names(given: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert consumer_group_config(group_consumer_assignors=given).assignors == names


@pytest.mark.parametrize(
    ("text", "upgrades", "downgrades"),
    [
        ("bidirectional", True, True),
        ("Upgrade", True, False),
        ("DOWNGRADE", False, True),
        ("disabled", False, False),
    ],
)
def test_the_migration_policy(text: str, upgrades: bool, downgrades: bool) -> None:
    policy = consumer_group_config(group_consumer_migration_policy=text).migration_policy
    assert policy is MigrationPolicy(text.lower())
    assert (policy.upgrades, policy.downgrades) == (upgrades, downgrades)
