"""kafka-consumer-groups lists and describes groups: members, states, offsets and lags."""

import pytest

from tests.tools.desk import FOREVER, Desk

pytestmark = pytest.mark.interop


def test_groups_are_listed_by_state_and_type(desk: Desk, topic: str, group: str) -> None:
    """--list, alone, with states and types, and filtered by them."""
    live = f"{group}-live"
    desk.create_topic(topic)
    desk.commit(group, topic, {0: 0})
    with desk.member(live, topic):
        names = desk.run("kafka-consumer-groups", "--list").out.split()
        assert {group, live} <= set(names)
        states = {row["GROUP"]: row["STATE"] for row in desk.groups("--list", "--state")}
        assert (states[group], states[live]) == ("Empty", "Stable")
        types = {row["GROUP"]: row["TYPE"] for row in desk.groups("--list", "--type")}
        assert (types[group], types[live]) == ("Classic", "Classic")
        stable = desk.groups("--list", "--state", "stable")
        assert live in {row["GROUP"] for row in stable}
        assert {row["STATE"] for row in stable} == {"Stable"}
        both = {row["GROUP"]: row for row in desk.groups("--list", "--type", "classic", "--state", "empty")}
        assert both[group] == {"GROUP": group, "TYPE": "Classic", "STATE": "Empty"}
        assert live not in both
        assert not desk.groups("--list", "--type", "consumer")
        assert not desk.groups("--list", "--state", "dead")


def test_kafka_groups_lists_every_kind(desk: Desk, topic: str, group: str) -> None:
    """The tool over all kinds of groups shows the type and the protocol."""
    live = f"{group}-live"
    desk.create_topic(topic)
    desk.commit(group, topic, {0: 0})
    with desk.member(live, topic):
        found = {row["GROUP"]: row for row in desk.groups_of_all_kinds()}
        assert found[live] == {"GROUP": live, "TYPE": "Classic", "PROTOCOL": "consumer"}
        assert live in {row["GROUP"] for row in desk.groups_of_all_kinds("--group-type", "classic")}
        assert live in {row["GROUP"] for row in desk.groups_of_all_kinds("--protocol", "consumer")}
        assert not desk.groups_of_all_kinds("--share")
        assert not desk.groups_of_all_kinds("--streams")
        assert live in {row["GROUP"] for row in desk.groups_of_all_kinds("--consumer")}


def test_members_and_their_assignments(desk: Desk, topic: str, group: str) -> None:
    """--members counts partitions; --verbose names them, and a static member shows its instance."""
    desk.create_topic(topic, 3)
    with desk.member(group, topic, client_id="till-1", group_instance_id="till"):
        (member,) = desk.groups("--describe", "--group", group, "--members")
        assert member["GROUP"] == group
        assert member["CLIENT-ID"] == "till-1"
        assert member["GROUP-INSTANCE-ID"] == "till"
        assert member["CONSUMER-ID"].startswith("till-")
        assert member["HOST"] == "/127.0.0.1"
        assert member["#PARTITIONS"] == "3"
        (verbose,) = desk.groups("--describe", "--group", group, "--members", "--verbose")
        assert verbose["CURRENT-ASSIGNMENT"] == f"{topic}:0,1,2"
        assert verbose["CONSUMER-ID"] == member["CONSUMER-ID"]


def test_the_state_of_a_group(desk: Desk, topic: str, group: str) -> None:
    """--state shows the coordinator, the assignor, the state and how many members there are."""
    desk.create_topic(topic)
    with desk.member(group, topic, partition_assignment_strategy="roundrobin"):
        (state,) = desk.groups("--describe", "--group", group, "--state")
        assert state["COORDINATOR"].startswith(f"{desk.bootstrap}(")
        assert state["ASSIGNMENT-STRATEGY"] == "roundrobin"
        assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "1")
        (verbose,) = desk.groups("--describe", "--group", group, "--state", "--verbose")
        assert verbose["STATE"] == "Stable"
    desk.wait_empty(group)
    (left,) = desk.groups("--describe", "--group", group, "--state")
    assert (left["STATE"], left["#MEMBERS"]) == ("Empty", "0")


def test_offsets_and_lags(desk: Desk, topic: str, group: str) -> None:
    """--offsets shows the committed offset, end offset, lag and consumer of each partition."""
    desk.create_topic(topic, 3, FOREVER)
    desk.produce(topic, {0: [1000] * 5, 1: [1000] * 2})
    desk.commit(group, topic, {0: 3, 2: 0})
    described = desk.groups("--describe", "--group", group, "--offsets")
    numbers = {
        int(row["PARTITION"]): (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in described
    }
    assert numbers == {0: ("3", "5", "2"), 2: ("0", "0", "0")}
    assert {row["CONSUMER-ID"] for row in described} == {"-"}
    with desk.member(group, topic, client_id="reader"):
        assigned = desk.groups("--describe", "--group", group)
        numbers = {
            int(row["PARTITION"]): (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"])
            for row in assigned
        }
        assert numbers == {0: ("3", "5", "2"), 1: ("-", "2", "-"), 2: ("0", "0", "0")}
        assert {row["CLIENT-ID"] for row in assigned} == {"reader"}
        verbose = desk.groups("--describe", "--group", group, "--offsets", "--verbose")
        assert {row["PARTITION"] for row in verbose} == {"0", "1", "2"}


def test_all_groups_are_described_at_once(desk: Desk, topic: str, group: str) -> None:
    """--all-groups describes every existing group."""
    others = {f"{group}-{number}" for number in range(3)}
    desk.create_topic(topic)
    for other in others:
        desk.commit(other, topic, {0: 0})
    described = desk.groups("--describe", "--all-groups", "--offsets")
    assert others <= {row["GROUP"] for row in described}
    states = {row["GROUP"]: row["STATE"] for row in desk.groups("--describe", "--all-groups", "--state")}
    assert {states[other] for other in others} == {"Empty"}
    assert others <= set(states)


def test_a_group_that_does_not_exist(desk: Desk, group: str) -> None:
    """The group has nothing to describe, and the tool reports this."""
    for part in ("--offsets", "--members", "--state"):
        done = desk.run("kafka-consumer-groups", "--describe", "--group", group, part)
        assert f"{group}" in done.out
        assert "does not exist" in done.out or "not found" in done.out
