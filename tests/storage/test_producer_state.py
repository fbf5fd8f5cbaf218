from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.batch import BatchHeader, read_header
from storage.producers.producer_state import (
    BATCHES_KEPT,
    MAX_SEQUENCE,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    ProducerState,
)
from tests.topics.broker import NOW_MS, sequenced

HOUR_MS = 3_600_000


def header(producer_id: int, epoch: int, sequence: int, count: int = 1) -> BatchHeader:
    return read_header(sequenced(producer_id, epoch, sequence, count))


@dataclass
class Model:
    """Every accepted batch of every producer, and nothing clever."""

    accepted: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """(producer, epoch, first sequence, records, offset)."""

    def send(self, producer: int, epoch: int, sequence: int, count: int, offset: int) -> str | int:
        mine = [entry for entry in self.accepted if entry[0] == producer]
        newest = max((entry[1] for entry in mine), default=-1)
        current = [entry for entry in mine if entry[1] == newest]
        if epoch == newest:
            for _, _, first, records, where in current[-BATCHES_KEPT:]:
                if (first, records) == (sequence, count):
                    return where
        if epoch < newest:
            return "epoch"
        if mine and epoch == newest:
            _, _, first, records, _ = current[-1]
            if sequence != (first + records) % (MAX_SEQUENCE + 1):
                return "order"
        elif mine and sequence != 0:
            return "order"
        self.accepted.append((producer, epoch, sequence, count, offset))
        return offset


def send(state: ProducerState, sent: BatchHeader, offset: int) -> str | int:
    duplicate = state.duplicate_of(sent)
    if duplicate is not None:
        return duplicate.first_offset
    try:
        state.check(sent)
    except InvalidProducerEpoch:
        return "epoch"
    except OutOfOrderSequence:
        return "order"
    state.record(sent, offset, sent.max_timestamp_ms)
    return offset


SENDS = st.lists(
    st.tuples(
        st.integers(1, 2),
        st.integers(0, 2),
        st.one_of(st.integers(0, 8), st.integers(MAX_SEQUENCE - 2, MAX_SEQUENCE)),
        st.integers(1, 3),
    ),
    max_size=40,
)


@given(SENDS)
def test_it_answers_as_one_that_remembers_everything(sends: list[tuple[int, int, int, int]]) -> None:
    state, model, offset = ProducerState(HOUR_MS), Model(), 0
    for producer, epoch, sequence, count in sends:
        expected = model.send(producer, epoch, sequence, count, offset)
        assert send(state, header(producer, epoch, sequence, count), offset) == expected
        if expected == offset:
            offset += count


@given(SENDS)
def test_reading_the_log_again_gives_the_same_answers(sends: list[tuple[int, int, int, int]]) -> None:
    live, offset = ProducerState(HOUR_MS), 0
    log: list[tuple[BatchHeader, int]] = []
    for sent in [header(*entry) for entry in sends]:
        if send(live, sent, offset) == offset:
            log.append((sent, offset))
            offset += sent.records_count
    loaded = ProducerState(HOUR_MS)
    for sent, where in log:
        loaded.record(sent, where, sent.max_timestamp_ms)
    for sent in [header(*entry) for entry in sends]:
        assert send(loaded, sent, offset) == send(live, sent, offset)


def test_only_the_last_five_batches_are_recognised_again() -> None:
    state = ProducerState(HOUR_MS)
    for sequence in range(6):
        assert send(state, header(1, 0, sequence), sequence) == sequence
    assert send(state, header(1, 0, 1), 99) == 1
    assert send(state, header(1, 0, 0), 99) == "order"


def test_sequence_numbers_begin_again_after_the_greatest() -> None:
    state = ProducerState(HOUR_MS)
    assert send(state, header(1, 0, MAX_SEQUENCE - 1, 2), 0) == 0
    assert send(state, header(1, 0, 0), 2) == 2
    assert send(state, header(1, 0, MAX_SEQUENCE - 1, 2), 3) == 0


def test_a_producer_that_was_silent_too_long_may_begin_anywhere() -> None:
    state = ProducerState(HOUR_MS)
    send(state, header(1, 3, 0), 0)
    assert state.expire(NOW_MS + HOUR_MS - 1) == 0
    with pytest.raises(OutOfOrderSequence):
        state.check(header(1, 3, 50))
    assert state.expire(NOW_MS + HOUR_MS) == 1
    assert send(state, header(1, 0, 50), 1) == 1


def test_batches_without_a_producer_are_not_remembered() -> None:
    state = ProducerState(HOUR_MS)
    state.record(header(-1, -1, -1), 0, NOW_MS)
    assert len(state) == 0
