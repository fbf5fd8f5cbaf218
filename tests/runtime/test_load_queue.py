import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from coordinator.runtime.partition_loader import LoadQueue, Opening
from storage.log import PartitionLog
from storage.log_config import LogConfig
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles

TIMEOUT_S = 60


class Queue:
    """A queue that signals when it is empty."""

    def __init__(self) -> None:
        self.empty = asyncio.Event()
        self.opener = ThreadPoolExecutor(1)
        self.queue = LoadQueue(asyncio.get_running_loop(), self.opener, self.empty.set)

    async def done(self) -> None:
        await asyncio.wait_for(self.empty.wait(), TIMEOUT_S)


@pytest.fixture
async def queue() -> AsyncIterator[Queue]:
    queue = Queue()
    yield queue
    await queue.queue.stop()
    queue.opener.shutdown()


def log_of(records: int) -> PartitionLog:
    files = FaultyFiles()
    files.mkdir("/data")
    log = PartitionLog.open(files, "/data/log-0", LogConfig())
    for number in range(records):
        log.append_records([record(number)])
    return log


async def test_a_small_log_overtakes_a_large_one(queue: Queue) -> None:
    small_is_read = False
    steps = 0

    def read_large(opening: Opening) -> Iterator[None]:
        nonlocal steps
        while not small_is_read:
            steps += 1
            if steps == 1:
                queue.queue.add_log(lambda: log_of(1), read_small)
            yield

    def read_small(opening: Opening) -> Iterator[None]:
        nonlocal small_is_read
        yield
        small_is_read = True

    queue.queue.add_log(lambda: log_of(100), read_large)
    await queue.done()
    assert small_is_read
    assert steps


async def test_why_a_log_cannot_be_opened_is_for_its_reader_to_know(queue: Queue) -> None:
    errors: list[BaseException | None] = []

    def fail() -> PartitionLog:
        raise OSError("no")

    def read(opening: Opening) -> Iterator[None]:
        errors.append(opening.exception())
        yield

    queue.queue.add_log(fail, read)
    await queue.done()
    assert [str(error) for error in errors] == ["no"]


async def test_the_loop_goes_on_while_a_log_is_being_opened(queue: Queue) -> None:
    may_open = threading.Event()

    def open_slowly() -> PartitionLog:
        assert may_open.wait(TIMEOUT_S)
        return log_of(1)

    def read(opening: Opening) -> Iterator[None]:
        yield

    queue.queue.add_log(open_slowly, read)
    await asyncio.sleep(0)
    assert not queue.empty.is_set()
    may_open.set()
    await queue.done()


async def test_a_stop_closes_what_is_opened_too_late_and_opens_nothing_more() -> None:
    queue = Queue()
    is_asked, may_open = threading.Event(), threading.Event()
    late, opened = log_of(1), []

    def open_slowly() -> PartitionLog:
        is_asked.set()
        assert may_open.wait(TIMEOUT_S)
        return late

    def open_another() -> PartitionLog:
        opened.append(1)
        return log_of(1)

    def read(opening: Opening) -> Iterator[None]:
        opened.append(2)
        yield

    queue.queue.add_log(open_slowly, read)
    queue.queue.add_log(open_another, read)
    await asyncio.to_thread(is_asked.wait, TIMEOUT_S)
    stopping = asyncio.create_task(queue.queue.stop())
    await asyncio.sleep(0)
    may_open.set()
    await asyncio.wait_for(stopping, TIMEOUT_S)
    await asyncio.sleep(0)
    queue.queue.add_log(open_another, read)
    assert late.is_closed
    assert not opened


async def test_a_reader_that_fails_keeps_no_other_log_from_being_read(queue: Queue) -> None:
    is_read = False

    def fail(opening: Opening) -> Iterator[None]:
        yield
        raise RuntimeError("a defect")

    def read(opening: Opening) -> Iterator[None]:
        nonlocal is_read
        yield
        is_read = True

    queue.queue.add_log(lambda: log_of(1), fail)
    queue.queue.add_log(lambda: log_of(2), read)
    await queue.done()
    assert is_read


async def test_a_reader_learns_that_no_thread_could_be_started(queue: Queue) -> None:
    errors: list[BaseException | None] = []

    def read(opening: Opening) -> Iterator[None]:
        errors.append(opening.exception())
        yield

    queue.opener.shutdown()
    queue.queue.add_log(lambda: log_of(1), read)
    await queue.done()
    assert isinstance(errors[0], RuntimeError)
