"""kafka-topics and kafka-configs: create, list, describe, alter, delete."""

import pytest

from tests.tools.desk import Desk
from tests.tools.table import Row, fields

pytestmark = pytest.mark.interop


def _listed(desk: Desk, *arguments: str) -> set[str]:
    done = desk.run("kafka-topics", "--list", *arguments)
    assert done.status == 0, done
    return set(done.out.split())


def _described(desk: Desk, *arguments: str) -> list[Row]:
    done = desk.run("kafka-topics", "--describe", *arguments)
    assert done.status == 0, done
    return [fields(line) for line in done.out.splitlines() if line.strip()]


def _configs(desk: Desk, kind: str, name: str, *arguments: str) -> dict[str, str]:
    done = desk.run("kafka-configs", "--entity-type", kind, "--entity-name", name, *arguments)
    assert done.status == 0, done
    pairs = [line.split()[0].partition("=") for line in done.out.splitlines() if line.startswith("  ")]
    return {key: value for key, _, value in pairs}


def test_a_topic_is_created_described_and_deleted(desk: Desk, topic: str) -> None:
    """The topic has the requested partitions and configs."""
    create = ("kafka-topics", "--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1")
    done = desk.run(*create, "--config", "retention.ms=60000", "--config", "cleanup.policy=compact")
    assert done.status == 0, done
    assert topic in _listed(desk)
    head, *partitions = _described(desk, "--topic", topic)
    assert (head["PartitionCount"], head["ReplicationFactor"]) == ("3", "1")
    assert set(head["Configs"].split(",")) >= {"retention.ms=60000", "cleanup.policy=compact"}
    assert [row["Partition"] for row in partitions] == ["0", "1", "2"]
    assert {row["Leader"] == row["Replicas"] == row["Isr"] for row in partitions} == {True}
    (by_id, *_) = _described(desk, "--topic-id", head["TopicId"])
    assert by_id["Topic"] == topic
    assert desk.run(*create).status == 1
    assert desk.run(*create, "--if-not-exists").status == 0
    assert desk.run("kafka-topics", "--delete", "--topic", topic).status == 0
    assert topic not in _listed(desk)
    assert desk.run("kafka-topics", "--delete", "--topic", topic).status == 1
    assert desk.run("kafka-topics", "--delete", "--topic", topic, "--if-exists").status == 0
    assert desk.run("kafka-topics", "--describe", "--topic", topic).status == 1


def test_partitions_are_added(desk: Desk, topic: str) -> None:
    """--alter raises the count and cannot lower it."""
    desk.create_topic(topic, 2)
    alter = ("kafka-topics", "--alter", "--topic", topic, "--partitions")
    assert desk.run(*alter, "5").status == 0
    assert _described(desk, "--topic", topic)[0]["PartitionCount"] == "5"
    assert desk.run(*alter, "4").status == 1
    assert _described(desk, "--topic", topic)[0]["PartitionCount"] == "5"


def test_what_cannot_be_created(desk: Desk, topic: str) -> None:
    """Creation fails with more replicas than brokers, an invalid name or an unknown config."""
    create = ("kafka-topics", "--create", "--topic")
    assert desk.run(*create, topic, "--replication-factor", "3").status == 1
    assert desk.run(*create, topic, "--replica-assignment", "77").status == 1
    assert desk.run(*create, f"{topic}/a", "--partitions", "1").status == 1
    assert topic not in _listed(desk)


def test_the_filters_of_list_and_describe(desk: Desk, topic: str) -> None:
    """Patterns, internal topics, and the reports about replicas, which find nothing on one healthy broker."""
    desk.create_topic(f"{topic}-a")
    desk.create_topic(f"{topic}-b", 1, "flush.ms=77")
    assert _listed(desk, "--topic", f"{topic}-.*") == {f"{topic}-a", f"{topic}-b"}
    desk.run("kafka-consumer-groups", "--describe", "--group", topic)  # asks for a coordinator
    assert "__consumer_offsets" in _listed(desk)
    assert "__consumer_offsets" not in _listed(desk, "--exclude-internal")
    for report in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert _described(desk, report) == []
    at_minimum = {row["Topic"] for row in _described(desk, "--at-min-isr-partitions")}
    assert {f"{topic}-a", f"{topic}-b"} <= at_minimum
    overrides = {row["Topic"]: row["Configs"] for row in _described(desk, "--topics-with-overrides")}
    assert "cleanup.policy=compact" in overrides["__consumer_offsets"]
    assert [name for name in overrides if "flush.ms=77" in overrides[name]] == [f"{topic}-b"]
    assert overrides[f"{topic}-a"] == "min.insync.replicas=1"


def test_configs_of_a_topic_are_described_and_altered(desk: Desk, topic: str) -> None:
    """kafka-configs shows, adds and takes away."""
    desk.create_topic(topic)
    alter = ("--alter", "--add-config")
    assert _configs(desk, "topics", topic, "--describe") == {}
    _configs(desk, "topics", topic, *alter, "retention.ms=1000,max.message.bytes=2000")
    assert _configs(desk, "topics", topic, "--describe") == {
        "retention.ms": "1000",
        "max.message.bytes": "2000",
    }
    _configs(desk, "topics", topic, "--alter", "--delete-config", "retention.ms")
    assert _configs(desk, "topics", topic, "--describe") == {"max.message.bytes": "2000"}
    everything = _configs(desk, "topics", topic, "--describe", "--all")
    assert (everything["max.message.bytes"], everything["cleanup.policy"]) == ("2000", "delete")
    done = desk.run("kafka-configs", "--entity-type", "topics", "--entity-name", topic, *alter, "no.such=1")
    assert done.status != 0


def test_configs_of_the_broker_are_described(desk: Desk, topic: str) -> None:
    """All that the broker runs with, by Kafka's names."""
    desk.create_topic(topic)
    node = _described(desk, "--topic", topic)[1]["Leader"]
    everything = _configs(desk, "brokers", node, "--describe", "--all")
    assert everything["group.initial.rebalance.delay.ms"] == "0"
    assert everything["offsets.topic.num.partitions"].isdigit()


@pytest.mark.parametrize("kind", ["topics", "brokers", "groups", "client-metrics"])
def test_configs_of_all_that_there_is_are_described(desk: Desk, topic: str, kind: str) -> None:
    """Without a name kafka-configs first lists all resources."""
    desk.create_topic(topic, 1, "retention.ms=1000")
    done = desk.run("kafka-configs", "--entity-type", kind, "--describe")
    assert done.status == 0, done
    assert not done.err, done
    assert ("retention.ms=1000" in done.out) == (kind == "topics")
