"""Every mode and option of kcat that sends requests to a broker."""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.broker import Broker
from tests.interop.build import CannotBuild, tool
from tests.interop.requirement import lacking

pytestmark = pytest.mark.interop


def _kcat(broker: Broker, *arguments: str, stdin: str = "") -> str:
    try:
        program = tool("kcat")
    except CannotBuild as reason:
        lacking(str(reason))
        raise AssertionError("unreachable") from reason
    done = subprocess.run(
        [program, "-b", broker.bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        errors="replace",  # the keys of internal records are binary
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _produce_at(broker: Broker, topic: str, times_ms: list[int]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for time_ms in times_ms:
        producer.produce(topic, partition=0, value=f"at-{time_ms}", timestamp=time_ms)
    assert producer.flush(60) == 0


def test_metadata_lists_the_topic(broker: Broker, topic: str) -> None:
    """-L names the broker, the controller and the topic's partitions, as text and as JSON."""
    broker.create_topic(topic, 3)
    seen = json.loads(_kcat(broker, "-L", "-J", "-t", topic))
    assert broker.bootstrap in [node["name"] for node in seen["brokers"]]
    assert seen["controllerid"] in [node["id"] for node in seen["brokers"]]
    assert [(t["topic"], len(t["partitions"])) for t in seen["topics"]] == [(topic, 3)]
    leaders = {partition["leader"] for partition in seen["topics"][0]["partitions"]}
    assert leaders == {seen["brokers"][0]["id"]}
    assert f'topic "{topic}" with 3 partitions' in _kcat(broker, "-L", "-t", topic)


def test_metadata_lists_every_topic(broker: Broker, topic: str) -> None:
    """-L without a topic shows all topics, and __consumer_offsets after a client has requested a coordinator."""
    broker.create_topic(topic, 2)
    broker.coordinator(topic)
    seen = json.loads(_kcat(broker, "-L", "-J"))
    partitions = {found["topic"]: len(found["partitions"]) for found in seen["topics"]}
    assert partitions[topic] == 2
    assert "__consumer_offsets" in partitions


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produced_records_are_consumed(broker: Broker, topic: str, codec: str) -> None:
    """-P writes keys and values in every codec (-z), -C reads them, -Q prints the offsets."""
    broker.create_topic(topic, 1)
    _kcat(broker, "-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec, stdin="a:one\nb:two\nc:three\n")
    assert _kcat(broker, "-C", "-t", topic, "-o", "beginning", "-e", "-K", ":") == "a:one\nb:two\nc:three\n"
    assert "offset 3" in _kcat(broker, "-Q", "-t", f"{topic}:0:-1")
    assert "offset 0" in _kcat(broker, "-Q", "-t", f"{topic}:0:-2")


def test_partitions_keys_and_headers(broker: Broker, topic: str) -> None:
    """-p, -k and -H reach the record; the format tokens of -f show all of it."""
    broker.create_topic(topic, 3)
    _kcat(broker, "-P", "-t", topic, "-p", "2", "-k", "key", "-H", "a=1", "-H", "b=2", stdin="value\n")
    seen = _kcat(broker, "-C", "-t", topic, "-e", "-f", "%t %p %o %k %K %s %S %h\\n")
    assert seen == f"{topic} 2 0 key 3 value 5 a=1,b=2\n"
    (record,) = [json.loads(line) for line in _kcat(broker, "-C", "-t", topic, "-e", "-J").splitlines()]
    assert (record["partition"], record["key"], record["payload"]) == (2, "key", "value")
    assert record["headers"] == ["a", "1", "b", "2"]
    assert _kcat(broker, "-C", "-t", topic, "-p", "1", "-e") == ""


def test_binary_output_and_tee(broker: Broker, topic: str, tmp_path: Path) -> None:
    """-s unpacks binary keys and values, -T repeats the sent records, -F reads properties."""
    broker.create_topic(topic, 1)
    config = tmp_path / "kcat.conf"
    config.write_text("compression.codec=gzip\n")
    assert "abcd" in _kcat(broker, "-F", str(config), "-P", "-T", "-t", topic, "-k", "\x01", stdin="abcd\n")
    assert _kcat(broker, "-C", "-t", topic, "-e", "-s", "value=>i", "-f", "%s\\n") == "1633837924\n"
    assert _kcat(broker, "-C", "-t", topic, "-e", "-s", "key=b", "-f", "%k\\n") == "1\n"


def test_empty_and_null_values(broker: Broker, topic: str) -> None:
    """-Z produces a null for an empty value and prints it as NULL; without it the value is empty."""
    broker.create_topic(topic, 1)
    _kcat(broker, "-P", "-t", topic, "-K", ":", stdin="a:\n")
    _kcat(broker, "-P", "-t", topic, "-K", ":", "-Z", stdin="b:\n")
    assert _kcat(broker, "-C", "-t", topic, "-e", "-Z", "-f", "%k=%s %S\\n") == "a=NULL 0\nb=NULL -1\n"


def test_delimiters_and_files(broker: Broker, topic: str, tmp_path: Path) -> None:
    """-D divides records, -l reads a file line by line, a named file is one record, -c ends early."""
    broker.create_topic(topic, 1)
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    _kcat(broker, "-P", "-t", topic, "-l", str(lines))
    _kcat(broker, "-P", "-t", topic, str(lines))
    _kcat(broker, "-P", "-t", topic, "-D", ";;", stdin="three;;four")
    _kcat(broker, "-P", "-t", topic, "-c", "1", stdin="five\nsix\n")
    seen = _kcat(broker, "-C", "-t", topic, "-e", "-D", "|")
    assert seen == "one|two|one\ntwo\n|three|four|five|"


def test_large_records(broker: Broker, topic: str, tmp_path: Path) -> None:
    """A record of nearly a megabyte goes through; one that is larger than the topic allows is refused."""
    broker.create_topic(topic, 1)
    large = tmp_path / "large"
    large.write_text("x" * 900_000)
    _kcat(broker, "-P", "-t", topic, str(large))
    large.write_text("x" * 1_100_000)
    with pytest.raises(AssertionError, match="too large"):
        _kcat(broker, "-P", "-X", "message.max.bytes=2000000", "-t", topic, str(large))
    assert _kcat(broker, "-C", "-t", topic, "-e", "-f", "%S\\n") == "900000\n"


def test_where_reading_starts_and_ends(broker: Broker, topic: str) -> None:
    """-o takes a place from either end, a number, and times for start and end; -c counts."""
    broker.create_topic(topic, 1)
    start_ms = int(time.time() * 1000)
    _produce_at(broker, topic, [start_ms + 1000 * second for second in range(1, 5)])
    read = ("-C", "-t", topic, "-p", "0", "-e", "-f", "%o ")
    expected = {
        ("-o", "beginning"): "0 1 2 3 ",
        ("-o", "end"): "",
        ("-o", "2"): "2 3 ",
        ("-o", "-1"): "3 ",
        ("-o", "-3"): "1 2 3 ",
        ("-o", f"s@{start_ms + 1500}"): "1 2 3 ",
        ("-o", f"s@{start_ms + 1500}", "-o", f"e@{start_ms + 3000}"): "1 ",
        ("-o", "beginning", "-c", "2"): "0 1 ",
    }
    assert {where: _kcat(broker, *read, *where) for where in expected} == expected


def test_offsets_for_times(broker: Broker, topic: str) -> None:
    """-Q finds the first record at or after a time; -1 and -2 are the end and the start."""
    broker.create_topic(topic, 1)
    start_ms = int(time.time() * 1000)
    _produce_at(broker, topic, [start_ms + 1000, start_ms + 2000, start_ms + 3000])
    expected = {start_ms + 1500: 1, start_ms + 3000: 2, start_ms + 4000: -1, -1: 3, -2: 0}
    found = {asked: _kcat(broker, "-Q", "-t", f"{topic}:0:{asked}") for asked in expected}
    offsets = {asked: re.findall(r"offset (-?\d+)", answer) for asked, answer in found.items()}
    assert offsets == {asked: [str(offset)] for asked, offset in expected.items()}


def test_group_mode_resumes(broker: Broker, topic: str, group_name: str) -> None:
    """-G consumes to the end and commits when it leaves. The next run continues at the committed offset."""
    broker.create_topic(topic, 1)
    settings = ["-X", "auto.offset.reset=earliest", "-e", "-u"]
    _kcat(broker, "-P", "-t", topic, stdin="one\ntwo\n")
    assert _kcat(broker, *settings, "-G", group_name, topic) == "one\ntwo\n"
    _kcat(broker, "-P", "-t", topic, stdin="three\n")
    assert _kcat(broker, *settings, "-G", group_name, topic) == "three\n"


def test_group_mode_reads_several_topics_and_patterns(broker: Broker, topic: str, group_name: str) -> None:
    """-G takes more than one topic, or a pattern, and a number of records to stop after."""
    for name in (f"{topic}-a", f"{topic}-b"):
        broker.create_topic(name, 2)
        _kcat(broker, "-P", "-t", name, stdin=f"of {name}\n")
    settings = ["-X", "auto.offset.reset=earliest", "-u", "-c", "2"]
    both = {f"of {topic}-a", f"of {topic}-b"}
    named = _kcat(broker, *settings, "-G", group_name, f"{topic}-a", f"{topic}-b")
    assert set(named.splitlines()) == both
    matched = _kcat(broker, *settings, "-G", f"{group_name}-2", f"^{topic}-.*")
    assert set(matched.splitlines()) == both


def test_reading_from_the_stored_offset(broker: Broker, topic: str, group_name: str) -> None:
    """-C -o stored starts where the group has committed, without joining it."""
    broker.create_topic(topic, 1)
    _kcat(broker, "-P", "-t", topic, stdin="one\ntwo\nthree\n")
    committer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group_name})
    committer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    committer.close()
    stored = ("-C", "-t", topic, "-p", "0", "-o", "stored", "-e", "-X", f"group.id={group_name}")
    assert _kcat(broker, *stored) == "three\n"


def test_reading_a_missing_topic_is_an_error(broker: Broker, topic: str) -> None:
    """An offset past the end is reset by auto.offset.reset; an unknown partition is an error."""
    broker.create_topic(topic, 1)
    _kcat(broker, "-P", "-t", topic, stdin="one\n")
    read = ("-C", "-t", topic, "-e")
    assert _kcat(broker, *read, "-p", "0", "-o", "99", "-X", "auto.offset.reset=earliest") == "one\n"
    with pytest.raises(AssertionError, match="partition 7 does not exist"):
        _kcat(broker, *read, "-p", "7")


def test_producing_creates_a_topic(broker: Broker, topic: str) -> None:
    """-P to a missing topic creates it (auto.create.topics.enable)."""
    _kcat(broker, "-P", "-t", topic, stdin="first\n")
    assert _kcat(broker, "-C", "-t", topic, "-e") == "first\n"


def test_internal_topic_can_be_read(broker: Broker, topic: str, group_name: str) -> None:
    """A committed offset is a record of __consumer_offsets that a consumer can fetch."""
    broker.create_topic(topic, 1)
    _kcat(broker, "-P", "-t", topic, stdin="one\n")
    _kcat(broker, "-X", "auto.offset.reset=earliest", "-e", "-u", "-G", group_name, topic)
    seen = _kcat(broker, "-C", "-t", "__consumer_offsets", "-o", "beginning", "-e", "-f", "%k\\n")
    assert group_name in seen
