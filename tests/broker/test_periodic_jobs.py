"""Work that a daemon repeats at intervals."""

import asyncio
import logging

import pytest

from coordinator.broker.server import PeriodicJobs
from coordinator.core.daemon_log import OngoingFailures
from coordinator.core.time_budget import Budget, RunQueue
from storage.storage_errors import StorageError

TIMEOUT_S = 60


@pytest.fixture
async def jobs() -> PeriodicJobs:
    loop = asyncio.get_running_loop()
    return PeriodicJobs(loop, RunQueue(loop), OngoingFailures("LogManager"))


async def test_long_work_is_not_begun_again_before_it_has_ended(jobs: PeriodicJobs) -> None:
    running, most, rounds = 0, 0, asyncio.Semaphore(0)

    async def work(budget: Budget) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        rounds.release()

    jobs.run_in_slices_every(1, work)
    async with asyncio.timeout(TIMEOUT_S):
        for _ in range(3):
            await rounds.acquire()
    jobs.stop()
    assert most == 1


async def test_work_that_fails_is_done_again(jobs: PeriodicJobs, caplog: pytest.LogCaptureFixture) -> None:
    rounds = asyncio.Semaphore(0)

    async def work(budget: Budget) -> None:
        rounds.release()
        raise StorageError("no space left on device")

    jobs.run_in_slices_every(1, work)
    with caplog.at_level(logging.ERROR):
        async with asyncio.timeout(TIMEOUT_S):
            for _ in range(2):
                await rounds.acquire()
    jobs.stop()
    assert "no space left on device" in caplog.text


async def test_a_stop_cancels_long_work(jobs: PeriodicJobs) -> None:
    has_begun, is_cancelled = asyncio.Event(), asyncio.Event()

    async def work(budget: Budget) -> None:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_cancelled.set()

    jobs.run_in_slices_every(1, work)
    async with asyncio.timeout(TIMEOUT_S):
        await has_begun.wait()
        jobs.stop()
        await is_cancelled.wait()
