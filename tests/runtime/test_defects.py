"""Unexpected exceptions: each fails one partition, and the others continue."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import pytest

from coordinator.core import clock
from coordinator.core.interceptors import InterceptorRank
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.flusher import Submit
from coordinator.runtime.producer_batch import AppendTarget
from coordinator.runtime.runtime import Append
from coordinator.runtime.timers import ProcessClock, Timers
from storage.log import PartitionLog
from storage.storage_errors import SyncFailed
from storage.syncer import SyncResult
from tests.runtime.bench import Bench
from tests.runtime.counter import Add, AwaitValue, Counters
from tests.runtime.test_second_machine import NOT_COORDINATOR, owned_again

FIRST, SECOND = "a", "b"
DEFECT: Final = RuntimeError("a defect")


def partitions(bench: Bench) -> tuple[CoordinatorPartition[Counters], CoordinatorPartition[Counters]]:
    found = bench.counters.find_partition(FIRST), bench.counters.find_partition(SECOND)
    assert found[0] is not found[1]
    return found


async def test_a_sync_that_fails_before_it_begins_fails_the_waiters_and_no_later_commit(
    bench: Bench,
) -> None:
    def fail(logs: Iterable[PartitionLog], done: Callable[[SyncResult], None]) -> None:
        bench.flusher.sync_interceptors.remove(intercept)
        raise DEFECT

    def intercept(submit: Submit) -> Submit:
        return fail

    bench.flusher.sync_interceptors.add(InterceptorRank.FAULTS, intercept)
    assert await bench.ask(bench.counters, FIRST, Add(FIRST, 1)) == NOT_COORDINATOR
    await owned_again(bench, FIRST)
    assert await bench.ask(bench.counters, SECOND, Add(SECOND, 2)) == 2
    assert isinstance(await bench.ask(bench.counters, FIRST, Add(FIRST, 1)), int)


@pytest.mark.parametrize("when", ["append", "synced"])
async def test_a_partition_that_fails_after_it_has_written_keeps_no_other_from_writing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    first, _ = partitions(bench)
    failures = [DEFECT]

    def fail(number: int) -> None:
        if number == first.number and failures:
            raise failures.pop()

    if when == "synced":
        bench.counters.readable_listeners.append(fail)
    else:
        failed = bench.counters.lifecycle.on_append_failed

        def intercept(append: Append[Counters]) -> Append[Counters]:
            def refuse(partition: CoordinatorPartition[Counters], log: AppendTarget, wall_ms: int) -> bool:
                if partition is first and failures:
                    raise SyncFailed("/data", "refused")
                return append(partition, log, wall_ms)

            return refuse

        def fail_again(partition: CoordinatorPartition[Counters], error: Exception) -> None:
            monkeypatch.setattr(bench.counters.lifecycle, "on_append_failed", failed)
            raise failures.pop()

        monkeypatch.setattr(bench.counters.lifecycle, "on_append_failed", fail_again)
        bench.counters.append_interceptors.add(InterceptorRank.FAULTS, intercept)
    _, one = bench.put(bench.counters, FIRST, AwaitValue(FIRST, 100))
    _, other = bench.put(bench.counters, FIRST, Add(FIRST, 1))
    assert await bench.ask(bench.counters, SECOND, Add(SECOND, 2)) == 2
    assert await one.reply.wait() == NOT_COORDINATOR
    await other.reply.wait()
    await owned_again(bench, FIRST)
    assert isinstance(await bench.ask(bench.counters, FIRST, Add(FIRST, 1)), int)


async def test_a_timer_that_fails_keeps_no_other_from_firing() -> None:
    fired = asyncio.Event()

    def fire(key: object) -> None:
        if key == "fails":
            raise DEFECT
        fired.set()

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)
    timers = Timers(loop, ProcessClock(clock.Arrival()), fire)
    now_ms = clock.monotonic_ms()
    timers.set("fails", now_ms)
    timers.set("next", now_ms)
    async with asyncio.timeout(60):
        await fired.wait()
    timers.close()
