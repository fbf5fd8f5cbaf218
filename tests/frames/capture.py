"""Capture the frames between stock clients and a real Kafka; keep exchanges that show every field.

python -m tests.frames.capture [--kafka VERSION] [--scene NAME ...]

Needs Java, Maven, Go and Node. The clients are those of `tests/interop`; the sessions of `tests/oracle` add the
versions that current clients do not use. Of an older Kafka, only versions that the newest lacks are kept. With
named scenes, the kept exchanges stay, and the scenes add new ones.
"""

import argparse
import contextlib
import datetime
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from protocol.framing import parse_request_header
from protocol.primitives import Malformed
from tests.docs.test_differences import KAFKA_4_4
from tests.frames.choice import choose, new_to
from tests.frames.proxy import Conversation, Proxy
from tests.frames.recording import Exchange, kept_of, origin, request_again, write
from tests.free_ports import free_ports
from tests.interop.broker import Broker, eventually
from tests.interop.driver import CONSUMER_DRIVERS, DRIVERS, PRODUCERS, Driver
from tests.interop.group import Group, partitions_of, records_of
from tests.interop.member import Board, Member
from tests.interop.transactor import Transactor
from tests.kafka_log.artifacts import NEWEST, tools
from tests.kafka_log.broker import KafkaBroker
from tests.oracle.peers import (
    CONSUMERS,
    LISTENERS,
    ONE_AFTER_THE_OTHER,
    SECURED,
    SETUPS,
    TRANSACTIONS,
    is_ready,
    play_all,
    served,
)
from tests.oracle.play import Peer
from tests.oracle.session import library

PARTITIONS = 3
RECORDS = 20
BY_HAND = "oracle"
BY_HAND_SETUPS = ("plain", TRANSACTIONS, CONSUMERS)
"""Of the sessions that are played: the broker has the configuration of all."""
QUICK = {"group.consumer.min.session.timeout.ms": "100", "group.consumer.min.heartbeat.interval.ms": "100"}
"""What the clients' consumer groups need besides."""
BROKER = "kafka"
OF_A_BROKER = ("broker-1-txn-marker-sender", "AddPartitionsManager-client-1")
"""Client ids of a broker's connections to itself, at the address for clients."""
WELL_FORMED = ("what_is_served",)
"""The frame sessions that send only well-formed frames."""
COMMANDS = (
    ("org.apache.kafka.tools.TopicCommand", "--create", "--topic", "tools", "--partitions", "2"),
    ("org.apache.kafka.tools.TopicCommand", "--alter", "--topic", "tools", "--partitions", "3"),
    ("org.apache.kafka.tools.TopicCommand", "--describe"),
    ("org.apache.kafka.tools.LogDirsCommand", "--describe"),
    ("org.apache.kafka.tools.ConfigCommand", "--describe", "--entity-type", "groups"),
    ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--list", "--state"),
    ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--describe", "--group", "group-java"),
    (
        *("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--delete-offsets"),
        *("--group", "group-java", "--topic", "topic-java"),
    ),
    ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--delete", "--group", "group-java"),
    ("org.apache.kafka.tools.TopicCommand", "--delete", "--topic", "tools"),
)
MOVED = "moved"
"""A topic for a leader election and a reassignment to its present replica."""
ABOUT_REASSIGNMENTS = (
    ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", "{plan}", "--execute"),
    ("reassign.ReassignPartitionsCommand", "--list"),
    ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", "{plan}", "--cancel"),
    ("LeaderElectionCommand", "--election-type", "preferred", "--topic", MOVED, "--partition", "0"),
    ("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions"),
)
WATCHED = "watched"
"""A consumer group that has a member, and its topic."""
ABOUT_A_CONSUMER_GROUP = (
    ("--list", "--type", "consumer"),
    ("--describe", "--group", WATCHED, "--members", "--verbose"),
    ("--describe", "--group", WATCHED, "--state"),
)
HANGING = "hanging"
"""A topic, and what writes to it: its one transaction begins with the first record."""
ABOUT_TRANSACTIONS = (
    ("list",),
    ("describe", "--transactional-id", HANGING),
    ("describe-producers", "--topic", HANGING, "--partition", "0"),
    ("find-hanging", "--topic", HANGING),
    ("abort", "--topic", HANGING, "--partition", "0", "--start-offset", "0"),
)


