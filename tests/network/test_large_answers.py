"""Long answers, of which one is made at a time, while peers read them, or do not."""

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from coordinator.net import large_answers
from coordinator.net.api_counts import ApiCounts
from coordinator.net.large_answers import AnswerTooLong, LargeAnswers
from coordinator.net.slot import Slot
from protocol.malformed import TooLong

MIB = 1024 * 1024


class Form:
    """Of answers that are given by their size."""

    version = 0
    counts = ApiCounts()

    def write(
        self, response: Any, correlation_id: int, out: bytearray, most_bytes: int | None = None
    ) -> None:
        """So many bytes."""
        if most_bytes is not None and response > most_bytes:
            raise TooLong
        out += bytes(response)


class Peer:
    """A connection. What it has and has not read is for the test to say."""

    peer = "peer"

    def __init__(self) -> None:
        self.answer_bytes = 0
        self.read_bytes = 0
        self.is_cut_off = False
        self.problem: Exception | None = None
        self.filled = asyncio.Event()

    def ask(self, answers: LargeAnswers, size: int) -> "Peer":
        """Is to be answered with so many bytes."""
        answers.add(Slot(self, Form(), 1, parks=True, opened_ns=1), size)
        return self

    def read(self, size: int) -> None:
        """Reads."""
        self.answer_bytes -= size
        self.read_bytes += size

    def fill(self, slot: Slot, response: object) -> None:
        """Not used here."""
        raise AssertionError

    def park(self, slot: Slot) -> None:
        """What is to be written in time parks already."""

    def fill_written(self, slot: Slot, frame: bytearray) -> None:
        """The answer is there."""
        self.answer_bytes += len(frame)
        self.filled.set()

    def has_failed(self, problem: Exception) -> None:
        """There will be none."""
        self.problem = problem
        self.filled.set()

    def close(self) -> None:
        """Not used here."""
        raise AssertionError

    def abort(self) -> None:
        """Its peer is cut off."""
        self.is_cut_off = True
        self.answer_bytes = 0


@pytest_asyncio.fixture
async def answers(monkeypatch: pytest.MonkeyPatch) -> LargeAnswers:
    monkeypatch.setattr(large_answers, "PATIENCE_S", 0.05)
    monkeypatch.setattr(large_answers, "LOOK_S", 0.01)
    return LargeAnswers(asyncio.get_running_loop())


async def made(peer: Peer) -> None:
    await asyncio.wait_for(peer.filled.wait(), 60)


async def test_answers_that_are_read_are_all_made(answers: LargeAnswers) -> None:
    for peer in [Peer().ask(answers, 40 * MIB) for _ in range(5)]:
        await made(peer)
        peer.read(40 * MIB)
        assert not peer.is_cut_off


async def test_one_that_is_too_long_fails_and_the_next_is_made(answers: LargeAnswers) -> None:
    first, second = Peer().ask(answers, 101_000_000), Peer().ask(answers, MIB)
    await made(first)
    assert isinstance(first.problem, AnswerTooLong)
    await made(second)
    assert second.problem is None


async def test_one_that_cannot_be_handed_over_keeps_no_other_from_being_made(answers: LargeAnswers) -> None:
    class Broken(Peer):
        def fill_written(self, slot: Slot, frame: bytearray) -> None:
            raise RuntimeError("a defect")

    first, second = Broken().ask(answers, MIB), Peer().ask(answers, MIB)
    await made(first)
    assert isinstance(first.problem, RuntimeError)
    await made(second)
    assert second.problem is None


@pytest.mark.parametrize("drip", [0, 1])
async def test_who_hardly_reads_is_cut_off_when_another_waits(answers: LargeAnswers, drip: int) -> None:
    hoarder, waiting = Peer().ask(answers, 80 * MIB), Peer()
    await made(hoarder)
    waiting.ask(answers, MIB)
    while not waiting.filled.is_set():
        hoarder.read(drip if hoarder.answer_bytes else 0)
        await asyncio.sleep(0.01)
    assert hoarder.is_cut_off


async def test_who_reads_on_is_not_cut_off_though_new_answers_come_for_it(answers: LargeAnswers) -> None:
    """It reads a quarter of what it was given in each time that it has: a sixth is asked of it."""
    reader, waiting = Peer().ask(answers, 90 * MIB), Peer()
    await made(reader)
    waiting.ask(answers, MIB)
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    while not waiting.filled.is_set():
        due = round((loop.time() - started_s) / large_answers.PATIENCE_S * 90 * MIB / 4)
        reader.answer_bytes += MIB  # a Fetch was answered meanwhile
        reader.read(due - reader.read_bytes)
        await asyncio.sleep(0.005)
    assert not reader.is_cut_off


async def test_what_comes_after_a_large_answer_is_none(answers: LargeAnswers) -> None:
    """A consumer that has read it, and leaves unread what it has fetched since, keeps nobody waiting here."""
    reader = Peer().ask(answers, 80 * MIB)
    await made(reader)
    reader.answer_bytes += 100 * MIB
    reader.read(80 * MIB)
    waiting = Peer().ask(answers, MIB)
    await made(waiting)
    assert not reader.is_cut_off


async def test_what_came_before_a_large_answer_is_none_either(answers: LargeAnswers) -> None:
    consumer = Peer()
    consumer.answer_bytes = 100 * MIB
    await made(consumer.ask(answers, MIB))
    waiting = Peer().ask(answers, MIB)
    await made(waiting)
    assert not consumer.is_cut_off


async def test_two_large_answers_are_read_one_after_the_other(answers: LargeAnswers) -> None:
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


async def test_who_has_no_large_answer_is_left_alone(answers: LargeAnswers) -> None:
    consumer = Peer()
    consumer.answer_bytes = 200 * MIB
    waiting = Peer().ask(answers, MIB)
    await made(waiting)
    assert not consumer.is_cut_off
