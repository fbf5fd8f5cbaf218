"""Transactions of a stock client over three daemons, while the coordinator is killed or cannot send markers."""

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.harness import Client
from tests.cluster.etcd.conftest import Groupds
from tests.cluster.etcd.record_history import create, reader_of, until_led
from tests.librdkafka import committed_offsets, end_offset, wait_for_leaders

pytestmark = pytest.mark.timeout(600)
PARTITIONS = 3
TRANSACTION = 1
TOPIC = "moved"
PATIENT_S = 60


class Transactor:
    """Transaction n writes n to every partition, and commits the offset n for its group."""

    def __init__(self, bootstrap: str, transactional_id: str, topic: str = TOPIC) -> None:
        self.transactional_id = transactional_id
        self.topic = topic
        self.committed: set[int] = set()
        self.doubtful: set[int] = set()
        """The numbers of transactions with an unknown outcome."""
        self.number = 0
        self._bootstrap = bootstrap
        self._producer = self._new()

    def _new(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self.transactional_id,
                "transaction.timeout.ms": 30_000,
                "reconnect.backoff.max.ms": 500,
                "linger.ms": 0,
            }
        )
        producer.init_transactions(PATIENT_S)
        return producer

    @property
    def group(self) -> str:
        """Whose offsets it commits."""
        return f"group-{self.transactional_id}"

    def write(self) -> None:
        """Begins the next one. Raises KafkaException."""
        self.number += 1
        self._producer.begin_transaction()
        for partition in range(PARTITIONS):
            value = json.dumps([self.transactional_id, self.number])
            self._producer.produce(self.topic, value, partition=partition)
        self._producer.flush(PATIENT_S)
        offsets = [TopicPartition(self.topic, 0, self.number)]
        self._producer.send_offsets_to_transaction(
            offsets, _group_metadata(self._bootstrap, self.group), PATIENT_S
        )

    def commit(self) -> None:
        """Ends it. Raises KafkaException, and then it is doubtful."""
        self.doubtful.add(self.number)
        self._producer.commit_transaction(PATIENT_S)
        self.doubtful.discard(self.number)
        self.committed.add(self.number)

    def transact(self) -> None:
        """One whole transaction. Raises KafkaException."""
        self.write()
        self.commit()

    def check(self) -> None:
        """Check that committed reads return each acknowledged record once, and check the group's offset."""
        found = read_committed(self._bootstrap, self.transactional_id, self.topic)
        first = found[0]
        assert all(numbers == first for numbers in found), found
        assert first == sorted(set(first)), first
        assert self.committed <= set(first) <= self.committed | self.doubtful
        assert committed_offset(self._bootstrap, self.group, self.topic) == max(first)


def _group_metadata(bootstrap: str, group: str) -> Any:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    metadata = consumer.consumer_group_metadata()
    consumer.close()
    return metadata


def read_committed(bootstrap: str, transactional_id: str, topic: str) -> list[list[int]]:
    """The numbers of a transactional id in each partition, up to the end, when nothing is open any more."""
    ends = _ends(bootstrap, topic)
    reader = reader_of(bootstrap, "reader", "read_committed")
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    try:
        reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        until = time.monotonic() + PATIENT_S
        at_end: set[int] = set()
        while len(at_end) < PARTITIONS:
            assert time.monotonic() < until, (found, at_end)
            message = reader.poll(0.1)
            if message is None:
                continue
            partition = message.partition()
            if message.error() is not None:
                # The end of committed data, which may be before the end of the log.
                if message.error().code() == -191 and message.offset() >= ends[partition]:
                    at_end.add(partition)
                continue
            writer, number = json.loads(message.value())
            if writer == transactional_id:
                found[partition].append(number)
    finally:
        reader.close()
    return found


def _ends(bootstrap: str, topic: str) -> list[int]:
    """Return the end offsets of all partitions, including open transactions.

    A read_committed consumer would get the last stable offset instead.
    """
    reader = reader_of(bootstrap, "reader", "read_uncommitted")
    try:
        return [end_offset(reader, TopicPartition(topic, partition)) for partition in range(PARTITIONS)]
    finally:
        reader.close()


