from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.batch import CONTROL, TRANSACTIONAL, BatchHeader, read_header
from storage.producers.producer_state import (
    MAX_EPOCH,
    CompletedTransaction,
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    ProducerState,
    VerificationStateEntry,
)
from storage.producers.producer_table import MAX_BATCHES_KEPT, MAX_SEQUENCE
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
            for _, _, first, records, where in current[-MAX_BATCHES_KEPT:]:
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
    duplicate = state.find_duplicate(sent)
    if duplicate is not None:
        return duplicate.first_offset
    try:
        state.check_batch(sent)
    except InvalidProducerEpoch:
        return "epoch"
    except OutOfOrderSequence:
        return "order"
    state.record_batch(sent, offset, sent.max_timestamp_ms)
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
        loaded.record_batch(sent, where, sent.max_timestamp_ms)
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
        state.check_batch(header(1, 3, 50))
    assert state.expire(NOW_MS + HOUR_MS) == 1
    assert send(state, header(1, 0, 50), 1) == 1


def test_batches_without_a_producer_are_not_remembered() -> None:
    state = ProducerState(HOUR_MS)
    state.record_batch(header(-1, -1, -1), 0, NOW_MS)
    assert len(state) == 0


# Transactions


def part(producer_id: int, epoch: int, sequence: int, count: int = 1) -> BatchHeader:
    """A batch of a transaction."""
    plain = header(producer_id, epoch, sequence, count)
    return plain._replace(attributes=plain.attributes | TRANSACTIONAL)


def begin(state: ProducerState, sent: BatchHeader, offset: int) -> None:
    """The coordinator has agreed, and the batch is written."""
    state.check_batch(sent, state.begin_verification(sent, NOW_MS, adds_partition=False))
    state.record_batch(sent, offset, NOW_MS)


def test_a_transaction_begins_only_with_the_consent_of_its_coordinator() -> None:
    state = ProducerState(HOUR_MS)
    sent = part(1, 0, 0)
    assert state.needs_verification(sent)
    with pytest.raises(InvalidTransactionState):
        state.check_batch(sent)
    held = state.begin_verification(sent, NOW_MS, adds_partition=False)
    assert state.begin_verification(sent, NOW_MS, adds_partition=False) is held
    with pytest.raises(InvalidTransactionState):
        state.check_batch(sent, VerificationStateEntry(sent, NOW_MS, adds_partition=False))
    state.check_batch(sent, held)
    state.record_batch(sent, 0, NOW_MS)
    assert not state.needs_verification(part(1, 0, 1))
    state.check_batch(part(1, 0, 1))
    # The transaction ended meanwhile: a batch in flight needs a new verification.
    state.record_marker(1, 0, 0, 1, NOW_MS)
    with pytest.raises(InvalidTransactionState):
        state.check_batch(part(1, 0, 1), held)


def test_a_marker_takes_a_consent_back_but_not_that_of_the_next_transaction() -> None:
    for adds, epoch, marker_epoch, is_kept in (
        (False, 0, 0, False),
        (True, 1, 1, True),
        (True, 1, 0, False),
        (True, 0, 1, False),
    ):
        state = ProducerState(HOUR_MS)
        begin(state, part(1, 0, 0), 0)
        sent = part(1, epoch, 0 if epoch else 1)
        held = state.begin_verification(sent, NOW_MS, adds_partition=adds)
        state.record_marker(1, marker_epoch, 0, 1, NOW_MS)
        if marker_epoch > epoch:
            with pytest.raises(InvalidProducerEpoch):
                state.check_batch(sent, held)
            continue
        if is_kept:
            state.check_batch(sent, held)
        else:
            with pytest.raises(InvalidTransactionState):
                state.check_batch(sent, held)


def test_what_came_first_while_it_was_verified_is_written_first() -> None:
    state = ProducerState(HOUR_MS)
    first, second = part(1, 0, 0), part(1, 0, 1)
    held = state.begin_verification(second, NOW_MS, adds_partition=False)
    assert state.begin_verification(first, NOW_MS, adds_partition=False) is held
    with pytest.raises(OutOfOrderSequence):
        state.check_batch(second, held)
    state.check_batch(first, held)


def test_a_producer_without_a_state_begins_at_0_where_the_coordinator_takes_the_partition_in() -> None:
    state = ProducerState(HOUR_MS)
    sent = part(1, 0, 5)
    held = state.begin_verification(sent, NOW_MS, adds_partition=True)
    with pytest.raises(OutOfOrderSequence):
        state.check_batch(sent, held)
    state = ProducerState(HOUR_MS)
    state.check_batch(sent, state.begin_verification(sent, NOW_MS, adds_partition=False))


def test_a_plain_batch_has_no_place_in_a_transaction() -> None:
    state = ProducerState(HOUR_MS)
    begin(state, part(1, 0, 0), 0)
    with pytest.raises(InvalidTransactionState):
        state.check_batch(header(1, 0, 1))


def test_a_batch_of_the_coordinator_is_not_numbered() -> None:
    state = ProducerState(HOUR_MS)
    state.check_batch(part(1, 0, 0), is_verified=False, is_sequenced=False)
    state.record_batch(part(1, 0, 0), 0, NOW_MS)
    state.check_batch(part(1, 0, 0), is_sequenced=False)
    with pytest.raises(OutOfOrderSequence):
        state.check_batch(part(1, 0, 0))


