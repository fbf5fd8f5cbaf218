"""Transactions in the log of a machine: batches of their own, markers, and the producers that the log knows."""

import asyncio

import pytest

from coordinator.core.interceptors import InterceptorRank
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.runtime import state_keeper
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState
from storage.batch import BatchHeader
from storage.producers.producer_state import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
)
from storage.state_file import find_state
from tests.runtime.bench import COUNTERS, Bench
from tests.runtime.counter import (
    DEBTS,
    Add,
    AddWithin,
    AwaitValue,
    Break,
    CounterCodec,
    Counters,
    End,
    Forget,
    Owe,
)
from tests.runtime.test_second_machine import (
    NOT_COORDINATOR,
    TIMEOUT_S,
    commit,
    committed,
    one_turn,
    owned_again,
)
from tests.storage.faulty_files import FaultyFiles

PRODUCER, OTHER = 7, 8
LEVEL_1, LEVEL_2 = 1, 2


def counters_of(bench: Bench) -> CoordinatorPartition[Counters]:
    return bench.counters.find_partition("a")


def machine_of(bench: Bench) -> Counters:
    machine = counters_of(bench).machine
    assert machine is not None
    return machine


def headers(bench: Bench) -> list[BatchHeader]:
    """Of the batches in the log of counter `a`."""
    log = counters_of(bench).log
    assert log is not None
    return [batch.header for batch in log.iterate_batches()]


def kinds(bench: Bench) -> list[str]:
    return [
        "marker" if header.is_control else "transaction" if header.is_transactional else "plain"
        for header in headers(bench)
    ]


def open_transactions(bench: Bench) -> dict[int, int]:
    """Return the first offsets by producer id, from the log."""
    producers = counters_of(bench).producers
    assert producers is not None
    return dict(producers.state.open_transactions)


async def value(bench: Bench) -> object:
    return await bench.ask(bench.counters, "a", AwaitValue("a", 0))


async def taken(files: FaultyFiles) -> Bench:
    bench = Bench(files)
    await bench.take_all()
    return bench


async def test_a_transaction_is_a_batch_of_its_own_in_order_with_the_plain_ones(bench: Bench) -> None:
    for request in (Add("a", 1), Add("a", 2), AddWithin("a", 10, PRODUCER, 3), Add("b", 1), End(PRODUCER, 4)):
        bench.put(bench.counters, "a", request)
    await bench.ask(bench.counters, "a", Add("a", 0))
    assert kinds(bench) == ["plain", "transaction", "plain", "marker", "plain"]
    first, unit, _, marker, _ = headers(bench)
    assert [header.base_offset for header in headers(bench)] == [0, 2, 3, 4, 5]
    assert (first.records_count, first.producer_id) == (2, -1)
    assert (unit.producer_id, unit.producer_epoch, unit.base_sequence) == (PRODUCER, 3, 0)
    assert (marker.producer_id, marker.producer_epoch, marker.base_sequence) == (PRODUCER, 4, -1)
    assert {header.partition_leader_epoch for header in headers(bench)} == {0}


@pytest.mark.parametrize(("is_committed", "after"), [(True, 13), (False, 3)])
async def test_what_is_in_a_transaction_counts_once_that_is_committed(
    bench: Bench, is_committed: bool, after: int
) -> None:
    await bench.ask(bench.counters, "a", Add("a", 3))
    assert await bench.ask(bench.counters, "a", AddWithin("a", 10, PRODUCER)) == 13
    assert await value(bench) == 3
    await bench.ask(bench.counters, "a", End(PRODUCER, is_committed=is_committed))
    assert await value(bench) == after
    again = await taken(bench.files)
    assert await value(again) == after
    assert not machine_of(again).has_open_transactions
    await again.close()


