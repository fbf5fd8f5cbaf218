"""The two brokers that sessions are played against, in every configuration that sessions ask for."""

import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.free_ports import free_ports
from tests.interop.daemon import Daemon
from tests.kafka_log.broker import KafkaBroker
from tests.kafka_log.cluster import KafkaCluster
from tests.oracle import secured
from tests.oracle.member import commit_request
from tests.oracle.play import Account, Peer, Play
from tests.oracle.session import Session
from tests.oracle.wire import Wire

_COMMON: Final = {
    "group.min.session.timeout.ms": "100",
    "offsets.retention.check.interval.ms": "600000",
}
_TRANSACTIONAL: Final = {
    **_COMMON,
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
_CONSUMERS: Final = {
    **_COMMON,
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
}
TRANSACTIONS: Final = "transactions"
FORGETFUL: Final = "forgetful"
"""As that, but transactional ids expire."""
ALONE: Final = "alone"
"""Like TRANSACTIONS, but its sessions run one after the other: they restart the broker or send unverified batches.

Kafka verifies the batches of all connections in one request, and the first batch in it decides which of two errors
they get.
"""
CONSUMERS: Final = "consumers"
"""For consumer groups: targets are computed at once, and sessions may be short."""
UPGRADING: Final = "upgrading"
"""As that, but targets take their time, groups are small, range comes first, and groups are only upgraded."""
DOWNGRADING: Final = "downgrading"
"""As that for consumers, but offsets expire, classic groups are small, and groups are only downgraded."""
SECURED: Final = "secured"
"""Like CONSUMERS, with authentication and authorization: see `tests/oracle/secured.py`."""
BROKERS: Final = "brokers"
"""As that for transactions, but there are three brokers: connections called `broker 2` lead to the second."""
NEITHER: Final = "neither"
"""As that for consumers, but groups are small and keep their protocol, and there is one assignor."""
SETUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "plain": {**_COMMON, "group.initial.rebalance.delay.ms": "0"},
    "tight": {
        **_COMMON,
        "group.initial.rebalance.delay.ms": "700",
        "group.max.session.timeout.ms": "60000",
        "group.max.size": "2",
        "offset.metadata.max.bytes": "8",
        "auto.create.topics.enable": "false",
    },
    "expiring": {
        **_COMMON,
        "group.initial.rebalance.delay.ms": "0",
        "offsets.retention.check.interval.ms": "250",
    },
    TRANSACTIONS: _TRANSACTIONAL,
    FORGETFUL: {
        **_TRANSACTIONAL,
        "transactional.id.expiration.ms": "1500",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    },
    ALONE: {**_TRANSACTIONAL, **_CONSUMERS},
    CONSUMERS: _CONSUMERS,
    UPGRADING: {
        **_CONSUMERS,
        "group.consumer.assignment.interval.ms": "2000",
        "group.consumer.max.size": "3",
        "group.consumer.assignors": "range,uniform",
        "group.consumer.migration.policy": "upgrade",
    },
    DOWNGRADING: {
        **_CONSUMERS,
        "offsets.retention.check.interval.ms": "250",
        "group.max.size": "2",
        "group.consumer.migration.policy": "Downgrade",
    },
    SECURED: {**_CONSUMERS, **secured.PROPERTIES},
    BROKERS: {**_TRANSACTIONAL, **_CONSUMERS, "auto.leader.rebalance.enable": "false"},
    NEITHER: {
        **_CONSUMERS,
        "group.consumer.max.size": "2",
        "group.consumer.assignors": "uniform",
        "group.consumer.migration.policy": "disabled",
    },
}
"""The properties of both brokers, by the setup name in a session."""
LISTENERS: Final[Mapping[str, Mapping[str, str]]] = {SECURED: secured.LISTENERS}
"""Where they listen besides, by name with the security protocol, in setups that have more than one listener."""
_FOR_TRANSACTIONS: Final = (TRANSACTIONS, FORGETFUL, ALONE, SECURED)
ONE_AFTER_THE_OTHER: Final = {
    "num.network.threads": "1",
    "num.io.threads": "1",
    "group.coordinator.append.linger.ms": "0",
}
"""Properties that make Kafka handle requests in order of arrival, so that sessions can detect completion."""
READY_TIMEOUT_S: Final = 180
AT_ONCE: Final = 24
"""Sessions played at the same time: most of them only wait."""
_PROBES: Final = 500
"""So many groups reach every partition of the offsets topic, so many transactional ids their coordinators."""


def served(bootstrap: str) -> Mapping[int, tuple[int, int]]:
    """The versions that a broker answers, by API key."""
    wire = Wire(bootstrap, "oracle")
    try:
        wire.send(ApiVersionsRequest(), 0)
        answer = wire.take()
    finally:
        wire.close()
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def is_ready(bootstrap: str, setup: str) -> bool:
    """Whether the broker takes commits of every group by now, has ids for producers and, in a setup for
    transactions, coordinates all of them; asking makes it begin.
    """
    groups = [f"probe-{number}" for number in range(_PROBES)]
    wire = Wire(bootstrap, "oracle")
    try:
        wire.send(InitProducerIdRequest(transaction_timeout_ms=1000), 4)
        if wire.take().error_code:
            return False
        wire.send(FindCoordinatorRequest(key_type=0, coordinator_keys=groups[:1]), 4)
        if wire.take().coordinators[0].error_code:
            return False
        commits = [commit_request(group, {("__consumer_offsets", 0): 1}) for group in groups]
        for commit in commits:
            wire.send(commit, 8)
        answers = [wire.take() for _ in commits]
        if not all(answer.topics[0].partitions[0].error_code == 0 for answer in answers):
            return False
        return setup not in _FOR_TRANSACTIONS or _coordinates_transactions(wire)
    finally:
        wire.close()


