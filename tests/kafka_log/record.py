"""Capture data directories of a real broker for the tests: python -m tests.kafka_log.record [NAME ...]

Needs Java, Maven and a minute. Each scenario runs its own broker with real clients, records the broker's responses,
and stops or kills it. It keeps the whole data directory, the responses and the output of Kafka's log tool. `values`
are records of the offsets log in every version that Kafka's classes can write.

The broker's indexes are small here, because a killed broker leaves all of them preallocated.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from storage.compression import CODEC_NAMES
from tests.archive import pack
from tests.kafka_log.artifacts import broker
from tests.kafka_log.broker import KafkaBroker
from tests.kafka_log.committed import read_committed
from tests.kafka_log.connection import Connection
from tests.kafka_log.consumer_history import AT_ONCE, make_consumer_groups
from tests.kafka_log.dump import Dumped, dump, records
from tests.kafka_log.fixture import FIXTURES, OFFSETS_PARTITION
from tests.kafka_log.view import View, topics, view
from tests.kafka_log.workload import Workload

SMALL_INDEXES: Final = {"log.index.size.max.bytes": "65536"}
GROUP_METADATA: Final = 2
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CLEANER_TIMEOUT_S: Final = 60


class Served(NamedTuple):
    """What a broker serves: its groups, its topics, and offsets of committed records by partition."""

    groups: View
    topics: View
    records: dict[str, list[int]]


def ask(kafka: KafkaBroker) -> Served:
    """What the broker serves now."""
    with Connection(kafka.bootstrap) as connection:
        groups, found = view(connection), topics(connection)
    counts = {name: topic["partitions"] for name, topic in found.items() if not name.startswith("__")}
    return Served(groups, found, read_committed(kafka.bootstrap, counts))


def clean(kafka: KafkaBroker) -> Served:
    """Groups of every kind, over a restart, some with members at the end; a clean stop."""
    kafka.start()
    clients = Workload(kafka.bootstrap)
    latest = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "3600000"}
    clients.create_topics({"latest": latest}, orders=4, payments=2, shortlived=1, latest=1)
    clients.reconfigure("payments", retention_ms="-1", max_message_bytes="2000000")
    orders = [("orders", number, 10 + number) for number in range(4)]
    clients.visit("emptied", orders, "how far it came, größer 日本 😀")
    clients.visit("deleted", orders)
    clients.delete_group("deleted")
    clients.visit("partly-forgotten", orders)
    clients.delete_offsets("partly-forgotten", "orders", [0, 2])
    clients.visit("topic-went", [*orders, ("shortlived", 0, 1)])
    clients.visit("größer-日本", orders)
    for offset in range(5):
        clients.commit(clients.consumer("simple"), [("orders", 1, offset), ("payments", 0, 2**40)], "m", 3)
    clients.commit(clients.consumer("simple-deleted"), [("orders", 1, 5)])
    clients.delete_group("simple-deleted")
    kafka.stop()
    kafka.start()
    clients.delete_topic("shortlived")
    clients.reconfigure("payments", max_message_bytes=None, cleanup_policy="compact,delete")
    clients.grow_topic("payments", 3)
    transactional = clients.producer("clean")
    (member,) = clients.join("transactional", ["orders"], [{}])
    clients.send_offsets(transactional, member, [("orders", 0, 7), ("orders", 1, 8)])
    transactional.commit_transaction(30)
    clients.send_offsets(transactional, member, [("orders", 0, 100), ("orders", 2, 200)])
    transactional.abort_transaction(30)
    clients.send_offsets(transactional, member, [("orders", 3, 300), ("payments", 0, 300)])
    clients.commit(member, [("orders", 3, 50)], "before the transaction ended")
    transactional.commit_transaction(30)
    range_members = clients.join(
        "three-members", ["orders"], [{"client_id": f"member-{n}"} for n in range(3)]
    )
    clients.commit(range_members[0], [("orders", 0, 33)], "after the restart", 0)
    cooperative = {"partition_assignment_strategy": "cooperative-sticky"}
    clients.join("cooperative", ["orders", "payments"], [cooperative, cooperative])
    instances = [{"group_instance_id": f"instance-{n}", "session_timeout_ms": 300_000} for n in range(2)]
    first, _ = clients.join("static", ["orders"], instances)
    clients.leave(first)  # and comes again, with another member id
    (again,) = clients.join("static", ["orders"], instances[:1])
    clients.commit(again, [("orders", 0, 44)])
    newer = {"group_protocol": "consumer"}
    members = clients.join("consumer-protocol", ["orders"], [newer, newer])
    clients.commit(members[0], [(part.topic, part.partition, 55) for part in members[0].assignment()])
    clients.visit("consumer-protocol-left", [("payments", 0, 5), ("payments", 1, 6)], **newer)
    clients.visit("consumer-protocol-deleted", [("payments", 0, 5)], **newer)
    clients.delete_group("consumer-protocol-deleted")
    clients.read_share_group("shared", "orders")
    with Connection(kafka.bootstrap) as connection:
        make_consumer_groups(connection, "by-hand-of-kafka")
    served = ask(kafka)
    kafka.stop()
    return served


def killed(kafka: KafkaBroker) -> Served:
    """Commits of several members and an open transaction, then kill -9."""
    kafka.start()
    clients = Workload(kafka.bootstrap)
    clients.create_topics(orders=4)
    members = clients.join("committing", ["orders"], [{}, {}])
    static = clients.join("static", ["orders"], [{"group_instance_id": "one", "session_timeout_ms": 300_000}])
    (reader,) = clients.join("open-transaction", ["orders"], [{}])
    transactional = clients.producer("killed")
    clients.send_offsets(transactional, reader, [("orders", 0, 5)])
    transactional.commit_transaction(30)
    clients.send_offsets(transactional, reader, [("orders", 0, 9), ("orders", 1, 9)])
    for offset in range(200):
        for member in (*members, *static):
            commits = [(part.topic, part.partition, offset) for part in member.assignment()]
            clients.commit(member, commits, f"commit {offset}", 0)
    served = ask(kafka)
    kafka.kill()
    return served


def compacted(kafka: KafkaBroker) -> Served:
    """A log in every codec, compacted again and again; killed once, then stopped cleanly."""
    served = Served({}, {}, {})
    for codec, name in CODEC_NAMES.items():
        kafka.start(offsets_topic_compression_codec=str(codec))
        clients = Workload(kafka.bootstrap)
        if codec == 0:
            clients.create_topics(orders=4)
        _compact_in(clients, name, f"victim-{CODEC_NAMES[codec - 1]}" if codec else "")
        _wait_for_the_cleaner(kafka, clients)
        served = ask(kafka)
        if name == "snappy":
            kafka.kill()
        else:
            kafka.stop()
    return served


def _compact_in(clients: Workload, name: str, victim: str) -> None:
    """Write one codec's part of the history: groups that stay, and groups that the next part deletes."""
    orders = [("orders", number, len(name) + number) for number in range(4)]
    if victim:
        clients.delete_group(victim)
        clients.delete_offsets("thinned", "orders", [0])
    clients.visit(f"victim-{name}", orders)
    clients.visit("thinned", orders)
    members = clients.join(f"in-{name}", ["orders"], [{"session_timeout_ms": 300_000}, {}])
    static = clients.join("static", ["orders"], [{"group_instance_id": "one", "session_timeout_ms": 300_000}])
    transactional = clients.producer(name)
    for burst in range(6):
        for offset in range(10):
            for group in ("simple-a", "simple-b", "simple-c"):
                clients.commit(clients.consumer(group), [("orders", offset % 4, burst * 10 + offset)], name)
            clients.commit(members[0], [("orders", 0, burst * 100 + offset)], name, 0)
        clients.send_offsets(transactional, members[1], [("orders", 3, burst)])
        (transactional.commit_transaction if burst % 2 else transactional.abort_transaction)(30)
        clients.visit("comes-and-goes", orders, group_protocol="consumer" if burst % 2 else "classic")
        time.sleep(0.4)  # until the segment is old enough to be rolled
    # Leaves the producer's last batch without records; the cleaner keeps it for the producer's sequence.
    for _ in range(2):
        clients.commit(members[1], [("orders", 3, 77)], "in place of a transaction's")
        time.sleep(0.4)
    for member in static:
        clients.leave(member)


