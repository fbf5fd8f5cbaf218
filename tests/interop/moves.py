"""Count the rebalances of each client while the coordinator of its group moves repeatedly, on groupd and on three
brokers of Apache Kafka.

python -m tests.interop.moves [--moves 20] [--on kafka --on brokers --on etcd] [CLIENT ...]

Two members of a group commit all the time. Once a second the same two requests move the partition of their group to
another broker. The command counts the rebalances in the log of the coordinators. It exits with 1 if a client
rebalanced more often than on Kafka, or stopped committing.
"""

import argparse
import itertools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from coordinator.core.shared_types import CONSUMER_OFFSETS
from protocol.partitioner import partition_for
from protocol.records.group_record_schemas import GroupMetadataKey, GroupMetadataValue
from protocol.records.group_record_serde import decode_key, decode_value
from tests.cluster.etcd.conftest import three_daemons
from tests.interop.broker import READ_TIMEOUT_S, Broker, eventually
from tests.interop.daemon import Daemon
from tests.interop.driver import DRIVERS, Driver
from tests.interop.group import Group, partitions_of
from tests.interop.leader import make_leader
from tests.interop.member import Board, Member
from tests.kafka_log.cluster import KafkaCluster
from tests.librdkafka import retry

KAFKA: Final = "kafka"
PLACES: Final = (KAFKA, "brokers", "etcd")
NODE_IDS: Final = (1, 2, 3)
OFFSETS_PARTITIONS: Final = 5
PARTITIONS: Final = 6
SESSION_MS: Final = 15_000
BETWEEN_S: Final = 1.0
COMMIT_S: Final = 0.05
JOINS_ANEW: Final = ("kafkajs",)
"""Clients that do so at every coordinator, Kafka's or ours: one more or less says nothing."""
QUICK: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
}


class Seen(NamedTuple):
    """What became of one group."""

    rebalances: int
    longest_s: float
    """Without a commit of one of the members; 0 where they commit by themselves."""
    commits: int