@contextlib.contextmanager
def behind_a_proxy(directory: str, version: str) -> Iterator[tuple[Proxy, str]]:
    """Start a broker of this Kafka behind a proxy; yield the proxy and its address."""
    (port,) = free_ports(1)
    properties = {
        **ONE_AFTER_THE_OTHER,
        **SETUPS[TRANSACTIONS],
        **SETUPS[CONSUMERS],
        **QUICK,
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
    }
    broker = KafkaBroker(directory, properties, version)
    broker.start()
    try:
        while not is_ready(broker.bootstrap, TRANSACTIONS):
            time.sleep(0.1)
        proxy = Proxy(port, broker.bootstrap)
        try:
            yield proxy, f"127.0.0.1:{port}"
        finally:
            proxy.close()
    finally:
        broker.kill()


def life_of_a_group(proxy: Proxy, bootstrap: str, driver: Driver) -> str:
    """A client produces, reads, commits, joins and leaves. Returns which release it is."""
    command = driver.prepare()
    broker, board = Broker(bootstrap, None), Board()
    topic = f"topic-{driver}"
    broker.create_topic(topic, PARTITIONS)
    with _ended(board):
        if driver.codecs:
            proxy.client = driver.name
            options = {"mode": "produce", "bootstrap": bootstrap, "topic": topic, "count": str(RECORDS)}
            words = [word for name, value in options.items() for word in (f"--{name}", value)]
            Member(board, "producer", [*command, *words, "--idempotent", "true"]).finish(60)
            proxy.client = ""
        broker.produce(topic, PARTITIONS, 2)
        group = Group(broker, driver, command, f"group-{driver}", board)
        if driver.group_protocol == "consumer":
            group.configure()
        _play(proxy, group, topic)
    return f"{board.members[-1].of('ready')[0]['version']}"


def _play(proxy: Proxy, group: Group, topic: str) -> None:
    everything, driver = partitions_of(topic, PARTITIONS), group.driver
    proxy.client = driver.name
    one = group.join(topic)
    group.converge([one], everything)
    group.consumed([one], records_of(topic, PARTITIONS, 0, 2))
    assert driver.commits_by_itself or one.commit(), one.report()
    two = group.join(topic, instance_id="two" if driver.static_membership else "")
    group.converge([one, two], everything)
    heard = time.monotonic()
    eventually("a few heartbeats", lambda: time.monotonic() > heard + 1)
    two.leave()
    one.leave()
    again = group.join(pattern=f"{topic}$") if driver.group_protocol == "consumer" else group.join(topic)
    group.converge([again], everything)
    again.leave()
    proxy.client = ""


def administrator_of_a_consumer_group(proxy: Proxy, bootstrap: str) -> None:
    """Kafka's own tool, about a group of the consumer protocol while it has a member."""
    broker, board = Broker(bootstrap, None), Board()
    java = next(driver for driver in CONSUMER_DRIVERS if driver.name == "java")
    broker.create_topic(WATCHED, PARTITIONS)
    with _ended(board):
        group = Group(broker, java, java.prepare(), WATCHED, board)
        group.converge([group.join(WATCHED, instance_id="one")], partitions_of(WATCHED, PARTITIONS))
        proxy.client = java.name
        for arguments in ABOUT_A_CONSUMER_GROUP:
            _run_tool(bootstrap, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *arguments)
        proxy.client = ""


def transactions(proxy: Proxy, bootstrap: str, driver: Driver) -> None:
    """A transactional producer commits and aborts records, and offsets of the group that has lived."""
    board, topic = Board(), f"topic-{driver.name}"
    with _ended(board):
        proxy.client = driver.name
        options = ("--group", f"group-{driver.name}", "--topics", topic)
        producer = _transactor(bootstrap, board, driver, f"transactions-{driver.name}", *options)
        for end in ("commit", "abort"):
            producer.do("begin", f"produce {topic} {end} 1", f"offsets {topic} 0 1", end)
        producer.leave()
        proxy.client = ""


