"""Counters with replicated logs: the responses and their timing."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.core.response_status import AWAITING_DISK, BLOCKED
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.runtime.replication import ReplicatedRuntime, Replication, Ticket
from coordinator.runtime.runtime import Runtime
from protocol.error_codes import ErrorCode
from storage.log import PartitionLog
from storage.replication_queue import ReplicationQueue
from storage.topic_partition import TopicPartition
from tests.runtime.bench import Bench
from tests.runtime.counter import Add, AwaitValue, Counters, Refused
from tests.storage.faulty_files import FaultyFiles


@dataclass
class Asked:
    """An engine that responds when the test releases it."""

    appended: list[tuple[int, int, bytes]] = field(default_factory=list)
    tickets: list[Ticket] = field(default_factory=list)

    def submit_append(
        self,
        partition: TopicPartition,
        token: int,
        base_offset: int,
        next_offset: int,
        data: bytes,
        ticket: Ticket | None,
    ) -> None:
        self.appended.append((base_offset, next_offset, data))
        if ticket is not None:
            self.tickets.append(ticket)

    def submit_proof(self, partition: TopicPartition, token: int, ticket: Ticket) -> None:
        self.tickets.append(ticket)


class Replicated:
    """A bench with counters that an engine has."""

    def __init__(self, files: FaultyFiles) -> None:
        self.bench = Bench(files)
        self.asked = Asked()
        self.doubted: list[TopicPartition] = []
        self.replication = Replication(self.asked, self.doubted.append)
        topic = self.bench.counters.topic
        open_log = topic.open_log

        def opened(number: int) -> PartitionLog:
            log = open_log(number)
            log.durability.on_replicated(log.log_end_offset, log.log_end_offset)
            log.durability.replication_queue = ReplicationQueue(token=7)
            self.replication.on_opened(TopicPartition(topic.name, number), log)
            return log

        self.bench.engine.runtimes.pop(topic.name)
        self.counters: Runtime[Counters] = self.bench.engine.add_topic(
            replace(topic, open_log=opened),
            lambda topic, context: ReplicatedRuntime(topic, context, self.replication),
        )

    def confirm_all(self) -> None:
        """The engine has everything."""
        tickets, self.asked.tickets = self.asked.tickets, []
        for ticket in tickets:
            self.replication.on_confirmed(ticket)


@pytest.fixture
async def replicated(files: FaultyFiles) -> AsyncIterator[Replicated]:
    replicated = Replicated(files)
    await replicated.bench.take_all()
    await turns()
    replicated.confirm_all()
    yield replicated
    await replicated.bench.close()


def is_in(partition: CoordinatorPartition[Counters], state: PartitionState) -> bool:
    return partition.state is state


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_an_answer_leaves_when_the_engine_has_its_records(replicated: Replicated) -> None:
    answer, deferral = replicated.bench.put(replicated.counters, "a", Add("a", 3))
    assert answer is AWAITING_DISK
    await turns()
    assert not deferral.reply.is_sent
    [(base_offset, next_offset, data)] = replicated.asked.appended
    partition = replicated.counters.find_partition("a")
    assert partition.log is not None
    assert data == b"".join(batch.data for batch in partition.log.iterate_batches())
    assert (base_offset, next_offset) == (0, partition.log.log_end_offset)
    assert partition.readable_offset == 0
    replicated.confirm_all()
    assert await deferral.reply.wait() == 3
    assert partition.readable_offset == next_offset


async def test_what_only_reads_waits_for_a_proof_that_begins_later(replicated: Replicated) -> None:
    _, first = replicated.bench.put(replicated.counters, "a", Add("a", 3))
    await turns()
    assert len(replicated.asked.tickets) == 1
    answer, reader = replicated.bench.put(replicated.counters, "a", AwaitValue("a", 1))
    assert answer is AWAITING_DISK
    early = replicated.asked.tickets.pop()
    replicated.replication.on_confirmed(early)
    assert first.reply.is_sent
    assert not reader.reply.is_sent
    await turns()
    assert len(replicated.asked.appended) == 1
    replicated.confirm_all()
    assert reader.reply.is_sent


async def test_a_partition_whose_append_fails_is_given_up_and_to_be_taken_anew(
    replicated: Replicated,
) -> None:
    _, deferral = replicated.bench.put(replicated.counters, "a", Add("a", 3))
    parked_answer, parked = replicated.bench.put(replicated.counters, "a", AwaitValue("a", 100))
    assert parked_answer is BLOCKED
    await turns()
    [ticket] = replicated.asked.tickets
    replicated.replication.on_failed(ticket, "another owns it")
    partition = replicated.counters.find_partition("a")
    assert replicated.doubted == [partition.name]
    assert is_in(partition, PartitionState.ABSENT)
    for waiting in (deferral, parked):
        assert await waiting.reply.wait() == Refused(ErrorCode.NOT_COORDINATOR)
    replicated.counters.lifecycle.open_partition(partition, epoch=partition.epoch + 1)
    assert is_in(partition, PartitionState.LOADING)


async def test_a_log_that_cannot_be_submitted_is_given_up_and_keeps_no_other(replicated: Replicated) -> None:
    lost, other = (replicated.counters.find_partition(key).name for key in ("a", "b"))
    append = replicated.asked.submit_append

    def fail(partition: TopicPartition, *rest: Any) -> None:
        if partition == lost:
            raise RuntimeError("a defect")
        append(partition, *rest)

    replicated.asked.submit_append = fail  # type: ignore[method-assign, assignment]
    refused, added = (replicated.bench.put(replicated.counters, key, Add(key, 3))[1] for key in ("a", "b"))
    await turns()
    replicated.confirm_all()
    assert lost != other
    assert replicated.doubted == [lost]
    assert await refused.reply.wait() == Refused(ErrorCode.NOT_COORDINATOR)
    assert await added.reply.wait() == 3