def committed_offset(bootstrap: str, group: str, topic: str) -> int:
    """Of a group, once no transaction is open that has another."""
    reader = reader_of(bootstrap, group, "read_committed")
    try:
        [found] = committed_offsets(reader, [TopicPartition(topic, 0)])
    finally:
        reader.close()
    return int(found.offset)


async def coordinator(ports: Sequence[int], transactional_id: str, but: int = -1) -> int:
    """The place, among the ports, of the daemon that coordinates a transactional id; of another one than `but`."""
    async with asyncio.timeout(PATIENT_S):
        while True:
            for port in ports:
                with contextlib.suppress(OSError, TimeoutError, EOFError):
                    async with Client(port=port) as client:
                        client.send(FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION), 3)
                        answer = await client.receive(2)
                        if not answer.error_code and (found := ports.index(int(answer.port))) != but:
                            return found
            await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def topic(shared_groupds: Groupds) -> str:
    """The topic of all tests."""
    admin = AdminClient({"bootstrap.servers": shared_groupds.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(PATIENT_S)
    return TOPIC


@pytest.fixture
def cluster(groupds: Groupds, topic: str) -> Groupds:
    """Three daemons, each of which leads a partition of the topic."""
    wait_for_leaders(groupds.bootstrap, topic, lambda leaders: set(leaders.values()) == {1, 2, 3})
    return groupds


async def test_a_commit_that_was_acknowledged_reaches_everybody_though_its_coordinator_died_first(
    cluster: Groupds,
) -> None:
    """The broker that leads a partition stands still, so markers wait for it when the coordinator is killed."""
    transactor = await asyncio.to_thread(Transactor, cluster.bootstrap, "prepared")
    owner = await coordinator(cluster.ports, "prepared")
    paused = next(number for number in range(3) if number != owner)
    await asyncio.to_thread(transactor.transact)
    await asyncio.to_thread(transactor.write)
    cluster.signal(paused, signal.SIGSTOP)
    try:
        await asyncio.to_thread(transactor.commit)
        cluster.kill(owner)
        await coordinator(cluster.ports, "prepared", but=owner)
    finally:
        cluster.signal(paused, signal.SIGCONT)
    await asyncio.to_thread(cluster.start, owner)
    assert transactor.committed == {1, 2}
    await asyncio.to_thread(transactor.check)


async def test_a_second_producer_ends_what_the_first_has_open_and_fences_it(cluster: Groupds) -> None:
    zombie = await asyncio.to_thread(Transactor, cluster.bootstrap, "fenced")
    await asyncio.to_thread(zombie.write)
    heir = await asyncio.to_thread(Transactor, cluster.bootstrap, "fenced")
    heir.number = zombie.number
    with pytest.raises(KafkaException):
        await asyncio.to_thread(zombie.commit)
    await asyncio.to_thread(heir.transact)
    assert heir.committed == {2}
    await asyncio.to_thread(heir.check)


async def test_a_transaction_is_committed_though_the_leaders_of_its_records_have_changed(
    cluster: Groupds,
) -> None:
    """After a leader change the new leader of a replicated partition knows the open transaction and gets its
    marker.
    """
    topic = "replicated"
    await asyncio.to_thread(create, cluster.bootstrap, topic)
    transactor = await asyncio.to_thread(Transactor, cluster.bootstrap, "elsewhere", topic)
    owner = await coordinator(cluster.ports, "elsewhere")
    killed = next(number for number in range(3) if number != owner)
    await asyncio.to_thread(transactor.transact)
    await asyncio.to_thread(transactor.write)
    cluster.kill(killed)
    await asyncio.to_thread(transactor.commit)
    assert transactor.committed == {1, 2}
    await asyncio.to_thread(until_led, cluster.bootstrap, topic, but=killed + 1)
    await asyncio.to_thread(transactor.check)
    await asyncio.to_thread(cluster.start, killed)
    await asyncio.to_thread(transactor.transact)
    await asyncio.to_thread(transactor.check)