def administrator_of_transactions(proxy: Proxy, bootstrap: str) -> None:
    """Kafka's own tool, while a transaction is open and until it has ended that."""
    board = Board()
    Broker(bootstrap, None).create_topic(HANGING, 1)
    java = next(driver for driver in PRODUCERS if driver.name == "java")
    with _ended(board):
        _transactor(bootstrap, board, java, HANGING).do("begin", f"produce {HANGING} open 1")
        proxy.client = java.name
        for arguments in ABOUT_TRANSACTIONS:
            _run_tool(bootstrap, "org.apache.kafka.tools.TransactionsCommand", *arguments)
        proxy.client = ""


def _transactor(bootstrap: str, board: Board, driver: Driver, name: str, *options: str) -> Transactor:
    producer = Transactor(Broker(bootstrap, None), driver, driver.prepare(), board, name, *options)
    producer.do("init")
    return producer


@contextlib.contextmanager
def _ended(board: Board) -> Iterator[None]:
    try:
        yield
    finally:
        for member in board.members:
            member.dispose()


def administrators(proxy: Proxy, bootstrap: str) -> None:
    """Kafka's own tools and kafka-python's administrator, about the groups that are there by now."""
    proxy.client = "kafka_python"
    broker = Broker(bootstrap, None)
    broker.create_topic("by-kafka-python", 1)
    broker.grow_topic("by-kafka-python", 2)
    broker.committed("group-kafka_python")
    broker.describe("group-kafka_python")
    proxy.client = "java"
    for program, *arguments in COMMANDS:
        _run_tool(bootstrap, program, *arguments)
    proxy.client = ""


def administrators_of_reassignments(proxy: Proxy, bootstrap: str) -> None:
    """Run Kafka's own tools for reassignments and leader elections."""
    Broker(bootstrap, None).create_topic(MOVED, 1)
    proxy.client = "java"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as plan:
        wanted = [{"topic": MOVED, "partition": 0, "replicas": [1]}]
        json.dump({"version": 1, "partitions": wanted}, plan)
        plan.flush()
        for program, *arguments in ABOUT_REASSIGNMENTS:
            words = [word.format(plan=plan.name) for word in arguments]
            _run_tool(bootstrap, f"org.apache.kafka.tools.{program}", *words)
    proxy.client = ""