def _coordinates_transactions(wire: Wire) -> bool:
    wire.send(FindCoordinatorRequest(key_type=1, coordinator_keys=["probe"]), 4)
    if wire.take().coordinators[0].error_code:
        return False
    for number in range(_PROBES):
        probe = InitProducerIdRequest(transactional_id=f"probe-{number}", transaction_timeout_ms=1000)
        wire.send(probe, 4)
    errors = [wire.take().error_code for _ in range(_PROBES)]
    return not any(errors)


def _await_ready(bootstrap: str, setup: str) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not is_ready(bootstrap, setup):
        assert time.monotonic() < deadline, f"{bootstrap} does not serve every group and transaction"
        time.sleep(0.1)


@contextmanager
def kafka(directory: str, setup: str, version: str) -> Iterator[Peer]:
    """A broker of Apache Kafka of this version, or three."""
    folder = os.path.join(directory, f"kafka-{setup}")
    os.makedirs(folder)
    properties = {**ONE_AFTER_THE_OTHER, **SETUPS[setup]}
    if setup == BROKERS:
        cluster = KafkaCluster(folder, properties, version)
        try:
            cluster.start()
            first = cluster.nodes[1].bootstrap
            _await_coordinators(first)
            yield Peer(first, served(first), brokers=cluster.bootstraps)
        finally:
            cluster.kill()
        return
    broker = KafkaBroker(folder, properties, version, listeners=LISTENERS.get(setup))

    def restart() -> None:
        broker.stop()
        broker.start()
        _await_ready(broker.bootstrap, setup)

    broker.start()
    try:
        _await_ready(broker.bootstrap, setup)
        yield Peer(broker.bootstrap, served(broker.bootstrap), restart, broker.addresses)
    finally:
        broker.kill()


@contextmanager
def groupd(directory: str, setup: str) -> Iterator[Peer]:
    """A daemon of ours."""
    listeners = LISTENERS.get(setup, {})
    ports = free_ports(len(listeners))
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(listeners, ports, strict=True)}
    options = [word for name, value in SETUPS[setup].items() for word in ("-o", f"{name}={value}")]
    for name, address in addresses.items():
        options += ("--listen", f"{name}://{address}")
    if listeners:
        protocols = ["PLAINTEXT:PLAINTEXT", *(f"{name}:{protocol}" for name, protocol in listeners.items())]
        options += ("-o", f"listener.security.protocol.map={','.join(protocols)}")
    if setup == BROKERS:
        options += ("--brokers", "3")
    daemon = Daemon(os.path.join(directory, f"groupd-{setup}"), *options, has_test_profile=False)

    def restart() -> None:
        daemon.restart(signal.SIGTERM)
        _await_ready(daemon.bootstrap, setup)

    try:
        if setup == BROKERS:
            first = daemon.bootstrap.partition(",")[0]
            yield Peer(first, served(first), brokers=_brokers_of(daemon))
            return
        _await_ready(daemon.bootstrap, setup)
        yield Peer(daemon.bootstrap, served(daemon.bootstrap), restart, addresses)
    finally:
        daemon.stop()


def _brokers_of(daemon: Daemon) -> dict[int, str]:
    """Where the brokers of one process listen, by node id."""
    with urllib.request.urlopen(f"http://{daemon.http}/v1/cluster", timeout=READY_TIMEOUT_S) as answer:
        status = json.load(answer)
    return {each["node_id"]: each["listeners"]["PLAINTEXT"] for each in status["brokers"]}


def _await_coordinators(bootstrap: str) -> None:
    """Has a cluster make the topics of its coordinators, and waits until it knows them."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not _has_coordinators(bootstrap):
        assert time.monotonic() < deadline, f"{bootstrap} coordinates nothing"
        time.sleep(0.1)


def _has_coordinators(bootstrap: str) -> bool:
    wire = Wire(bootstrap, "oracle")
    try:
        for key_type in (0, 1):
            wire.send(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["probe"]), 4)
        return not any(wire.take().coordinators[0].error_code for _ in range(2))
    finally:
        wire.close()


def play_all(
    sessions: list[Session], peers: Mapping[str, Peer], at_once: int = AT_ONCE
) -> dict[str, Account]:
    """Play every session against the peer of its setup and return the accounts by name.

    Up to `at_once` sessions run concurrently. Sessions that need a broker of their own run in sequence meanwhile.
    """

    def play(each: Session) -> Account:
        return Play(each, peers[each.setup]).run()

    together = [each for each in sessions if each.setup != ALONE]
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(at_once) as pool:
        alone = one.map(play, [each for each in sessions if each.setup == ALONE])
        accounts = [*pool.map(play, together), *alone]
    return {account.session.name: account for account in accounts}
