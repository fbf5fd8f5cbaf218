"""The console and verifiable clients, kafka-get-offsets, kafka-delete-records, and the tools that describe a
broker."""

import json
import re
from pathlib import Path

import pytest

from tests.tools.desk import FOREVER, Desk

pytestmark = pytest.mark.interop


def _produce(desk: Desk, topic: str, text: str, *options: str) -> None:
    done = desk.run("kafka-console-producer", "--topic", topic, *options, stdin=text)
    assert done.status == 0, done


def _consume(desk: Desk, topic: str, count: int, *options: str) -> str:
    done = desk.run(
        *("kafka-console-consumer", "--topic", topic, "--max-messages", str(count)),
        *("--timeout-ms", "20000", *options),
    )
    assert done.status == 0, done
    return done.out


def _offsets(desk: Desk, *arguments: str) -> dict[int, int]:
    done = desk.run("kafka-get-offsets", *arguments)
    assert done.status == 0, done
    lines = [line.split(":") for line in done.out.split()]
    return {int(partition): int(offset) for _, partition, offset in lines}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_the_console_producer_writes_the_console_consumer_prints(
    desk: Desk, topic: str, codec: str
) -> None:
    """Keys, headers and values, in every codec."""
    desk.create_topic(topic)
    parse = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    _produce(desk, topic, "h:1\tk1\tone\nh:2\tk2\ttwo\n", *parse, "--compression-codec", codec)
    print_all = [f"print.{part}=true" for part in ("key", "headers", "partition", "offset")]
    options = [word for part in print_all for word in ("--formatter-property", part)]
    printed = _consume(desk, topic, 2, "--from-beginning", *options).splitlines()
    assert printed == [
        "Partition:0\tOffset:0\th:1\tk1\tone",
        "Partition:0\tOffset:1\th:2\tk2\ttwo",
    ]
    assert _consume(desk, topic, 1, "--partition", "0", "--offset", "1") == "two\n"


def test_the_console_consumer_resumes_where_its_group_was(desk: Desk, topic: str, group: str) -> None:
    """With --group it joins, commits its position, and resumes from it."""
    desk.create_topic(topic)
    _produce(desk, topic, "one\ntwo\nthree\n")
    assert _consume(desk, topic, 2, "--group", group, "--from-beginning") == "one\ntwo\n"
    assert desk.committed(group, topic) == {0: 2}
    assert _consume(desk, topic, 1, "--group", group) == "three\n"
    (state,) = desk.groups("--describe", "--group", group, "--state")
    assert state["STATE"] == "Empty"


def test_committed_offsets_are_read_with_kafkas_formatter(desk: Desk, topic: str, group: str) -> None:
    """The records of __consumer_offsets are Kafka's, read over the wire, where Kafka would look for them."""
    desk.create_topic(topic)
    desk.commit(group, topic, {0: 42})
    ends = _offsets(desk, "--topic", "__consumer_offsets")
    partition = _partition_of(group, len(ends))
    printed = _consume(
        *(desk, "__consumer_offsets", ends[partition]),
        *("--partition", str(partition), "--offset", "earliest"),
        *("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"),
    )
    records = [json.loads(text) for text in printed.replace("}{", "}\n{").splitlines()]
    (found,) = [record for record in records if record["key"]["data"]["group"] == group]
    assert (found["key"]["data"]["topic"], found["key"]["data"]["partition"]) == (topic, 0)
    assert found["value"]["data"]["offset"] == 42


def _partition_of(group: str, partitions: int) -> int:
    """Where Kafka keeps a group: the absolute value of Java's hash of its name."""
    hashed = 0
    for character in group:
        hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
    return min(hashed, 0x1_0000_0000 - hashed) % partitions


def test_offsets_by_time(desk: Desk, topic: str) -> None:
    """Earliest, latest, of the greatest time, and at or after a time."""
    desk.create_topic(topic, 2, FOREVER)
    desk.produce(topic, {0: [1000, 3000, 2000], 1: [5000]})
    query = ("--topic", topic, "--time")
    assert _offsets(desk, "--topic", topic) == {0: 3, 1: 1}
    assert _offsets(desk, *query, "latest") == {0: 3, 1: 1}
    assert _offsets(desk, *query, "earliest") == {0: 0, 1: 0}
    assert _offsets(desk, *query, "max-timestamp") == {0: 1, 1: 0}
    assert _offsets(desk, *query, "earliest-local") == {0: 0, 1: 0}
    assert _offsets(desk, *query, "1500") == {0: 1, 1: 0}
    assert _offsets(desk, "--topic-partitions", f"{topic}:1") == {1: 1}
    assert _offsets(desk, "--topic", topic, "--partitions", "0") == {0: 3}


def test_records_are_deleted(desk: Desk, topic: str, tmp_path: Path) -> None:
    """kafka-delete-records moves the start of a partition."""
    desk.create_topic(topic, 2, FOREVER)
    desk.produce(topic, {0: [1000] * 4, 1: [1000] * 4})
    wanted = [{"topic": topic, "partition": 0, "offset": 3}, {"topic": topic, "partition": 1, "offset": -1}]
    file = tmp_path / "records.json"
    file.write_text(json.dumps({"partitions": wanted, "version": 1}))
    done = desk.run("kafka-delete-records", "--offset-json-file", str(file))
    assert done.status == 0, done
    assert _offsets(desk, "--topic", topic, "--time", "earliest") == {0: 3, 1: 4}
    assert _offsets(desk, "--topic", topic, "--time", "latest") == {0: 4, 1: 4}


def test_the_verifiable_clients_lose_nothing(desk: Desk, topic: str, group: str) -> None:
    """What the verifiable producer had acknowledged, the verifiable consumer counts and commits."""
    desk.create_topic(topic, 3)
    produced = desk.run_alone("kafka-verifiable-producer", "--topic", topic, "--max-messages", "300")
    events = [json.loads(line) for line in produced.out.splitlines()]
    assert [event["acked"] for event in events if event["name"] == "tool_data"] == [300]
    consumed = desk.run(
        *("kafka-verifiable-consumer", "--topic", topic, "--group-id", group, "--group-protocol", "classic"),
        *("--max-messages", "300", "--reset-policy", "earliest"),
    )
    events = [json.loads(line) for line in consumed.out.splitlines()]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 300
    assert {event["success"] for event in events if event["name"] == "offsets_committed"} == {True}
    assert sum(desk.committed(group, topic).values()) == 300


def test_the_versions_of_the_broker(desk: Desk) -> None:
    """kafka-broker-api-versions finds a usable version of every API that groups need."""
    done = desk.run("kafka-broker-api-versions")
    assert done.status == 0, done
    usable = dict(re.findall(r"(\w+)\(\d+\): .*\[usable: (\d+)\]", done.out))
    assert {"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"} <= set(usable)


def test_the_cluster_has_an_id(desk: Desk) -> None:
    """kafka-cluster prints it, the same each time."""
    first, second = (desk.run("kafka-cluster", "cluster-id").out for _ in range(2))
    assert re.search(r"Cluster ID: \S+", first)
    assert first == second
