import pytest

from coordinator.core.outcome import Fact
from coordinator.transactions.shard_transactions import IDS_PER_STEP
from coordinator.transactions.transaction_event_types import TransactionPrepared, TransactionTimedOut
from coordinator.transactions.transaction_requests import TransactionTimerKey, TransactionTimerKind
from coordinator.transactions.transaction_timeouts import PARTITIONS_PER_STEP
from protocol.error_codes import ErrorCode
from tests.transactions.coordinator import A0, A1, FIRST_ID, TID, Answer, Coordinator
from tests.transactions.test_init_producer_id import LAST, at_epoch

KEY = TransactionTimerKey(TransactionTimerKind.ABORT_TIMED_OUT)
TIMEOUT_MS = 15_000


def open_transaction(transaction_version: int = 2) -> Coordinator:
    coordinator = Coordinator(transaction_version=transaction_version)
    coordinator.init(timeout_ms=TIMEOUT_MS)
    coordinator.add(A0)
    return coordinator


def test_a_transaction_is_aborted_at_the_first_look_after_its_timeout() -> None:
    coordinator = open_transaction()
    coordinator.advance(10_000)
    coordinator.add(A1)
    coordinator.advance(9_999)
    assert coordinator.state() == "Ongoing"
    coordinator.advance(1)
    assert coordinator.state() == "PrepareAbort"
    assert coordinator.find_events(TransactionTimedOut) == [
        TransactionTimedOut(TID, FIRST_ID, 0, 20_000, TIMEOUT_MS, 2)
    ]
    assert coordinator.find_events(TransactionPrepared) == [
        TransactionPrepared(TID, FIRST_ID, 1, False, 20_000, 2)
    ]
    coordinator.finish_markers()
    assert coordinator.state() == "CompleteAbort"
    assert KEY not in coordinator.timers, "nobody looks while nothing is open"


def test_one_that_is_open_for_just_as_long_as_allowed_is_not_aborted() -> None:
    coordinator = Coordinator()
    coordinator.init(timeout_ms=10_000)
    coordinator.add(A0)
    coordinator.advance(10_000)
    assert coordinator.state() == "Ongoing"
    coordinator.advance(10_000)
    assert coordinator.state() == "PrepareAbort"


@pytest.mark.parametrize("level", [0, 1])
def test_its_producer_is_fenced(level: int) -> None:
    coordinator = open_transaction(transaction_version=level)
    coordinator.advance(20_000)
    assert coordinator.markers[0].producer_epoch == 1
    assert set(coordinator.add(A0).values()) == {ErrorCode.CONCURRENT_TRANSACTIONS}
    assert coordinator.end(True, version=4).error == 90
    coordinator.finish_markers()
    assert set(coordinator.add(A0).values()) == {ErrorCode.PRODUCER_FENCED}
    assert coordinator.end(True, version=4).error == 90
    assert coordinator.end(True, version=1).error == 47


def test_below_level_2_the_fence_forgets_the_epoch_before() -> None:
    coordinator = Coordinator(transaction_version=1)
    coordinator.init()
    coordinator.init(FIRST_ID, 0)
    coordinator.add(A0, epoch=1)
    coordinator.advance(100_000)
    coordinator.finish_markers()
    assert coordinator.current() == (FIRST_ID, 2)
    assert coordinator.init(FIRST_ID, 0).error == 90


def test_from_v5_on_it_learns_that_the_transaction_was_aborted_and_goes_on() -> None:
    coordinator = open_transaction()
    coordinator.advance(20_000)
    coordinator.finish_markers()
    assert coordinator.end(True) == Answer(ErrorCode.INVALID_TXN_STATE)
    assert coordinator.end(False) == Answer(ErrorCode.NONE, FIRST_ID, 1)


