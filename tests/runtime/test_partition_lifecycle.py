"""Gained and lost partitions: their logs, and a partition with an unreadable log."""

import asyncio

import pytest

from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import UNASSIGNED_OFFSET, Record
from tests.runtime.bench import COUNTERS, Bench
from tests.runtime.counter import Add, Counters
from tests.runtime.test_second_machine import NOT_COORDINATOR, TIMEOUT_S, one_turn, owned_again
from tests.storage.faulty_files import FaultyFiles


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


async def closed(log: PartitionLog) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not log.is_closed:
            await one_turn()


async def in_state(partition: CoordinatorPartition[Counters], state: PartitionState) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while partition.state is not state:
            await one_turn()


async def test_a_released_log_is_closed_when_compaction_lets_go_of_it(files: FaultyFiles) -> None:
    bench = Bench(files)
    await bench.take_all()
    partition = bench.counters.find_partition("a")
    log = partition.log
    assert log is not None
    log.pin()
    bench.counters.lifecycle.release_partition(partition, 1, "it moves")
    await asyncio.sleep(0.05)
    assert not log.is_closed
    log.unpin()
    await closed(log)
    bench.counters.lifecycle.open_partition(partition, epoch=2)
    await owned_again(bench, "a")
    await bench.close()


async def test_a_partition_that_could_not_be_read_is_taken_again(files: FaultyFiles) -> None:
    """As it is on the disk by then; an epoch that is old news changes nothing."""
    bench = Bench(files)
    await bench.take_all()
    assert await bench.ask(bench.counters, "a", Add("a", 3)) == 3
    number = bench.counters.find_partition("a").number
    await bench.close()
    directory = f"/data/{COUNTERS}-{number}"
    path = f"{directory}/{0:020d}.log"
    whole = files.read(path)
    log = PartitionLog.open(files, directory, LogConfig())
    log.append_records([Record(UNASSIGNED_OFFSET, 1, b"a", b"no number")])
    log.close()

    bench = Bench(files)
    await bench.take_all()
    partition = bench.counters.partitions[number]
    assert partition.state is PartitionState.FAILED
    failed = partition.log
    files.write(path, whole)
    bench.counters.lifecycle.open_partition(partition, epoch=0)
    assert partition.state is PartitionState.FAILED
    bench.counters.lifecycle.open_partition(partition, epoch=1)
    assert failed is None or failed.is_closed
    await owned_again(bench, "a")
    assert await bench.ask(bench.counters, "a", Add("a", 1)) == 4
    await bench.close()


@pytest.mark.parametrize("way", ["comes back", "released", "contradicted"])
async def test_a_partition_whose_log_is_being_opened_anew(files: FaultyFiles, way: str) -> None:
    """Clients see the durable state meanwhile. After every further event the partition ends with one log that
    accepts writes."""
    bench = Bench(files)
    await bench.take_all()
    assert await bench.ask(bench.counters, "a", Add("a", 3)) == 3
    partition = bench.counters.find_partition("a")
    files.fail("fdatasync", times=10**9)
    assert await bench.ask(bench.counters, "a", Add("a", 1)) == NOT_COORDINATOR
    await in_state(partition, PartitionState.READ_ONLY)
    assert partition.machine is not None
    assert partition.machine.values == {"a": 3}
    assert partition.readable_offset == partition.position == 1
    assert await bench.ask(bench.counters, "a", Add("a", 1)) == NOT_COORDINATOR
    if way == "released":
        bench.counters.lifecycle.release_partition(partition, 1, "it moves")
        assert partition.state is PartitionState.ABSENT
        assert partition.readable_offset == 0
        files.faults.clear()
        bench.counters.lifecycle.open_partition(partition, epoch=2)
    elif way == "contradicted":
        bench.counters.on_internal_error(partition, AssertionError("broken"))
        assert partition.machine is None
    files.faults.clear()
    await owned_again(bench, "a")
    assert partition.machine.values["a"] in (3, 4)
    before = partition.machine.values["a"]
    assert await bench.ask(bench.counters, "a", Add("a", 10)) == before + 10
    await bench.close()
    again = Bench(files.crash())
    await again.take_all()
    assert await again.ask(again.counters, "a", Add("a", 0)) == before + 10
    await again.close()