async def test_what_is_kept_is_seen_by_the_next_check_before_it_is_written(bench: Bench) -> None:
    partition = counters_of(bench)
    assert partition.needs_verification(PRODUCER, 0)
    with pytest.raises(InvalidTransactionState):
        partition.check_producer(PRODUCER, 0, None)
    held = partition.verify(PRODUCER, 0, 0, adds=False)
    partition.check_producer(PRODUCER, 0, held)
    bench.put(bench.counters, "a", AddWithin("a", 1, PRODUCER))
    assert not partition.needs_verification(PRODUCER, 0)
    partition.check_producer(PRODUCER, 0, None)
    assert not partition.check_marker(PRODUCER, 1, 0, LEVEL_2)
    bench.put(bench.counters, "a", End(PRODUCER, 1))
    with pytest.raises(InvalidProducerEpoch):
        partition.check_producer(PRODUCER, 0, None)
    with pytest.raises(InvalidProducerEpoch):
        partition.needs_verification(PRODUCER, 0)
    assert partition.needs_verification(PRODUCER, 1)
    with pytest.raises(InvalidTransactionState):
        partition.check_producer(PRODUCER, 1, held)
    assert partition.log is not None
    assert partition.log.log_end_offset == 0
    assert open_transactions(bench) == {}
    await bench.ask(bench.counters, "a", Add("a", 0))
    assert kinds(bench) == ["transaction", "marker", "plain"]


async def test_a_marker_that_is_repeated_is_written_again(bench: Bench) -> None:
    partition = counters_of(bench)
    await bench.ask(bench.counters, "a", AddWithin("a", 1, PRODUCER))
    for is_repeated in (False, True):
        assert partition.check_marker(PRODUCER, 1, 1, LEVEL_2) is is_repeated
        await bench.ask(bench.counters, "a", End(PRODUCER, 1))
    assert kinds(bench) == ["transaction", "marker", "marker"]
    with pytest.raises(CoordinatorFenced):
        partition.check_marker(PRODUCER, 1, -1, LEVEL_1)


async def test_what_consumers_of_committed_records_see_ends_where_a_transaction_is_open(bench: Bench) -> None:
    partition = counters_of(bench)
    await bench.ask(bench.counters, "a", Add("a", 1))
    assert partition.last_stable_offset == 1
    await bench.ask(bench.counters, "a", AddWithin("a", 1, PRODUCER))
    await bench.ask(bench.counters, "a", AddWithin("a", 1, OTHER))
    await bench.ask(bench.counters, "a", End(OTHER))
    assert (partition.last_stable_offset, partition.readable_offset) == (1, 4)
    _, deferral = bench.put(bench.counters, "a", End(PRODUCER, is_committed=False))
    assert partition.last_stable_offset == 1
    await deferral.reply.wait()
    assert (partition.last_stable_offset, partition.readable_offset) == (5, 5)
    assert partition.producers is not None
    assert [one.producer_id for one in partition.producers.find_aborted_within(0, 5)] == [PRODUCER]


async def test_what_the_disk_refuses_is_not_known_of_a_producer_either(
    bench: Bench, files: FaultyFiles
) -> None:
    await bench.ask(bench.counters, "a", AddWithin("a", 5, PRODUCER))
    files.fail("write")
    assert await bench.ask(bench.counters, "a", AddWithin("a", 1, OTHER, 9)) == NOT_COORDINATOR
    await owned_again(bench, "a")
    assert open_transactions(bench) == {PRODUCER: 0}
    assert counters_of(bench).needs_verification(OTHER, 0)
    await bench.ask(bench.counters, "a", End(PRODUCER))
    assert await value(bench) == 5


async def test_there_are_no_producers_while_a_partition_is_read(bench: Bench) -> None:
    await bench.ask(bench.counters, "a", AddWithin("a", 5, PRODUCER))
    partition = counters_of(bench)
    bench.counters.lifecycle.reload_partition(partition)
    assert partition.state is PartitionState.LOADING
    assert partition.producers is None
    assert partition.last_stable_offset == partition.readable_offset
    await owned_again(bench, "a")
    assert open_transactions(bench) == {PRODUCER: 0}
    assert partition.last_stable_offset == 0


async def test_while_a_partition_is_only_read_its_producers_are_those_of_what_is_durable(
    bench: Bench, files: FaultyFiles
) -> None:
    await bench.ask(bench.counters, "a", AddWithin("a", 5, PRODUCER))
    partition = counters_of(bench)
    files.fail("fdatasync", times=2)  # the second one refuses to have the log opened anew
    assert await bench.ask(bench.counters, "a", AddWithin("a", 1, OTHER)) == NOT_COORDINATOR
    async with asyncio.timeout(TIMEOUT_S):
        while partition.state is not PartitionState.READ_ONLY:
            await one_turn()
    assert open_transactions(bench) == {PRODUCER: 0}
    assert (partition.last_stable_offset, partition.readable_offset) == (0, 1)
    await owned_again(bench, "a")
    assert partition.last_stable_offset == 0


