import pytest

from coordinator.transactions.transaction_event_types import (
    NoProducerId,
    ProducerFenced,
    ProducerInitialized,
    TimeoutOutOfRange,
    TransactionRequestRefused,
)
from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.transactions.coordinator import A0, FIRST_ID, TID, Answer, Coordinator

NONE = ErrorCode.NONE
LAST = 32766


def at_epoch(epoch: int, level: int = 2) -> Coordinator:
    """A transactional id that is Empty at an epoch."""
    coordinator = Coordinator(transaction_version=level)
    coordinator.init()
    (record,) = coordinator.records
    record.value.producer_epoch = epoch
    later = Coordinator(coordinator.config, [record])
    later.next_id = coordinator.next_id
    return later


def test_a_new_producer_begins_at_epoch_0_and_its_successor_at_1() -> None:
    coordinator = Coordinator()
    assert coordinator.init(timeout_ms=5000) == Answer(NONE, FIRST_ID, 0)
    assert coordinator.find_events(ProducerInitialized) == [
        ProducerInitialized(TID, FIRST_ID, 0, 5000, False)
    ]
    assert coordinator.describe().transaction_timeout_ms == 5000
    assert coordinator.init(timeout_ms=7000) == Answer(NONE, FIRST_ID, 1)
    assert coordinator.describe().transaction_timeout_ms == 7000


def test_who_names_its_epoch_gets_the_next_one_and_once_more_when_it_asks_again() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.init()
    assert coordinator.init(FIRST_ID, 1) == Answer(NONE, FIRST_ID, 2)
    assert coordinator.init(FIRST_ID, 1) == Answer(NONE, FIRST_ID, 2)
    assert [event.is_repeat for event in coordinator.find_events(ProducerInitialized)] == [
        False,
        False,
        False,
        True,
    ]
    assert coordinator.init(FIRST_ID, 0).error == 90
    coordinator.restart()
    assert coordinator.init(FIRST_ID, 1).error == 90, "what it was before is not in the log"


def test_an_unknown_transactional_id_takes_no_notice_of_the_producer_id_that_is_named() -> None:
    assert Coordinator().init(FIRST_ID + 5, 7) == Answer(NONE, FIRST_ID, 0)


def test_over_an_open_transaction_it_is_told_to_come_again_and_then_gets_the_epoch_after_that_of_the_fence() -> (
    None
):
    for level in (0, 1, 2):
        coordinator = Coordinator(transaction_version=level)
        coordinator.init()
        coordinator.add(A0)
        coordinator.advance(500)
        assert coordinator.init() == Answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        assert coordinator.find_events(ProducerFenced) == [ProducerFenced(TID, FIRST_ID, 0, 500, 1)]
        (markers,) = coordinator.markers
        assert (markers.is_committed, markers.producer_epoch, markers.transaction_version) == (
            False,
            1,
            level,
        )
        assert coordinator.init().error == 51
        coordinator.finish_markers()
        assert coordinator.init() == Answer(NONE, FIRST_ID, 2)


@pytest.mark.parametrize("level", [1, 2])
def test_the_fenced_producer_comes_back_only_where_ends_raise_the_epoch(level: int) -> None:
    coordinator = Coordinator(transaction_version=level)
    coordinator.init(timeout_ms=1000)
    coordinator.add(A0)
    coordinator.advance(20_000)
    coordinator.finish_markers()
    assert coordinator.current() == (FIRST_ID, 1)
    answer = coordinator.init(FIRST_ID, 0)
    # At level 2 the epoch before is remembered, so that it gets the present one, which it was not told.
    expected = Answer(ErrorCode.PRODUCER_FENCED) if level == 1 else Answer(NONE, FIRST_ID, 1)
    assert answer == expected


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001, 2**31 - 1])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    coordinator = Coordinator()
    assert coordinator.init(timeout_ms=timeout_ms) == Answer(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    (refused,) = coordinator.find_events(TransactionRequestRefused)
    assert refused.detail == TimeoutOutOfRange(timeout_ms, 900_000)
    assert coordinator.init(timeout_ms=1).error == NONE
    assert coordinator.init(timeout_ms=900_000).error == NONE


# Epochs that are used up


def test_the_last_epoch_is_followed_by_a_new_producer_id() -> None:
    coordinator = at_epoch(LAST - 1)
    assert coordinator.init() == Answer(NONE, FIRST_ID, LAST)
    new_id = coordinator.next_id
    assert coordinator.init() == Answer(NONE, new_id, 0)
    assert coordinator.value().previous_producer_id == FIRST_ID


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_owner_of_the_last_epoch_gets_a_new_producer_id_and_again_when_it_asks_again(level: int) -> None:
    coordinator = at_epoch(LAST, level)
    new_id = coordinator.next_id
    assert coordinator.init(FIRST_ID, LAST) == Answer(NONE, new_id, 0)
    assert coordinator.init(FIRST_ID, LAST) == Answer(NONE, new_id, 0)
    assert coordinator.init(FIRST_ID, LAST - 1).error == 90
    assert coordinator.init(new_id, 0) == Answer(NONE, new_id, 1)
    assert coordinator.init(FIRST_ID, LAST).error == 90


def test_an_open_transaction_in_the_last_epoch_is_fenced_with_a_new_producer_id() -> None:
    coordinator = at_epoch(LAST)
    coordinator.add(A0, epoch=LAST)
    new_id = coordinator.next_id
    assert coordinator.init().error == 51
    (markers,) = coordinator.markers
    assert (markers.producer_id, markers.producer_epoch) == (FIRST_ID, 32767)
    coordinator.finish_markers()
    assert coordinator.current() == (new_id, 0)
    assert coordinator.init() == Answer(NONE, new_id, 1)


def test_below_level_2_the_fence_has_the_epoch_that_nobody_is_given() -> None:
    coordinator = at_epoch(LAST, level=1)
    coordinator.add(A0, epoch=LAST)
    assert coordinator.init().error == 51
    assert coordinator.markers[0].producer_epoch == 32767
    coordinator.finish_markers()
    new_id = coordinator.next_id
    assert coordinator.init() == Answer(NONE, new_id, 0)


# Drawing a producer id takes time


REQUEST = InitProducerIdRequest(transactional_id=TID, transaction_timeout_ms=60_000)


def test_nothing_is_written_before_there_is_a_producer_id() -> None:
    coordinator = Coordinator()
    coordinator.holds_works = True
    first, second = coordinator.send(REQUEST, 5), coordinator.send(REQUEST, 5)
    assert (first.reply, second.reply, coordinator.records) == (None, None, [])
    assert coordinator.state() == ""
    coordinator.finish_works()
    assert (first.given, second.given) == (Answer(NONE, FIRST_ID, 0), Answer(NONE, FIRST_ID, 1))


def test_without_a_producer_id_it_may_come_again() -> None:
    coordinator = Coordinator()
    coordinator.holds_works = True
    asked = coordinator.send(REQUEST, 5)
    coordinator.finish_works("OSError: no space")
    assert asked.given == Answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert coordinator.find_events(TransactionRequestRefused)[0].detail == NoProducerId("OSError: no space")
    assert coordinator.shard.list_transactional_ids() == []


def test_who_waits_for_a_producer_id_is_told_when_the_partition_goes() -> None:
    coordinator = Coordinator()
    coordinator.holds_works = True
    asked = coordinator.send(REQUEST, 5)
    coordinator.unload()
    assert asked.answer(InitProducerIdResponse).error_code == ErrorCode.NOT_COORDINATOR