def _run_tool(bootstrap: str, program: str, *arguments: str) -> None:
    command = [*tools(), program, "--bootstrap-server", bootstrap, *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def by_hand(proxy: Proxy, bootstrap: str) -> None:
    """Every version of every API."""
    proxy.client = BY_HAND
    peer = Peer(bootstrap, served(bootstrap))
    sessions = [
        each
        for each in library()
        if each.setup in BY_HAND_SETUPS and (each.subject != "frames" or each.script_name in WELL_FORMED)
    ]
    play_all(sessions, dict.fromkeys(BY_HAND_SETUPS, peer))
    proxy.client = ""


def who_may(directory: str, version: str) -> list[Conversation]:
    """Record every version of the authentication and authorization requests, at a secured broker."""
    broker = KafkaBroker(
        directory, {**ONE_AFTER_THE_OTHER, **SETUPS[SECURED]}, version, listeners=LISTENERS[SECURED]
    )
    broker.start()
    with contextlib.ExitStack() as stack:
        stack.callback(broker.kill)
        while not is_ready(broker.bootstrap, SECURED):
            time.sleep(0.1)

        def proxied(address: str) -> tuple[Proxy, str]:
            (port,) = free_ports(1)
            proxy = Proxy(port, address)
            proxy.client = BY_HAND
            stack.callback(proxy.close)
            return proxy, f"127.0.0.1:{port}"

        first, bootstrap = proxied(broker.bootstrap)
        others = {name: proxied(address) for name, address in broker.addresses.items()}
        listeners = {name: address for name, (_, address) in others.items()}
        peer = Peer(bootstrap, served(broker.bootstrap), listeners=listeners)
        play_all([each for each in library() if each.setup == SECURED], {SECURED: peer})
        proxies = [first, *(proxy for proxy, _ in others.values())]
        return [conversation for proxy in proxies for conversation in proxy.conversations]


def _groups(proxy: Proxy, bootstrap: str) -> dict[str, str]:
    return {
        driver.name: life_of_a_group(proxy, bootstrap, driver)
        for driver in DRIVERS
        if driver.name != "kcat"  # librdkafka, as confluent
    }


def _consumer_groups(proxy: Proxy, bootstrap: str) -> dict[str, str]:
    clients = {driver.name: life_of_a_group(proxy, bootstrap, driver) for driver in CONSUMER_DRIVERS}
    administrator_of_a_consumer_group(proxy, bootstrap)
    return clients


def _transactions(proxy: Proxy, bootstrap: str) -> None:
    for driver in PRODUCERS:
        transactions(proxy, bootstrap, driver)
    administrator_of_transactions(proxy, bootstrap)


SCENES: dict[str, Callable[[Proxy, str], dict[str, str] | None]] = {
    "groups": _groups,
    "consumer-groups": _consumer_groups,
    "transactions": _transactions,
    "administrators": administrators,
    "reassignments": administrators_of_reassignments,
    BY_HAND: by_hand,
}
"""Scenes in order; those that begin with a client return its release."""
WHO_MAY = "who-may"
"""The scene that has a broker of its own."""


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="make frames-record", description=__doc__)
    parser.add_argument("--kafka", default=NEWEST, metavar="VERSION", help="the broker to listen to")
    parser.add_argument(
        "--scene", action="append", default=[], choices=[*SCENES, WHO_MAY], help="add this to what is kept"
    )
    options = parser.parse_args()
    kafka, added = options.kafka, options.scene
    scenes = added or [*(SCENES if kafka == NEWEST else [BY_HAND]), WHO_MAY]
    about: dict[str, Any] = {
        "origin": f"captured from Apache Kafka {kafka} by `make frames-record`",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "clients": origin(kafka)["clients"] if added else {},
        "form": "frames without their size, in hex, headers included",
    }
    conversations: list[Conversation] = []
    with tempfile.TemporaryDirectory(prefix="frames-") as directory:
        if WHO_MAY in scenes:
            conversations += who_may(directory, kafka)
    shared = [scene for scene in scenes if scene != WHO_MAY]
    with tempfile.TemporaryDirectory(prefix="frames-") as directory, contextlib.ExitStack() as stack:
        if shared:
            proxy, bootstrap = stack.enter_context(behind_a_proxy(directory, kafka))
            for scene in shared:
                about["clients"] |= SCENES[scene](proxy, bootstrap) or {}
            conversations += proxy.conversations
    exchanges = itertools.chain.from_iterable(each.exchanges() for each in conversations)
    said = [spoken(each) for each in exchanges if each.client != BY_HAND or is_well_formed(each)]
    kept = kept_of(kafka) if added else []
    kept = choose(
        [*kept, *new_to(kept, (each for each in said if kafka == NEWEST or not answered_by_newest(each)))]
    )
    write(kafka, about, kept)
    counted = Counter(each.client for each in kept)
    print(f"kept {len(kept)} of {len(said)} exchanges:", *(f"{who} {n}," for who, n in counted.items()))
    return 0


def spoken(exchange: Exchange) -> Exchange:
    """Mark an exchange that the broker started itself, since it may come during that of a client."""
    client_id = parse_request_header(exchange.request).client_id
    return exchange._replace(client=BROKER) if client_id in OF_A_BROKER else exchange


def is_well_formed(exchange: Exchange) -> bool:
    """Whether a request is one that an encoder would write: sessions send others, too."""
    try:
        return request_again(exchange) == exchange.request
    except Malformed:
        return False


def answered_by_newest(exchange: Exchange) -> bool:
    """Whether the newest Kafka answers this version too."""
    first, last = KAFKA_4_4[exchange.api.key]
    return first <= exchange.version <= last


if __name__ == "__main__":
    sys.exit(main())