@pytest.mark.parametrize("is_committed", [True, False])
async def test_power_fails_between_a_record_and_its_marker(files: FaultyFiles, is_committed: bool) -> None:
    bench = await taken(files)
    await bench.ask(bench.counters, "a", Add("a", 3))
    await bench.ask(bench.counters, "a", AddWithin("a", 10, PRODUCER))
    bench.flusher.sync_interceptors.add(InterceptorRank.FAULTS, lambda _: lambda logs, done: None)
    _, unanswered = bench.put(bench.counters, "a", End(PRODUCER, 1, is_committed))
    await one_turn()
    assert kinds(bench) == ["plain", "transaction", "marker"]
    again = await taken(bench.kill())
    assert not unanswered.reply.is_sent
    assert kinds(again) == ["plain", "transaction"]
    assert open_transactions(again) == {PRODUCER: 1}
    assert await value(again) == 3
    assert counters_of(again).last_stable_offset == 1
    counters_of(again).check_producer(PRODUCER, 0, None)
    assert not counters_of(again).check_marker(PRODUCER, 1, 2, LEVEL_2)
    await again.ask(again.counters, "a", End(PRODUCER, 1, is_committed))
    assert await value(again) == (13 if is_committed else 3)
    assert headers(again)[-1].partition_leader_epoch == 1
    await again.close()


async def test_power_fails_before_a_transaction_is_on_the_disk(files: FaultyFiles) -> None:
    bench = await taken(files)
    await bench.ask(bench.counters, "a", Add("a", 3))
    bench.flusher.sync_interceptors.add(InterceptorRank.FAULTS, lambda _: lambda logs, done: None)
    bench.put(bench.counters, "a", AddWithin("a", 10, PRODUCER))
    bench.put(bench.counters, "a", End(PRODUCER))
    await one_turn()
    assert kinds(bench) == ["plain", "transaction", "marker"]
    again = await taken(bench.kill())
    assert open_transactions(again) == {}
    assert await value(again) == 3
    await again.close()


async def test_a_killed_process_leaves_what_is_open_to_the_next_one(files: FaultyFiles) -> None:
    """Groups and counters beside each other, each with its own log."""
    bench = await taken(files)
    await bench.ask(bench.groups, "g", commit(42))
    await bench.ask(bench.counters, "a", AddWithin("a", 10, PRODUCER))
    await bench.ask(bench.counters, "a", AddWithin("a", 20, OTHER))
    await bench.ask(bench.counters, "a", End(OTHER))
    again = await taken(bench.kill())
    assert await committed(again) == 42
    assert open_transactions(again) == {PRODUCER: 0}
    assert await value(again) == 20
    # An older record of a transaction that is committed later is not the newest one.
    await again.ask(again.counters, "a", End(PRODUCER))
    assert await value(again) == 20
    assert all(not partition.has_open_transactions for partition in again.engine.list_partitions())
    await again.close()


async def test_an_open_transaction_moves_with_its_partition(bench: Bench, files: FaultyFiles) -> None:
    await bench.ask(bench.counters, "a", AddWithin("a", 10, PRODUCER))
    partition = counters_of(bench)
    bench.counters.lifecycle.release_partition(partition, 1, "it moves")
    assert partition.producers is None
    other = Bench(files)
    other.counters.lifecycle.open_partition(counters_of(other), epoch=1)
    await asyncio.wait_for(other.loaded.wait(), TIMEOUT_S)
    assert open_transactions(other) == {PRODUCER: 0}
    await other.ask(other.counters, "a", End(PRODUCER))
    other.counters.lifecycle.release_partition(counters_of(other), 2, "it moves back")
    await other.close()
    bench.counters.lifecycle.open_partition(partition, epoch=2)
    await owned_again(bench, "a")
    assert await value(bench) == 10
    assert [header.partition_leader_epoch for header in headers(bench)] == [0, 1]
    assert machine_of(bench).leader_epoch == 2


