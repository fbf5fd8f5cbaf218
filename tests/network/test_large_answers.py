"""Large responses, encoded one at a time, while peers read them or do not."""

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from coordinator.network import large_messages
from coordinator.network.large_messages import LargeResponseWriter, ResponseTooLarge
from coordinator.network.request_context import ApiCounts, QueuedReply, ResponseEncoder
from protocol.apis import APIS, ApiKey
from protocol.primitives import TooLong
from tests.network.requests import StandInConnection

MIB = 1024 * 1024


class SizedEncoder(ResponseEncoder):
    """Encodes responses that are given by their size."""

    def __init__(self) -> None:
        super().__init__(APIS[ApiKey.METADATA], 0, ApiCounts())

    def write(
        self, response: Any, correlation_id: int, out: bytearray, most_bytes: int | None = None
    ) -> None:
        """So many bytes."""
        if most_bytes is not None and response > most_bytes:
            raise TooLong
        out += bytes(response)


class Peer(StandInConnection):
    """A connection. What it has and has not read is for the test to say."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cut_off = False
        self.problem: Exception | None = None
        self.filled = asyncio.Event()

    def ask(self, answers: LargeResponseWriter, size: int) -> "Peer":
        """Is to be answered with so many bytes."""
        answers.add_response(self.open_reply(SizedEncoder(), 1, True), size)
        return self

    def read(self, size: int) -> None:
        """Reads."""
        self.answer_bytes -= size
        self.read_bytes += size

    def add_frame(self, reply: QueuedReply, frame: bytearray) -> None:
        """The answer is there."""
        super().add_frame(reply, frame)
        self.filled.set()

    def fail(self, problem: Exception) -> None:
        """Fail the response."""
        self.problem = problem
        self.filled.set()

    def abort(self) -> None:
        """Its peer is cut off."""
        super().abort()
        self.is_cut_off = True


class ManualClock:
    """The time limit of reading peers: only the test advances it, on a machine of any speed."""

    def __init__(self) -> None:
        self.now_ns = 1

    def monotonic_ns(self) -> int:
        """As that of `coordinator.core.clock`."""
        return self.now_ns

    def advance(self, patiences: float) -> None:
        """Let a multiple of `READ_PERIOD_S` pass."""
        self.now_ns += round(patiences * large_messages.READ_PERIOD_S * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    manual = ManualClock()
    monkeypatch.setattr(large_messages, "clock", manual)
    return manual


@pytest_asyncio.fixture
async def answers(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> LargeResponseWriter:
    monkeypatch.setattr(large_messages, "POLL_INTERVAL_S", 0.001)
    return LargeResponseWriter(asyncio.get_running_loop())


async def made(peer: Peer) -> None:
    await asyncio.wait_for(peer.filled.wait(), 60)


async def test_answers_that_are_read_are_all_made(answers: LargeResponseWriter) -> None:
    for peer in [Peer().ask(answers, 40 * MIB) for _ in range(5)]:
        await made(peer)
        peer.read(40 * MIB)
        assert not peer.is_cut_off


async def test_one_that_is_too_long_fails_and_the_next_is_made(answers: LargeResponseWriter) -> None:
    first, second = Peer().ask(answers, 101_000_000), Peer().ask(answers, MIB)
    await made(first)
    assert isinstance(first.problem, ResponseTooLarge)
    await made(second)
    assert second.problem is None


async def test_one_that_cannot_be_handed_over_keeps_no_other_from_being_made(
    answers: LargeResponseWriter,
) -> None:
    class Broken(Peer):
        def add_frame(self, reply: QueuedReply, frame: bytearray) -> None:
            raise RuntimeError("a defect")

    first, second = Broken().ask(answers, MIB), Peer().ask(answers, MIB)
    await made(first)
    assert isinstance(first.problem, RuntimeError)
    await made(second)
    assert second.problem is None


@pytest.mark.parametrize("drip", [0, 1])
async def test_who_hardly_reads_is_cut_off_when_another_waits(
    answers: LargeResponseWriter, clock: ManualClock, drip: int
) -> None:
    hoarder, waiting = Peer().ask(answers, 80 * MIB), Peer()
    await made(hoarder)
    waiting.ask(answers, MIB)
    while not waiting.filled.is_set():
        hoarder.read(drip if hoarder.answer_bytes else 0)
        clock.advance(0.2)
        await asyncio.sleep(0.001)
    assert hoarder.is_cut_off


async def test_who_reads_on_is_not_cut_off_though_new_answers_come_for_it(
    answers: LargeResponseWriter, clock: ManualClock
) -> None:
    """It reads a quarter of its response in each period; the limit requires a sixth."""
    reader, waiting = Peer().ask(answers, 90 * MIB), Peer()
    await made(reader)
    waiting.ask(answers, MIB)
    while not waiting.filled.is_set():
        reader.answer_bytes += MIB  # a Fetch was answered meanwhile
        reader.read(90 * MIB // 40)
        clock.advance(0.1)
        await asyncio.sleep(0.001)
    assert not reader.is_cut_off


async def test_what_comes_after_a_large_answer_is_none(answers: LargeResponseWriter) -> None:
    """A consumer that has read it delays no other client with a later unread response."""
    reader = Peer().ask(answers, 80 * MIB)
    await made(reader)
    reader.answer_bytes += 100 * MIB
    reader.read(80 * MIB)
    waiting = Peer().ask(answers, MIB)
    await made(waiting)
    assert not reader.is_cut_off


async def test_what_came_before_a_large_answer_is_none_either(answers: LargeResponseWriter) -> None:
    consumer = Peer()
    consumer.answer_bytes = 100 * MIB
    await made(consumer.ask(answers, MIB))
    waiting = Peer().ask(answers, MIB)
    await made(waiting)
    assert not consumer.is_cut_off


async def test_two_large_answers_are_read_one_after_the_other(answers: LargeResponseWriter) -> None:
    """When the second is given, the peer has read a part of the first: both together are still too much."""
    reader = Peer().ask(answers, 60 * MIB)
    await made(reader)
    reader.read(10 * MIB)
    reader.filled.clear()
    await made(reader.ask(answers, 60 * MIB))
    waiting = Peer().ask(answers, MIB)
    await asyncio.sleep(0.02)
    assert not waiting.filled.is_set()
    reader.read(50 * MIB)
    await made(waiting)
    assert not reader.is_cut_off


async def test_who_has_no_large_answer_is_left_alone(answers: LargeResponseWriter) -> None:
    consumer = Peer()
    consumer.answer_bytes = 200 * MIB
    waiting = Peer().ask(answers, MIB)
    await made(waiting)
    assert not consumer.is_cut_off