def _wait_for_the_cleaner(kafka: KafkaBroker, clients: Workload) -> None:
    """Until the cleaner has been through everything but the active segments."""

    def is_done() -> bool:
        path = os.path.join(kafka.data_directory, CLEANER_CHECKPOINT)
        if not os.path.exists(path):
            return False
        with open(path, encoding="ascii") as file:
            cleaned = {
                (topic, int(number)): int(offset)
                for topic, number, offset in re.findall(r"^(\S+) (\d+) (\d+)$", file.read(), re.MULTILINE)
            }
        for name in sorted(os.listdir(kafka.data_directory)):
            if OFFSETS_PARTITION.fullmatch(name):
                segments = sorted(
                    int(entry[:20])
                    for entry in os.listdir(os.path.join(kafka.data_directory, name))
                    if entry.endswith(".log")
                )
                if cleaned.get(("__consumer_offsets", int(name.rpartition("-")[2])), 0) < segments[-1]:
                    return False
        return True

    clients.wait(is_done, "the cleaner")


class Scenario(NamedTuple):
    """The history of a broker from its first start to its end, and its responses before the end."""

    properties: dict[str, str]
    run: Callable[[KafkaBroker], Served]


SCENARIOS: Final = {
    "clean": Scenario(AT_ONCE, clean),
    "killed": Scenario({"offsets.topic.num.partitions": "5"}, killed),
    "compacted": Scenario(
        {
            "offsets.topic.num.partitions": "3",
            "log.roll.ms": "300",
            "log.cleaner.backoff.ms": "100",
            "log.cleaner.min.cleanable.ratio": "0.01",
            "log.cleaner.delete.retention.ms": "2000",
            "log.cleaner.dedupe.buffer.size": "2097152",
        },
        compacted,
    ),
}


