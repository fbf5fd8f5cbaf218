"""kafka-consumer-groups deletes groups and their offsets, unless they have members."""

import pytest

from tests.tools.desk import Desk
from tests.tools.table import rows

pytestmark = pytest.mark.interop


def _names(desk: Desk) -> set[str]:
    return set(desk.run("kafka-consumer-groups", "--list").out.split())


def test_groups_are_deleted(desk: Desk, topic: str, group: str) -> None:
    """--delete removes the groups that it names and no other; one that is not there is an error."""
    desk.create_topic(topic)
    for name in (group, f"{group}-2", f"{group}-kept"):
        desk.commit(name, topic, {0: 0})
    desk.groups("--delete", "--group", group, "--group", f"{group}-2")
    assert not _names(desk) & {group, f"{group}-2"}
    assert f"{group}-kept" in _names(desk)
    assert "Error" in desk.run("kafka-consumer-groups", "--delete", "--group", group).out


def test_a_group_with_members_is_not_deleted(desk: Desk, topic: str, group: str) -> None:
    """It has to be empty first."""
    desk.create_topic(topic)
    with desk.member(group, topic):
        assert "Error" in desk.run("kafka-consumer-groups", "--delete", "--group", group).out
        assert group in _names(desk)
    desk.wait_empty(group)
    desk.groups("--delete", "--group", group)
    assert group not in _names(desk)


def test_offsets_are_deleted(desk: Desk, topic: str, group: str) -> None:
    """--delete-offsets takes those of the topic's partitions, or of the named ones."""
    other = f"{topic}-other"
    desk.create_topic(topic, 3)
    desk.create_topic(other)
    desk.commit(group, topic, {0: 0, 1: 0, 2: 0})
    desk.commit(group, other, {0: 0})
    delete = ("kafka-consumer-groups", "--delete-offsets", "--group", group, "--topic")
    printed = rows(desk.run(*delete, f"{topic}:1").out, first="TOPIC")
    assert printed == [{"TOPIC": topic, "PARTITION": "1", "STATUS": "Successful"}]
    assert desk.committed(group, topic) == {0: 0, 2: 0}
    printed = rows(desk.run(*delete, topic).out, first="TOPIC")
    assert {(row["PARTITION"], row["STATUS"]) for row in printed} == {
        (str(n), "Successful") for n in range(3)
    }
    assert desk.committed(group, topic) == {}
    assert desk.committed(group, other) == {0: 0}


def test_offsets_of_a_topic_that_is_being_read_stay(desk: Desk, topic: str, group: str) -> None:
    """Only the offsets of a topic without a subscribed member can be deleted."""
    other = f"{topic}-other"
    desk.create_topic(topic)
    desk.create_topic(other)
    desk.commit(group, topic, {0: 0})
    desk.commit(group, other, {0: 0})
    delete = ("kafka-consumer-groups", "--delete-offsets", "--group", group, "--topic")
    with desk.member(group, topic):
        assert "Error" in desk.run(*delete, topic).out
        assert "Error" not in desk.run(*delete, other).out
        assert desk.committed(group, topic) == {0: 0}
        assert desk.committed(group, other) == {}
    assert (
        "Error"
        in desk.run(
            "kafka-consumer-groups", "--delete-offsets", "--group", f"{group}-none", "--topic", topic
        ).out
    )
