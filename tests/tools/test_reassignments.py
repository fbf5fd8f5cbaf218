"""kafka-reassign-partitions and kafka-leader-election move coordinators and leaders between three brokers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.interop.broker import Broker
from tests.interop.control_room import ControlRoom
from tests.interop.daemon import Daemon
from tests.kafka_log.connection import Connection
from tests.shared_fixtures import shared
from tests.tools.desk import Desk
from tests.tools.machine import Machine

pytestmark = pytest.mark.interop

OFFSETS = "__consumer_offsets"
Placed = Mapping[tuple[str, int], Sequence[int]]
"""Replicas by topic and partition."""


@shared(Broker.is_alive)
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One process for all the tests of this file."""
    daemon = Daemon(str(tmp_path_factory.mktemp("groupd")), "--brokers", "3")
    try:
        yield Broker(daemon.bootstrap, daemon)
    except BaseException:
        daemon.kill()
        raise
    daemon.stop()


class Office:
    """Kafka's tools, compared with groupd's own view of its cluster."""

    def __init__(self, broker: Broker, machine: Machine, directory: Path) -> None:
        self.desk = Desk(broker, machine)
        self.room = ControlRoom(broker, "")
        self._directory = directory

    def file(self, **content: object) -> str:
        """A file of JSON for a tool."""
        path = self._directory / "plan.json"
        path.write_text(json.dumps(content))
        return str(path)

    def reassign(self, placed: Placed, *how: str) -> str:
        """Return the output of kafka-reassign-partitions. `how` is --execute, --verify or --cancel."""
        wanted = [
            {"topic": topic, "partition": number, "replicas": list(replicas)}
            for (topic, number), replicas in placed.items()
        ]
        plan = self.file(version=1, partitions=wanted)
        done = self.desk.run("kafka-reassign-partitions", "--reassignment-json-file", plan, *how)
        assert done.status == 0, done
        return done.out

    def elect(self, topic: str, number: int) -> str:
        """What kafka-leader-election prints of an election of the preferred leader."""
        plan = self.file(partitions=[{"topic": topic, "partition": number}])
        words = ("--election-type", "preferred", "--path-to-json-file", plan)
        done = self.desk.run("kafka-leader-election", *words)
        assert done.status == 0, done
        return done.out

    def state(self, topic: str, number: int) -> tuple[int, list[int]]:
        """Owner and replicas of a partition."""
        [found] = [
            each
            for each in self.room.ask("GET", "/cluster")["partitions"]
            if (each["topic"], each["partition"]) == (topic, number)
        ]
        return found["owner"], found["replicas"]


@pytest.fixture
def office(three_brokers: Broker, machine: Machine, tmp_path: Path) -> Office:
    return Office(three_brokers, machine, tmp_path)


def test_a_coordinator_and_a_leader_are_reassigned(office: Office, topic: str, group: str) -> None:
    """--execute moves both, --verify finds it done, and the group has its offsets at the new coordinator."""
    office.desk.create_topic(topic, 2)
    office.desk.commit(group, topic, {0: 7})
    moved = office.room.ask("POST", "/cluster/move", {"group": group, "to": 1})
    number = moved["partition"]
    leads = office.state(topic, 0)[0]
    placed: Placed = {(OFFSETS, number): [3], (topic, 0): [leads % 3 + 1]}
    assert "Successfully started partition reassignments" in office.reassign(placed, "--execute")
    verified = office.reassign(placed, "--verify")
    assert verified.count("is completed") == len(placed), verified
    for partition, replicas in placed.items():
        assert office.state(*partition) == (replicas[0], replicas)
    assert office.desk.committed(group, topic) == {0: 7}


def test_the_preferred_coordinator_is_elected(office: Office, topic: str, group: str) -> None:
    office.desk.create_topic(topic)
    office.desk.commit(group, topic, {0: 7})
    number = office.room.ask("POST", "/cluster/move", {"group": group, "to": 1})["partition"]
    office.reassign({(OFFSETS, number): [2, 1, 3]}, "--execute")
    assert office.state(OFFSETS, number) == (1, [2, 1, 3])
    assert "Successfully completed leader election" in office.elect(OFFSETS, number)
    assert office.state(OFFSETS, number) == (2, [2, 1, 3])
    assert "Valid replica already elected" in office.elect(OFFSETS, number)
    assert office.desk.committed(group, topic) == {0: 7}


def test_what_waits_for_a_stopped_broker_is_listed_and_cancelled(office: Office, topic: str) -> None:
    office.desk.create_topic(topic)
    leads, replicas = office.state(topic, 0)
    stopped = 2 if leads == 3 else 3
    plan: Placed = {(topic, 0): [stopped]}
    office.room.ask("POST", f"/cluster/brokers/{stopped}/stop")
    try:
        asked = ReassignablePartition(partition_index=0, replicas=[stopped])
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=[asked])]
        )
        with Connection(office.desk.bootstrap) as connection:  # the tool knows of no broker that is stopped
            connection.call(request, 0)
        listed = office.desk.run("kafka-reassign-partitions", "--list")
        assert f"{topic}-0" in listed.out, listed
        assert "still in progress" in office.reassign(plan, "--verify")
        # It would ask the broker that is stopped about throttles.
        assert "Successfully cancelled" in office.reassign(plan, "--cancel", "--preserve-throttles")
        assert office.state(topic, 0) == (leads, replicas)
    finally:
        office.room.ask("POST", f"/cluster/brokers/{stopped}/start")


def test_two_replicas_of_records_are_refused(office: Office, topic: str) -> None:
    """The tool prints the reason."""
    office.desk.create_topic(topic)
    before = office.state(topic, 0)
    plan = office.file(version=1, partitions=[{"topic": topic, "partition": 0, "replicas": [1, 2]}])
    done = office.desk.run("kafka-reassign-partitions", "--reassignment-json-file", plan, "--execute")
    assert done.status != 0
    assert "one replica" in done.out + done.err
    assert office.state(topic, 0) == before
