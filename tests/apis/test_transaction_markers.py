"""The ends of transactions on their way to partitions: in slices, again after a while, and none after the close."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coordinator.apis.transaction_markers import (
    INITIAL_RETRY_MS,
    OnMarkerWritten,
    TransactionEnd,
    TransactionMarkerManager,
    TransactionMarkerWriter,
)
from coordinator.core.time_budget import RunQueue
from coordinator.transactions.transaction_requests import MarkersRefused, MarkersWritten, WriteMarkers
from protocol.error_codes import ErrorCode
from storage.topic_partition import TopicPartition

Answer = Callable[[TopicPartition], ErrorCode]


class Writer(TransactionMarkerWriter):
    """Answers each marker at once, with the result that a test sets."""

    def __init__(self, answer: Answer, *, takes_s: float = 0) -> None:
        self.written: list[TopicPartition] = []
        self.problem: Exception | None = None
        self._answer = answer
        self._takes_s = takes_s

    def write_marker(self, partition: TopicPartition, end: TransactionEnd, done: OnMarkerWritten) -> None:
        self.written.append(partition)
        until_s = time.thread_time() + self._takes_s
        while time.thread_time() < until_s:
            pass
        if self.problem is not None:
            problem, self.problem = self.problem, None
            raise problem
        done(self._answer(partition))


class Coordinator:
    """Records the results of markers."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[Any] = asyncio.Queue()

    def receive_message(self, transactional_id: str, message: object) -> None:
        self.told.put_nowait(message)


class LoopOfTimers:
    """Runs due callbacks on request and records the delays of the others."""

    def __init__(self) -> None:
        self.due: list[Callable[[], object]] = []
        self.delays_s: list[float] = []

    def call_soon(self, call: Callable[..., object], *args: Any) -> None:
        """As a loop."""
        self.due.append(lambda: call(*args))

    def call_later(self, delay_s: float, call: Callable[..., object], *args: Any) -> None:
        """As a loop, but without waiting."""
        self.delays_s.append(delay_s)
        self.call_soon(call, *args)

    def run(self) -> None:
        """One iteration."""
        due, self.due = self.due, []
        for call in due:
            call()


def ended(transactional_id: str, partitions: int) -> WriteMarkers:
    return WriteMarkers(transactional_id, 7, 0, 1, True, 0, [("orders", n) for n in range(partitions)])


def markers(loop: Any, writer: Any, coordinator: Any) -> TransactionMarkerManager:
    return TransactionMarkerManager(
        loop, RunQueue(loop), writer, coordinator, on_transaction_ended=lambda _: None
    )


def everything(_: TopicPartition) -> ErrorCode:
    return ErrorCode.NONE


@contextmanager
def in_each_iteration(writer: Writer) -> Iterator[list[int]]:
    """How many markers were written before others had their turn."""
    loop = asyncio.get_running_loop()
    numbers: list[int] = []
    goes_on = True
    before = 0

    def turn() -> None:
        nonlocal before
        numbers.append(len(writer.written) - before)
        before = len(writer.written)
        if goes_on:
            loop.call_soon(turn)

    loop.call_soon(turn)
    yield numbers
    goes_on = False


async def test_others_have_their_turn_while_many_transactions_end_at_once() -> None:
    writer, coordinator = Writer(everything, takes_s=0.001), Coordinator()
    under_way = markers(asyncio.get_running_loop(), writer, coordinator)
    with in_each_iteration(writer) as numbers:
        for number in range(10):
            under_way.deliver_markers(f"t{number}", ended(f"t{number}", 60))
        told = [await asyncio.wait_for(coordinator.told.get(), 60) for _ in range(10)]
    assert {message.transactional_id for message in told} == {f"t{number}" for number in range(10)}
    assert all(isinstance(message, MarkersWritten) and len(message.partitions) == 60 for message in told)
    assert len(writer.written) == 600
    assert max(numbers) < 60, "600 ms of work in slices"


async def test_a_small_transaction_does_not_wait_for_a_large_one() -> None:
    writer, coordinator = Writer(everything), Coordinator()
    under_way = markers(asyncio.get_running_loop(), writer, coordinator)
    under_way.deliver_markers("large", ended("large", 10_000))
    under_way.deliver_markers("small", ended("small", 1))
    first = await asyncio.wait_for(coordinator.told.get(), 60)
    assert first.transactional_id == "small"
    assert len((await asyncio.wait_for(coordinator.told.get(), 60)).partitions) == 10_000


def test_a_disk_that_goes_on_refusing_is_asked_less_and_less_often() -> None:
    loop, writer = LoopOfTimers(), Writer(lambda _: ErrorCode.KAFKA_STORAGE_ERROR)
    markers(loop, writer, Coordinator()).deliver_markers("t", ended("t", 3))
    for _ in range(12):
        loop.run()
    assert len(writer.written) > 9
    assert loop.delays_s[0] == INITIAL_RETRY_MS / 1000
    assert loop.delays_s == sorted(loop.delays_s)
    assert 1 < loop.delays_s[-1] < 5


def test_nothing_is_written_after_the_close() -> None:
    loop, writer = LoopOfTimers(), Writer(everything)
    under_way = markers(loop, writer, Coordinator())
    under_way.deliver_markers("before", ended("before", 3))
    under_way.close()
    under_way.deliver_markers("after", ended("after", 3))
    loop.run()
    assert not writer.written
    assert not len(under_way)


def test_what_has_its_marker_is_told_also_where_another_partition_refuses() -> None:
    loop, coordinator = LoopOfTimers(), Coordinator()
    refuses_last = Writer(
        lambda name: ErrorCode.INVALID_PRODUCER_EPOCH if name.partition == 2 else ErrorCode.NONE
    )
    markers(loop, refuses_last, coordinator).deliver_markers("t", ended("t", 4))
    loop.run()
    written, refused = coordinator.told.get_nowait(), coordinator.told.get_nowait()
    assert isinstance(written, MarkersWritten)
    assert list(written.partitions) == [("orders", 0), ("orders", 1)]
    assert isinstance(refused, MarkersRefused)
    assert list(refused.partitions) == [("orders", 2)]


def test_a_marker_that_fails_for_no_known_reason_is_written_again() -> None:
    loop, writer, coordinator = LoopOfTimers(), Writer(everything), Coordinator()
    writer.problem = AssertionError("no producers")
    markers(loop, writer, coordinator).deliver_markers("t", ended("t", 2))
    for _ in range(3):
        loop.run()
    told = [coordinator.told.get_nowait(), coordinator.told.get_nowait()]
    assert [list(message.partitions) for message in told] == [[("orders", 1)], [("orders", 0)]]