def read_by_kafka(data_directory: str) -> dict[str, Any]:
    """What Kafka's log tool finds: the last generation of each classic group, and live records by type."""
    paths = [
        os.path.join(data_directory, name, entry)
        for name in os.listdir(data_directory)
        if OFFSETS_PARTITION.fullmatch(name)
        for entry in os.listdir(os.path.join(data_directory, name))
        if entry.endswith(".log")
    ]
    batches = dump(sorted(paths))
    latest: dict[tuple[int, str], Dumped] = {}
    for record in records(batches):
        if record.type >= 0:
            latest[record.type, json.dumps(record.key)] = record
    live = [record for record in latest.values() if record.value is not None]
    return {
        "generations": {
            record.key["group"]: record.value["generation"]
            for record in sorted(live, key=lambda record: str(record.key.get("group")))
            if record.type == GROUP_METADATA
        },
        "live_records": dict(sorted(Counter(str(record.type) for record in live).items())),
        "codecs": dict(sorted(Counter(batch.fields["compresscodec"] for batch in batches).items())),
        "delete_horizons": sum(
            "empty" not in batch.fields.get("deleteHorizonMs", "empty") for batch in batches
        ),
        "batches_without_records": sum(not batch.records for batch in batches),
        "leader_epochs": sorted({int(batch.fields["partitionLeaderEpoch"]) for batch in batches}),
    }


def capture(name: str) -> None:
    """Run one scenario and keep its results."""
    with tempfile.TemporaryDirectory(prefix="kafka-log-") as directory:
        scenario = SCENARIOS[name]
        kafka = KafkaBroker(directory, SMALL_INDEXES | scenario.properties)
        try:
            served = scenario.run(kafka)
        finally:
            kafka.kill()
        seen = {
            "origin": f"Apache Kafka 4.4.0, scenario {name!r} of tests/kafka_log/record.py",
            "served": served.groups,
            "topics": served.topics,
            "records": served.records,
            "log": read_by_kafka(kafka.data_directory),
        }
        archive = os.path.join(FIXTURES, f"{name}.tar.xz")
        pack(kafka.data_directory, archive)
        with open(os.path.join(FIXTURES, f"{name}.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(seen, indent=1, ensure_ascii=False) + "\n")
        print(
            f"{name}: {os.path.getsize(archive)} bytes, {len(served.groups)} groups, {seen['log']}",
            flush=True,
        )


def capture_values() -> None:
    """Record the bytes that Kafka's own classes write."""
    done = subprocess.run([*broker(), "Values"], check=True, capture_output=True, text=True, timeout=60)
    with open(os.path.join(FIXTURES, "values.jsonl"), "w", encoding="utf-8") as file:
        file.write(done.stdout)
    print(f"values: {len(done.stdout.splitlines())} lines", flush=True)


def main(names: Sequence[str]) -> None:
    """Captures the scenarios of these names; all without a name. Each runs in a process of its own, which ends
    without its members leaving their groups.
    """
    os.makedirs(FIXTURES, exist_ok=True)
    if len(names) != 1:
        for name in names or [*SCENARIOS, "values"]:
            subprocess.run([sys.executable, "-m", "tests.kafka_log.record", name], check=True)
    elif names[0] == "values":
        capture_values()
    else:
        capture(names[0])
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