def test_a_restart_does_not_prolong_it() -> None:
    coordinator = open_transaction()
    coordinator.advance(14_000)
    coordinator.restart()
    coordinator.advance(9_999)
    assert coordinator.state() == "Ongoing"
    coordinator.advance(1)
    assert coordinator.state() == "PrepareAbort"


def test_the_next_transaction_has_its_own_time() -> None:
    coordinator = open_transaction()
    coordinator.advance(14_000)
    coordinator.end(True, version=4)
    coordinator.finish_markers()
    coordinator.add(A0)
    coordinator.advance(15_000)
    assert coordinator.state() == "Ongoing"


def test_in_the_last_epoch_one_producer_id_is_drawn_for_it_however_long_that_takes() -> None:
    coordinator = at_epoch(LAST)
    coordinator.add(A0, epoch=LAST)
    coordinator.holds_works = True
    coordinator.advance(200_000)
    assert len(coordinator.works) == 1
    coordinator.finish_works("OSError: no space")
    assert coordinator.state() == "Ongoing"
    coordinator.advance(10_000)
    new_id = coordinator.next_id
    coordinator.finish_works()
    coordinator.finish_markers()
    assert coordinator.current() == (new_id, 0)
    assert len(coordinator.find_events(TransactionTimedOut)) == 1


def test_what_its_producer_ended_meanwhile_stays_ended() -> None:
    coordinator = at_epoch(LAST)
    coordinator.add(A0, epoch=LAST)
    coordinator.holds_works = True
    coordinator.advance(100_000)
    coordinator.end(True, epoch=LAST, version=4)
    coordinator.finish_works()
    assert coordinator.state() == "PrepareCommit"
    assert coordinator.find_events(TransactionTimedOut) == []


def test_the_epoch_that_nobody_is_given_does_not_rise_further() -> None:
    for level in (1, 2):
        coordinator = at_epoch(LAST + 1, level)
        coordinator.add(A0, epoch=LAST + 1)
        coordinator.advance(100_000)
        assert coordinator.markers[0].producer_epoch == 32767
        coordinator.finish_markers()
        assert coordinator.init().epoch == (0 if level == 1 else 1)


def test_a_transaction_with_two_phases_has_all_the_time_in_the_world() -> None:
    coordinator = open_transaction()
    record = coordinator.records[-1]
    record.value.transaction_timeout_ms = 2**31 - 1
    later = Coordinator(coordinator.config, [Fact(record.key, record.value, record.value_version)])
    later.skip(2**31 + 20_000)
    later.fire(KEY)
    assert later.state() == "Ongoing"


def test_many_are_aborted_a_part_at_a_time() -> None:
    coordinator = Coordinator()
    count = 2 * IDS_PER_STEP + 1
    for number in range(count):
        coordinator.init(tid=f"t{number}", timeout_ms=1000)
        coordinator.add(A0, tid=f"t{number}", producer_id=FIRST_ID + number)
    coordinator.advance(9_999)
    coordinator.skip(1)
    fired: list[int] = []
    while coordinator.timers.get(KEY) == coordinator.now.monotonic_ms:
        fired.append(len(coordinator.fire(KEY).records))
    assert fired == [IDS_PER_STEP, IDS_PER_STEP, 1]
    assert len(coordinator.markers) == count
    assert coordinator.shard.list_open_ids() == []


def test_of_large_ones_few_are_aborted_at_once() -> None:
    coordinator = Coordinator()
    partitions = [("orders", number) for number in range(PARTITIONS_PER_STEP // 2)]
    for number in range(5):
        coordinator.init(tid=f"t{number}", timeout_ms=1000)
        coordinator.add(*partitions, tid=f"t{number}", producer_id=FIRST_ID + number)
    coordinator.advance(9_999)
    coordinator.skip(1)
    fired: list[int] = []
    while coordinator.timers.get(KEY) == coordinator.now.monotonic_ms:
        fired.append(len(coordinator.fire(KEY).records))
    assert fired == [2, 2, 1]
    assert coordinator.shard.list_open_ids() == []
