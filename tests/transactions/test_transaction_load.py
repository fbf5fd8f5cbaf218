"""The state of a coordinator after a load of the log, cut at any record."""

import pytest

from coordinator.core.outcome import Fact
from coordinator.transactions.transaction import TransactionView
from coordinator.transactions.transaction_event_types import (
    MarkersGivenUp,
    MarkersSentAgain,
    TransactionCompleted,
    TransactionRecordsSkipped,
)
from coordinator.transactions.transaction_records import UnknownValue
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.error_codes import ErrorCode
from protocol.records.transaction_state import TransactionLogKey
from tests.transactions.coordinator import A0, A1, B0, FIRST_ID, START, TID, Coordinator


@pytest.mark.parametrize("is_committed", [True, False])
def test_all_markers_are_asked_for_again_in_the_name_of_the_new_coordinator(is_committed: bool) -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.add(A0, A1, B0)
    coordinator.end(is_committed)
    (first,) = coordinator.markers
    coordinator.tell(first.build_markers_written([A0, A1]))
    coordinator.restart()
    assert coordinator.markers == [first._replace(coordinator_epoch=first.coordinator_epoch + 1)]
    assert coordinator.find_events(MarkersSentAgain) == [MarkersSentAgain(TID, FIRST_ID, 1, is_committed, 3)]
    coordinator.finish_markers()
    assert coordinator.state() == ("CompleteCommit" if is_committed else "CompleteAbort")


def test_what_lacks_nothing_but_its_last_record_is_completed() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.end(False)
    later = Coordinator(coordinator.config, coordinator.records[:-1])
    assert later.state() == "CompleteAbort"
    assert len(later.find_events(TransactionCompleted)) == 1
    assert later.end(False).epoch == 1


def test_markers_that_are_refused_are_given_up_until_the_next_load() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.add(A0, B0)
    coordinator.end(True)
    (markers,) = coordinator.markers
    coordinator.tell(markers.build_markers_refused([B0], ErrorCode.TRANSACTION_COORDINATOR_FENCED))
    coordinator.tell(markers.build_markers_written([A0]))
    error = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert coordinator.find_events(MarkersGivenUp) == [MarkersGivenUp(TID, FIRST_ID, 1, error, 1)]
    view = coordinator.shard.view_transaction(TID, coordinator.now)
    assert view is not None
    assert (view.unmarked, view.markers_error) == ((B0,), error)
    coordinator.advance(1_000_000)
    assert coordinator.init().error == 51
    coordinator.restart()
    assert coordinator.markers[0].partitions == [A0, B0]
    coordinator.finish_markers()
    assert coordinator.state() == "CompleteCommit"


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_crash_at_any_point_loses_nothing_that_was_answered(
    is_committed: bool, version: int, level: int
) -> None:
    coordinator = Coordinator(transaction_version=level)
    coordinator.init()
    for _ in range(2):
        producer_id, epoch = coordinator.current()
        coordinator.add(A0, producer_id=producer_id, epoch=epoch)
        coordinator.add(B0, producer_id=producer_id, epoch=epoch)
        coordinator.end(is_committed, producer_id, epoch, version=version)
        coordinator.finish_markers()
    records = coordinator.records
    for length in range(len(records) + 1):
        loaded = Coordinator(coordinator.config, records[:length])
        if not length:
            assert loaded.state() == ""
            continue
        last = records[length - 1].value
        assert loaded.value() == last
        assert loaded.current() == (last.producer_id, last.producer_epoch)
        loaded.advance(100_000)
        loaded.finish_markers()
        outcome = {1: "CompleteAbort", 2: "CompleteCommit", 3: "CompleteAbort"}
        assert loaded.state() == outcome.get(last.transaction_status, loaded.state())
        assert loaded.state() in ("Empty", "CompleteCommit", "CompleteAbort")


def test_values_of_a_later_version_are_told_of_and_left_alone() -> None:
    coordinator = Coordinator()
    coordinator.init()
    facts = [Fact(TransactionLogKey(transactional_id=name), UnknownValue(7), 7) for name in (TID, "other")]
    shard = Coordinator(coordinator.config).shard
    for fact in (coordinator.records[0], *facts):
        shard.replay(fact)
    assert shard.snapshot_durable() == {}


def test_they_are_told_of_once_for_each_version() -> None:
    coordinator = Coordinator()
    shard = TransactionShard(coordinator.config, 1)
    for name, version in (("a", 7), ("b", 7), ("c", 9)):
        shard.replay(Fact(TransactionLogKey(transactional_id=name), UnknownValue(version), version))
    assert list(shard.on_loaded(START).events) == [
        TransactionRecordsSkipped(7, 2),
        TransactionRecordsSkipped(9, 1),
    ]


def test_what_people_are_shown() -> None:
    coordinator = Coordinator()
    coordinator.init(timeout_ms=9_000)
    coordinator.advance(5_000)
    coordinator.add(A1, A0, level=2)
    coordinator.advance(2_000)
    view = coordinator.shard.view_transaction(TID, coordinator.now)
    assert view is not None
    assert view == TransactionView(
        transactional_id=TID, state=view.state, producer_id=FIRST_ID, producer_epoch=0, timeout_ms=9_000,
        transaction_version=2, state_ms=2_000, open_ms=2_000, partitions=(A0, A1), unmarked=(), markers_error=None,
    )  # fmt: skip
    assert view.state.value == "Ongoing"
    coordinator.end(True)
    coordinator.advance(1_000)
    view = coordinator.shard.view_transaction(TID, coordinator.now)
    assert view is not None
    assert (view.partitions, view.unmarked, view.open_ms, view.state_ms) == ((), (A0, A1), 3_000, 1_000)
    assert coordinator.shard.view_transaction("other", coordinator.now) is None
    assert {state.value: count for state, count in coordinator.shard.states.items() if count} == {
        "PrepareCommit": 1
    }