async def test_no_state_is_taken_while_a_transaction_is_open(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_keeper, "MIN_RECORDS_AT_STOP", 1)
    states = bench.counters.lifecycle.states
    await bench.ask(bench.counters, "a", Add("a", 3))
    await bench.ask(bench.counters, "a", AddWithin("x", 1, PRODUCER))
    assert states.capture_final_states() == []
    # The machine has nothing to wait for any more; the log does.
    await bench.ask(bench.counters, "a", Forget("x"))
    assert not machine_of(bench).has_open_transactions
    assert states.capture_final_states() == []
    await bench.ask(bench.counters, "a", End(PRODUCER))
    (state,) = states.capture_final_states()
    assert state.point.end_offset == 4
    await states.write_final_states([state])

    await bench.ask(bench.counters, "a", AddWithin("a", 10, OTHER))
    log = counters_of(bench).log
    assert log is not None
    found, _ = find_state(bench.files, log, CounterCodec.contents)
    assert found is not None
    again = await taken(bench.files.crash())
    assert await value(again) == 3
    assert open_transactions(again) == {OTHER: 4}
    await again.ask(again.counters, "a", End(OTHER))
    assert await value(again) == 13
    await again.close()


async def test_each_machine_that_may_write_has_a_leader_epoch_of_its_own(files: FaultyFiles) -> None:
    bench = await taken(files)
    assert machine_of(bench).leader_epoch == 0
    await bench.ask(bench.counters, "a", Add("a", 1))
    await bench.ask(bench.groups, "g", commit(1))
    await bench.ask(bench.counters, "a", Break())
    await owned_again(bench, "a")
    assert machine_of(bench).leader_epoch == 1
    files.fail("fdatasync")
    assert await bench.ask(bench.counters, "a", Add("a", 1)) == NOT_COORDINATOR
    await owned_again(bench, "a")
    assert machine_of(bench).leader_epoch == 2
    await bench.ask(bench.counters, "a", Add("a", 1))
    again = await taken(bench.kill())
    assert machine_of(again).leader_epoch == 3
    log, group_log = counters_of(again).log, again.groups.find_partition("g").log
    assert log is not None
    assert group_log is not None
    assert log.leader_epochs.current == 3
    assert log.leader_epochs.find_end_offset(0, log.log_end_offset) == (0, 1)
    assert group_log.leader_epochs.current == 0
    await again.close()


async def test_a_machine_is_not_made_before_its_leader_epoch_is_durable(files: FaultyFiles) -> None:
    bench = await taken(files)
    partition = counters_of(bench)
    await bench.ask(bench.counters, "a", Add("a", 1))
    files.fail("replace")
    bench.counters.lifecycle.reload_partition(partition)
    async with asyncio.timeout(TIMEOUT_S):
        while not files.has_failed:
            await one_turn()
    await one_turn()
    assert partition.machine is None
    await owned_again(bench, "a")
    assert machine_of(bench).leader_epoch == 1
    assert await bench.ask(bench.counters, "a", Add("a", 1)) == 2
    await bench.close()


async def test_a_message_goes_to_a_receiver_once_it_is_durable_and_again_when_it_is_loaded(
    bench: Bench, files: FaultyFiles
) -> None:
    received: list[tuple[str, object]] = []

    def receive(key: str, request: object) -> None:
        received.append((key, request))
        if len(received) == 1:
            raise ValueError("the first one is too much for it")

    bench.engine.register_receiver(DEBTS, receive)
    _, deferral = bench.put(bench.counters, "a", Owe(2))
    await one_turn()
    assert received == []
    await deferral.reply.wait()
    await one_turn()
    assert received == [("", 0), ("", 0)]
    await bench.ask(bench.counters, "a", Break())
    await owned_again(bench, "a")
    await one_turn()
    assert received[2:] == [("", 1)]


async def test_a_message_of_what_was_lost_never_leaves(bench: Bench, files: FaultyFiles) -> None:
    received: list[tuple[str, object]] = []
    bench.engine.register_receiver(DEBTS, lambda key, request: received.append((key, request)))
    files.fail("write")
    assert await bench.ask(bench.counters, "a", Owe()) == NOT_COORDINATOR
    await owned_again(bench, "a")
    await bench.ask(bench.counters, "a", Add("a", 1))
    await one_turn()
    assert received == []


async def test_a_topic_has_one_receiver(bench: Bench) -> None:
    for topic in (COUNTERS, CONSUMER_OFFSETS):
        with pytest.raises(AssertionError):
            bench.engine.register_receiver(topic, lambda key, request: None)
