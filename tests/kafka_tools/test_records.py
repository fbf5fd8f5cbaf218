"""kafka-console-producer, kafka-console-consumer and groups, beyond what the recorded stories show."""

import signal
import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from groupd_client import Groupd

from coordinator.cli.kafka_tools.group_member import assign_range
from coordinator.cli.kafka_tools.record_sender import murmur2
from tests.interop.broker import eventually
from tests.interop.daemon import Daemon
from tests.kafka_tools.calls import TIMEOUT_S, run_tool, run_well, start_tool
from tests.shared_fixtures import shared

HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Of Kafka's own test of its hash."""


@shared(Daemon.is_alive, scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Three brokers, each with some partitions and some groups."""
    daemon = Daemon(str(tmp_path_factory.mktemp("three")), "--brokers", "3", "-o", "control.enable=true")
    yield daemon
    daemon.stop()


def _create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    run_well(
        "kafka-topics",
        *("--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", str(partitions)),
    )


def _produce(bootstrap: str, topic: str, *options: str, lines: str) -> None:
    run_well(
        "kafka-console-producer", "--bootstrap-server", bootstrap, "--topic", topic, *options, stdin=lines
    )


def _consume(bootstrap: str, topic: str, count: int, *options: str) -> list[str]:
    words = ("--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", str(count), *options)
    return run_well("kafka-console-consumer", *words).splitlines()


def test_keys_are_hashed_as_by_kafkas_producer() -> None:
    assert {key: murmur2(key) - (murmur2(key) >> 31 << 32) for key in HASHES} == HASHES


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_survive_compression(bootstrap: str, codec: str) -> None:
    _create(bootstrap, "packed")
    lines = [f"line {number} " + "x" * 50 for number in range(2000)]
    _produce(bootstrap, "packed", "--compression-codec", codec, lines="\n".join(lines))
    assert _consume(bootstrap, "packed", 2000, "--from-beginning") == lines


def test_a_record_that_is_too_large_is_named_and_others_are_written(bootstrap: str) -> None:
    _create(bootstrap, "large")
    lines = "a\n" + "x" * 2_000_000 + "\nb\n"
    arguments = ["--bootstrap-server", bootstrap, "--topic", "large"]
    result = run_tool("kafka-console-producer", arguments, lines)
    assert result.status == 0
    assert "value: 2000000 bytes with error: org.apache.kafka.common.errors.RecordTooLarge" in result.err
    assert _consume(bootstrap, "large", 2, "--from-beginning") == ["a", "b"]
    assert run_tool("kafka-console-producer", [*arguments, "--sync"], lines).status == 1


def test_tools_follow_leaders_and_coordinators(three_brokers: Daemon) -> None:
    """The tool gets the address of one of three brokers."""
    bootstrap = three_brokers.bootstrap.split(",")[0]
    _create(bootstrap, "spread", 6)
    described = run_well("kafka-topics", "--bootstrap-server", bootstrap, "--describe", "--topic", "spread")
    assert {line.split("Leader: ")[1].split("\t")[0] for line in described.splitlines()[1:]} == {
        "1",
        "2",
        "3",
    }
    keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    _produce(bootstrap, "spread", *keys, lines="".join(f"key-{number}:{number}\n" for number in range(60)))
    offsets = run_well("kafka-get-offsets", "--bootstrap-server", bootstrap, "--topic", "spread")
    ends = [int(line.rpartition(":")[2]) for line in offsets.splitlines()]
    assert (len(ends), sum(ends)) == (6, 60)
    for number in range(6):
        group = f"group-{number}"
        read = _consume(bootstrap, "spread", 60, "--from-beginning", "--group", group)
        assert sorted(map(int, read)) == list(range(60))
    listed = run_well("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--list").split()
    assert {f"group-{number}" for number in range(6)} <= set(listed)
    states = run_well(
        "kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--all-groups", "--state"
    )
    assert len({line.split()[1] for line in states.splitlines() if line.startswith("group-")}) > 1
    lags = run_well("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--all-groups")
    assert {line.split()[5] for line in lags.splitlines() if line.startswith("group-")} == {"0"}
    reset = ("--all-groups", "--topic", "spread", "--reset-offsets", "--to-earliest", "--execute")
    run_well("kafka-consumer-groups", "--bootstrap-server", bootstrap, *reset)
    deleted = run_well("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--delete", "--all-groups")
    assert "was successful" in deleted
    versions = run_well("kafka-broker-api-versions", "--bootstrap-server", bootstrap)
    assert versions.count("-> (") == 3
    assert run_tool("cub", ["kafka-ready", "-b", bootstrap, "3", "60"]).status == 0


def test_a_consumer_follows_its_coordinator(three_brokers: Daemon) -> None:
    """The coordinator moves to another broker and back; the consumer reads on, and its offsets are committed."""
    bootstrap = three_brokers.bootstrap.split(",")[0]
    _create(bootstrap, "moving")
    words = ("--bootstrap-server", bootstrap, "--topic", "moving", "--group", "moving", "--from-beginning")
    interval = ("--command-property", "heartbeat.interval.ms=100")
    consumer = start_tool("kafka-console-consumer", *words, *interval)
    assert consumer.stdout is not None
    try:
        with Groupd(f"http://{three_brokers.http}") as groupd:
            for number in range(3):
                _produce(bootstrap, "moving", lines=f"{number}\n")
                assert consumer.stdout.readline() == f"{number}\n"
                groupd.group("moving").failover(to=number + 1)
        consumer.send_signal(signal.SIGTERM)
        assert consumer.communicate(timeout=TIMEOUT_S)[0] == ""
    finally:
        consumer.kill()
    described = run_well(
        "kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", "moving"
    )
    assert described.splitlines()[-1].split()[3:6] == ["3", "3", "0"]


def test_a_consumer_shares_its_group_and_leaves_it(bootstrap: str) -> None:
    """With a member of another client: each has a partition. It ends by SIGTERM, and the other has both."""
    _create(bootstrap, "shared", 2)
    ours = start_tool(
        "kafka-console-consumer", "--bootstrap-server", bootstrap, "--topic", "shared", "--group", "both"
    )
    settings: dict[str, str | int] = {
        "bootstrap.servers": bootstrap,
        "group.id": "both",
        "heartbeat.interval.ms": 100,
        "partition.assignment.strategy": "range",
    }
    theirs = Consumer(settings)
    theirs.subscribe(["shared"])

    def assigned(count: int) -> bool:
        theirs.poll(0.1)
        return len(theirs.assignment()) == count

    def members() -> str:
        words = ("--bootstrap-server", bootstrap, "--describe", "--group", "both", "--members")
        return run_tool("kafka-consumer-groups", words).out

    try:
        eventually(
            "both members to be there", lambda: assigned(1) and members().count("both  ") == 2, members
        )
        ours.send_signal(signal.SIGTERM)
        _, err = ours.communicate(timeout=TIMEOUT_S)
        assert ours.returncode == 128 + signal.SIGTERM
        assert "Processed a total of 0 messages" in err
        eventually("the other member to have both partitions", lambda: assigned(2), members)
    finally:
        theirs.close()
        ours.kill()
        ours.communicate()


def test_partitions_are_divided_as_by_kafkas_range_assignor() -> None:
    topics = {"c": ["t", "u"], "a": ["t"], "b": ["t", "u"]}
    order = {"c": (0, "instance"), "a": (1, "a"), "b": (1, "b")}
    assert assign_range(topics, order, {"t": 5, "u": 3}) == {
        "c": [("t", 0), ("t", 1), ("u", 0), ("u", 1)],
        "a": [("t", 2), ("t", 3)],
        "b": [("t", 4), ("u", 2)],
    }


def test_a_consumer_finds_a_topic_that_is_created_later(bootstrap: str) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", "later", "--from-beginning", "--max-messages", "1")
    consumer = start_tool("kafka-console-consumer", *words)
    _create(bootstrap, "later", 3)
    _produce(bootstrap, "later", lines="found\n")
    out, _ = consumer.communicate(timeout=TIMEOUT_S)
    assert (consumer.returncode, out) == (0, "found\n")


def test_only_what_was_printed_is_committed(bootstrap: str) -> None:
    _create(bootstrap, "counted")
    _produce(bootstrap, "counted", lines="".join(f"{number}\n" for number in range(10)))
    read = _consume(bootstrap, "counted", 3, "--from-beginning", "--group", "counting")
    assert read == ["0", "1", "2"]
    assert _consume(bootstrap, "counted", 2, "--group", "counting") == ["3", "4"]
    described = run_well(
        "kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", "counting"
    )
    assert described.splitlines()[-1].split()[3:6] == ["5", "10", "5"]


def test_read_committed_leaves_out_aborted_transactions(bootstrap: str) -> None:
    _create(bootstrap, "transacted")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer"})
    producer.init_transactions(TIMEOUT_S)
    for value, commits in (("a", True), ("b", False), ("c", True)):
        producer.begin_transaction()
        producer.produce("transacted", value)
        assert producer.flush(TIMEOUT_S) == 0
        end = producer.commit_transaction if commits else producer.abort_transaction
        end(TIMEOUT_S)
    committed = ("--from-beginning", "--isolation-level", "read_committed")
    assert _consume(bootstrap, "transacted", 2, *committed) == ["a", "c"]
    assert _consume(bootstrap, "transacted", 3, "--from-beginning") == ["a", "b", "c"]


def test_a_reader_that_has_enough_ends_the_consumer(bootstrap: str) -> None:
    _create(bootstrap, "endless")
    _produce(bootstrap, "endless", lines="".join(f"{number}\n" for number in range(30_000)))
    consumer = start_tool(
        "kafka-console-consumer", "--bootstrap-server", bootstrap, "--topic", "endless", "--from-beginning"
    )
    assert consumer.stdout is not None
    assert consumer.stdout.readline() == "0\n"
    consumer.stdout.close()
    assert consumer.wait(TIMEOUT_S) == 0
    assert consumer.stderr is not None
    assert "Traceback" not in consumer.stderr.read()
    consumer.stderr.close()


def test_lines_are_written_as_they_arrive(bootstrap: str) -> None:
    """The producer sends lines while its input stays open."""
    _create(bootstrap, "live")
    words = ("--bootstrap-server", bootstrap, "--topic", "live", "--timeout", "0")
    producer = start_tool("kafka-console-producer", *words, stdin=subprocess.PIPE)
    assert producer.stdin is not None
    for text in ("first", "second"):
        producer.stdin.write(f"{text}\n")
        producer.stdin.flush()
        assert _consume(bootstrap, "live", 1, "--group", "live", "--from-beginning") == [text]
    assert producer.communicate(timeout=TIMEOUT_S) == ("", "")
    assert producer.returncode == 0
