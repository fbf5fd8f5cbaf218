"""kafka-consumer-groups --reset-offsets: every kind, as a plan and for good."""

import time
from pathlib import Path

import pytest

from tests.tools.desk import FOREVER, Desk

pytestmark = pytest.mark.interop
SOME_DAY_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
HOUR_MS = 3_600_000
RECORDS = 6


@pytest.fixture
def stock(desk: Desk, topic: str, group: str) -> tuple[str, str]:
    """A topic of two partitions, a record an hour in each, and a group that has read to 2 and 3."""
    desk.create_topic(topic, 2, FOREVER)
    times_ms = [SOME_DAY_MS + hour * HOUR_MS for hour in range(RECORDS)]
    desk.produce(topic, {0: times_ms, 1: times_ms})
    desk.commit(group, topic, {0: 2, 1: 3})
    return topic, group


KINDS = {
    "to-earliest": (["--to-earliest"], {0: 0, 1: 0}),
    "to-latest": (["--to-latest"], {0: 6, 1: 6}),
    "to-offset": (["--to-offset", "4"], {0: 4, 1: 4}),
    "to-offset-past-the-end": (["--to-offset", "400"], {0: 6, 1: 6}),
    "to-current": (["--to-current"], {0: 2, 1: 3}),
    "shift-by-forwards": (["--shift-by", "2"], {0: 4, 1: 5}),
    "shift-by-backwards": (["--shift-by", "-1"], {0: 1, 1: 2}),
    "shift-by-before-the-start": (["--shift-by", "-100"], {0: 0, 1: 0}),
    "to-datetime-of-a-record": (["--to-datetime", "2023-11-15T00:13:20.000"], {0: 2, 1: 2}),
    "to-datetime-between": (["--to-datetime", "2023-11-15T00:13:20.001"], {0: 3, 1: 3}),
    "to-datetime-with-zone": (["--to-datetime", "2023-11-15T01:13:20.000+01:00"], {0: 2, 1: 2}),
    "to-datetime-of-the-future": (["--to-datetime", "2100-01-01T00:00:00.000"], {0: 6, 1: 6}),
    "by-duration": (["--by-duration", "PT1H"], {0: 6, 1: 6}),
}
"""Reset options and the resulting group offsets."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_changes_nothing_and_an_execution_does_as_planned(
    desk: Desk, stock: tuple[str, str], kind: str
) -> None:
    """--dry-run prints the plan; --execute prints the same and commits it."""
    topic, group = stock
    how, expected = KINDS[kind]
    before = desk.committed(group, topic)
    for mode, after in (("--dry-run", before), ("--execute", expected)):
        printed = desk.groups("--reset-offsets", "--group", group, "--topic", topic, *how, mode)
        assert {int(row["PARTITION"]): int(row["NEW-OFFSET"]) for row in printed} == expected
        assert desk.committed(group, topic) == after


def test_by_duration_finds_what_is_younger(desk: Desk, topic: str, group: str) -> None:
    """--by-duration goes to the first record of the last so many hours."""
    now_ms = int(time.time() * 1000)
    desk.create_topic(topic)
    desk.produce(topic, {0: [now_ms - 3 * HOUR_MS, now_ms - 2 * HOUR_MS, now_ms - 60_000]})
    desk.groups(
        *("--reset-offsets", "--group", group, "--topic", topic, "--by-duration", "PT2H30M", "--execute")
    )
    assert desk.committed(group, topic) == {0: 1}


def test_only_the_named_partitions_and_topics_are_reset(desk: Desk, stock: tuple[str, str]) -> None:
    """--topic NAME:PARTITIONS, several --topic, and --all-topics."""
    topic, group = stock
    other = f"{topic}-other"
    desk.create_topic(other, 1, FOREVER)
    desk.produce(other, {0: [SOME_DAY_MS] * 4})
    desk.commit(group, other, {0: 4})
    to_earliest = ("--reset-offsets", "--group", group, "--to-earliest", "--execute")
    desk.groups(*to_earliest, "--topic", f"{topic}:1")
    assert desk.committed(group, topic) == {0: 2, 1: 0}
    desk.groups(*to_earliest, "--topic", f"{topic}:0", "--topic", other)
    assert (desk.committed(group, topic), desk.committed(group, other)) == ({0: 0, 1: 0}, {0: 0})
    desk.groups("--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--execute")
    assert (desk.committed(group, topic), desk.committed(group, other)) == ({0: 6, 1: 6}, {0: 4})


def test_a_plan_is_exported_and_carried_out_from_its_file(
    desk: Desk, stock: tuple[str, str], tmp_path: Path
) -> None:
    """--export prints a plan that --from-file takes."""
    topic, group = stock
    reset = ("--reset-offsets", "--group", group)
    exported = desk.run(
        "kafka-consumer-groups", *reset, "--topic", topic, "--shift-by", "1", "--dry-run", "--export"
    )
    lines = [line.replace('"', "").split(",") for line in exported.out.split()]
    assert sorted(lines) == [[topic, "0", "3"], [topic, "1", "4"]]
    plan = tmp_path / "plan.csv"
    plan.write_text(exported.out)
    desk.groups(*reset, "--from-file", str(plan), "--dry-run")
    assert desk.committed(group, topic) == {0: 2, 1: 3}
    desk.groups(*reset, "--from-file", str(plan), "--execute")
    assert desk.committed(group, topic) == {0: 3, 1: 4}


def test_two_groups_are_reset_together(desk: Desk, stock: tuple[str, str]) -> None:
    """A second --group is reset as well, though it has no offsets yet."""
    topic, group = stock
    fresh = f"{group}-fresh"
    printed = desk.groups(
        *("--reset-offsets", "--group", group, "--group", fresh, "--topic", topic),
        *("--to-offset", "5", "--execute"),
    )
    assert {row["GROUP"] for row in printed} == {group, fresh}
    assert desk.committed(group, topic) == desk.committed(fresh, topic) == {0: 5, 1: 5}


def test_a_group_with_members_is_left_alone(desk: Desk, stock: tuple[str, str]) -> None:
    """kafka-consumer-groups resets offsets only of groups without members."""
    topic, group = stock
    with desk.member(group, topic):
        refused = desk.run(
            *("kafka-consumer-groups", "--reset-offsets", "--group", group),
            *("--topic", topic, "--to-earliest", "--execute"),
        )
        assert "inactive" in refused.out
        assert desk.committed(group, topic) == {0: 2, 1: 3}