@pytest.mark.parametrize("level", [0, 1])
def test_a_marker_below_level_2_carries_the_epoch_that_wrote(level: int) -> None:
    state = ProducerState(HOUR_MS)
    begin(state, part(1, 3, 0), 0)
    assert state.check_marker(1, 3, 0, level) is False
    assert state.check_marker(1, 4, 0, level) is False
    with pytest.raises(InvalidProducerEpoch):
        state.check_marker(1, 2, 0, level)
    state.record_marker(1, 3, 0, 1, NOW_MS)
    # The numbers go on.
    state.check_batch(part(1, 3, 1), is_verified=False)


def test_a_marker_of_level_2_carries_the_next_epoch_and_ends_the_numbers() -> None:
    state = ProducerState(HOUR_MS)
    begin(state, part(1, 3, 0), 0)
    for epoch in (2, 3):
        with pytest.raises(InvalidProducerEpoch):
            state.check_marker(1, epoch, 0, 2)
    assert state.check_marker(1, 4, 0, 2) is False
    state.record_marker(1, 4, 0, 1, NOW_MS)
    assert state.check_marker(1, 4, 0, 2) is True
    with pytest.raises(InvalidProducerEpoch):
        state.check_batch(part(1, 3, 1), is_verified=False)
    with pytest.raises(OutOfOrderSequence):
        state.check_batch(part(1, 4, 1), is_verified=False)
    state.check_batch(part(1, 4, 0), is_verified=False)
    state.record_batch(part(1, 4, 0), 2, NOW_MS)
    with pytest.raises(InvalidProducerEpoch):
        state.check_marker(1, 4, 0, 2)


def test_the_last_epoch_of_all_is_ended_with_itself() -> None:
    state = ProducerState(HOUR_MS)
    begin(state, part(1, MAX_EPOCH, 0), 0)
    assert state.check_marker(1, MAX_EPOCH, 0, 2) is True


def test_a_coordinator_that_was_replaced_ends_nothing() -> None:
    state = ProducerState(HOUR_MS)
    state.record_marker(1, 0, 5, 0, NOW_MS)
    assert state.check_marker(1, 0, 5, 0) is False
    with pytest.raises(CoordinatorFenced):
        state.check_marker(1, 0, 4, 0)
    assert state.check_marker(2, 0, 0, 2) is False


def test_an_open_transaction_and_its_producer_are_not_forgotten() -> None:
    state = ProducerState(HOUR_MS)
    begin(state, part(1, 0, 0), 0)
    assert state.expire(NOW_MS + 10 * HOUR_MS) == 0
    state.record_marker(1, 0, 0, 1, NOW_MS)
    assert state.expire(NOW_MS + HOUR_MS) == 1
    assert state.needs_verification(part(1, 0, 1))


def test_a_consent_that_never_came_is_forgotten() -> None:
    state = ProducerState(HOUR_MS)
    sent = part(1, 0, 0)
    held = state.begin_verification(sent, NOW_MS, adds_partition=False)
    state.expire(NOW_MS + HOUR_MS)
    with pytest.raises(InvalidTransactionState):
        state.check_batch(sent, held)


def test_only_the_last_batch_of_a_producer_or_its_marker_is_needed_for_it() -> None:
    state = ProducerState(HOUR_MS)
    begin(state, part(1, 0, 0), 0)
    state.record_batch(part(1, 0, 1), 1, NOW_MS)
    first, last = part(1, 0, 0), part(1, 0, 1)._replace(base_offset=1)
    marker = part(1, 1, -1)._replace(base_offset=2, attributes=TRANSACTIONAL | CONTROL)
    assert (state.is_last_batch(first), state.is_last_batch(last), state.is_last_batch(marker)) == (
        False,
        True,
        False,
    )
    state.record_marker(1, 1, 0, 2, NOW_MS)
    assert (state.is_last_batch(first), state.is_last_batch(last), state.is_last_batch(marker)) == (
        False,
        False,
        True,
    )
    assert not state.is_last_batch(marker._replace(producer_epoch=0))


ENDS = st.lists(
    st.tuples(st.sampled_from(["begin", "commit", "abort", "see"]), st.integers(1, 3), st.integers(0, 5)),
    max_size=40,
)


@given(ENDS)
def test_the_last_stable_offset_is_where_the_first_begins_whose_end_nobody_sees(
    steps: list[tuple[str, int, int]],
) -> None:
    state = ProducerState(HOUR_MS)
    transactions: list[list[int]] = []
    """Producer, first offset, offset of the marker or -1."""
    offset = high_watermark = 0
    sequences: dict[int, int] = {}
    for step, producer_id, behind in steps:
        mine = [each for each in transactions if each[0] == producer_id and each[2] < 0]
        if step == "begin":
            sent = part(producer_id, 0, sequences.get(producer_id, 0))
            sequences[producer_id] = sent.base_sequence + 1
            state.record_batch(sent, offset, NOW_MS)
            if not mine:
                transactions.append([producer_id, offset, -1])
        elif step == "see":
            high_watermark = max(high_watermark, offset - behind)
        else:
            ended = state.record_marker(producer_id, 0, 0, offset, NOW_MS)
            assert ended == (CompletedTransaction(producer_id, mine[0][1], offset) if mine else None)
            if mine:
                mine[0][2] = offset
        offset += step != "see"
        unseen = [first for _, first, end in transactions if end < 0 or end >= high_watermark]
        assert state.find_last_stable_offset(high_watermark) == min([high_watermark, *unseen])
