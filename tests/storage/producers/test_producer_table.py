import tracemalloc
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.batch import BatchHeader, read_header
from storage.producers.producer_state import ProducerState, TooManyProducers
from storage.producers.producer_table import (
    EXPIRE_SCAN_ROWS,
    MAX_SEQUENCE,
    ProducerEntry,
    ProducerTable,
    SequencedBatch,
)
from tests.topics.broker import NOW_MS, sequenced

DAY_MS: Final = 86_400_000
MOST_BYTES_EACH: Final = 110
HEADER: Final = read_header(sequenced(1, 0, 0, 1))

BATCHES = st.builds(
    SequencedBatch,
    st.integers(-1, MAX_SEQUENCE),
    st.integers(-1, MAX_SEQUENCE),
    st.integers(100, 120),
    st.integers(120, 130),
    st.integers(0, 3),
)


@st.composite
def entries(draw: st.DrawFn) -> ProducerEntry:
    entry = ProducerEntry()
    entry.epoch = draw(st.integers(0, 3))
    entry.coordinator_epoch = draw(st.integers(-1, 3))
    for batch in draw(st.lists(BATCHES, max_size=5)):
        entry.add_batch(batch)
    entry.last_timestamp_ms = draw(st.integers(0, 3))
    entry.transaction_offset = draw(st.none() | st.integers(0, 50))
    return entry


def fields(entry: ProducerEntry) -> tuple[object, ...]:
    return (
        entry.epoch,
        entry.coordinator_epoch,
        entry.batches,
        entry.last_timestamp_ms,
        entry.transaction_offset,
    )


def stays(entry: ProducerEntry, limit_ms: int) -> bool:
    return entry.last_timestamp_ms > limit_ms or entry.transaction_offset is not None


def header(producer_id: int) -> BatchHeader:
    return HEADER._replace(producer_id=producer_id)


PUTS = st.tuples(st.integers(0, 200), entries())
STEPS = st.lists(PUTS | st.integers(0, 3), max_size=150)


@given(STEPS)
def test_it_holds_what_a_dictionary_would(steps: list[tuple[int, ProducerEntry] | int]) -> None:
    table, model = ProducerTable(), dict[int, ProducerEntry]()
    for step in steps:
        if isinstance(step, int):
            kept = {key: known for key, known in model.items() if stays(known, step)}
            assert table.expire(step) == len(model) - len(kept)
            model = kept
        else:
            table.store_entry(*step)
            model[step[0]] = step[1]
    assert len(table) == len(model)
    found = {producer_id: fields(entry) for producer_id, entry in table.iterate_entries()}
    assert found == {producer_id: fields(entry) for producer_id, entry in model.items()}
    for producer_id in range(201):
        entry, known = table.find_entry(producer_id), model.get(producer_id)
        assert (entry is None) == (known is None)
        if entry is not None and known is not None:
            assert fields(entry) == fields(known)


def test_a_copy_changes_by_itself() -> None:
    state = ProducerState(DAY_MS)
    for producer_id in range(100):
        state.record_batch(header(producer_id), producer_id, NOW_MS)
    other = state.copy()
    for producer_id in range(50, 150):
        other.record_marker(producer_id, 1, 0, 200, NOW_MS)
    assert len(state) == 100
    assert len(other) == 150
    assert {entry.epoch for _, entry in state.iterate_entries()} == {0}


def test_a_producer_of_one_batch_takes_a_hundred_bytes() -> None:
    headers = [header(number * 2_654_435_761 % 2**62) for number in range(5_000)]
    state = ProducerState(DAY_MS)
    tracemalloc.start()
    try:
        for number, each in enumerate(headers):
            state.record_batch(each, number, NOW_MS)
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(state) == len(headers)
    assert taken_bytes / len(headers) < MOST_BYTES_EACH


def test_producers_beyond_those_of_one_round_expire_in_the_next() -> None:
    state = ProducerState(DAY_MS)
    count = EXPIRE_SCAN_ROWS + 1000
    for producer_id in range(count):
        state.record_batch(header(producer_id), producer_id, NOW_MS)
    first = state.expire(NOW_MS + DAY_MS)
    assert 0 < first < count
    assert first + state.expire(NOW_MS + DAY_MS) == count
    assert len(state) == 0


def test_a_full_partition_refuses_new_producers_alone() -> None:
    state = ProducerState(DAY_MS, max_producers=3)
    for producer_id in range(3):
        state.check_batch(header(producer_id))
        state.record_batch(header(producer_id), producer_id, NOW_MS + producer_id)
    with pytest.raises(TooManyProducers):
        state.check_batch(header(3))
    state.check_batch(header(0)._replace(base_sequence=1))
    assert state.expire(NOW_MS + DAY_MS) == 1
    state.check_batch(header(3))