@contextmanager
def three_brokers(place: str) -> Iterator[Broker]:
    """That are one cluster."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groupd-moves-")))
        if place == KAFKA:
            kafka_cluster = KafkaCluster(str(directory / "kafka"), QUICK)
            stack.callback(kafka_cluster.kill)
            kafka_cluster.start()
            yield Broker(",".join(kafka_cluster.bootstraps.values()), None)
        elif place == "etcd":
            yield Broker(stack.enter_context(three_daemons(directory)).bootstrap, None)
        else:
            options = [word for name, value in QUICK.items() for word in ("-o", f"{name}={value}")]
            daemon = Daemon(str(directory), "--brokers", str(len(NODE_IDS)), "-o", "node.id=1", *options)
            stack.callback(daemon.stop)
            yield Broker(daemon.bootstrap, daemon)


def generations(bootstrap: str, group: str) -> set[int]:
    """Return all generations of a group, read from its log."""
    place = partition_for(group, OFFSETS_PARTITIONS)
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader-without-group", "enable.partition.eof": True}
    )
    reader.assign([TopicPartition(CONSUMER_OFFSETS, place, 0)])
    found: set[int] = set()
    deadline = time.monotonic() + READ_TIMEOUT_S
    try:
        while time.monotonic() < deadline:
            for message in reader.consume(1000, timeout=0.1):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return found
                assert error is None, error
                key = decode_key(message.key() or b"")
                if isinstance(key, GroupMetadataKey) and key.group == group and message.value():
                    value = decode_value(key, message.value() or b"")
                    assert isinstance(value, GroupMetadataValue), value
                    found.add(value.generation)
    finally:
        reader.close()
    raise AssertionError(f"the end of {CONSUMER_OFFSETS}-{place} was not reached")


def commit_until(is_over: threading.Event, member: Member, told: Callable[[float], None]) -> None:
    """Commit repeatedly; report the time of each accepted commit."""
    while not is_over.is_set():
        if member.commit():
            told(time.monotonic())
        is_over.wait(COMMIT_S)


def move(broker: Broker, group: str, moves: int) -> None:
    """From one broker to the next, so many times."""
    place = partition_for(group, OFFSETS_PARTITIONS)
    administrator = AdminClient({"bootstrap.servers": broker.bootstrap})
    known = retry(lambda: administrator.list_topics(timeout=READ_TIMEOUT_S)).brokers
    addresses = {f"{each.host}:{each.port}": node_id for node_id, each in known.items()}
    owner = NODE_IDS.index(addresses[broker.coordinator(group)])
    for _ in range(moves):
        owner = (owner + 1) % len(NODE_IDS)
        node_ids = [NODE_IDS[(owner + step) % len(NODE_IDS)] for step in range(len(NODE_IDS))]
        make_leader(next(iter(addresses)), CONSUMER_OFFSETS, place, node_ids)
        time.sleep(BETWEEN_S)


def play(broker: Broker, driver: Driver, name: str, moves: int) -> Seen:
    """One group of one client."""
    board, is_over = Board(), threading.Event()
    group = Group(broker, driver, driver.prepare(), name, board)
    group.session_timeout_ms = SESSION_MS
    topic = f"{name}-topic"
    broker.create_topic(topic, PARTITIONS)
    members = [group.join(topic), group.join(topic)]
    times: list[list[float]] = [[time.monotonic()] for _ in members]
    threads = [
        threading.Thread(target=commit_until, args=(is_over, member, accepted.append))
        for member, accepted in zip(members, times, strict=True)
    ]
    try:
        group.settle(members, partitions_of(topic, PARTITIONS))
        broker.produce(topic, PARTITIONS, 10)
        before = generations(broker.bootstrap, name)
        for accepted, thread in zip(times, threads, strict=True):
            accepted[0] = time.monotonic()
            thread.start()
        move(broker, name, moves)
        counts = [len(accepted) for accepted in times]
        eventually(
            f"all members to commit once more\n{board.report()}",
            lambda: all(len(accepted) > count for accepted, count in zip(times, counts, strict=True)),
        )
        is_over.set()
        for thread in threads:
            thread.join()
        after = generations(broker.bootstrap, name)
    finally:
        is_over.set()
        for member in members:
            member.dispose()
    longest_s = max(end - begin for each in times for begin, end in itertools.pairwise(each))
    commits = sum(map(len, times)) - len(times)
    return Seen(len(after - before), 0.0 if driver.commits_by_itself else longest_s, commits)


def compare(places: Sequence[str], drivers: Sequence[Driver], moves: int) -> int:
    """Print the result of each group. Return the number of clients that did worse than with Kafka, or did not
    recover."""
    seen: dict[tuple[str, str], Seen] = {}
    stuck = 0
    for place in places:
        with three_brokers(place) as broker:
            for driver in drivers:
                what = {"on": place, "client": driver.name, "moves": moves}
                try:
                    found = seen[place, driver.name] = play(broker, driver, f"{driver.name}-{place}", moves)
                    print(json.dumps({**what, **found._asdict()}), flush=True)
                except AssertionError as problem:
                    stuck += place != KAFKA
                    print(json.dumps({**what, "problem": str(problem)}), flush=True)
    return stuck + sum(
        found.rebalances > seen[KAFKA, name].rebalances
        for (place, name), found in seen.items()
        if place != KAFKA and (KAFKA, name) in seen and name not in JOINS_ANEW
    )


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--on", action="append", choices=PLACES)
    parser.add_argument("clients", nargs="*", metavar="CLIENT")
    given = parser.parse_args()
    chosen = [driver for driver in DRIVERS if not given.clients or driver.name in given.clients]
    return min(1, compare(given.on or PLACES, chosen, given.moves))


if __name__ == "__main__":
    sys.exit(main())
