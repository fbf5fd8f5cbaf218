import pytest

from coordinator.transactions.transaction_event_types import (
    EndForbidden,
    EpochDiffers,
    TransactionCompleted,
    TransactionPrepared,
    TransactionRequestRefused,
)
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from tests.transactions.coordinator import A0, A1, B0, FIRST_ID, OLDER_END, TID, Answer, Coordinator
from tests.transactions.test_init_producer_id import LAST, at_epoch

NONE = ErrorCode.NONE


@pytest.fixture
def coordinator() -> Coordinator:
    """A transactional id that is Empty at epoch 0."""
    coordinator = Coordinator()
    coordinator.init()
    return coordinator


def test_it_is_over_when_every_partition_has_its_marker(coordinator: Coordinator) -> None:
    coordinator.add(A0, A1)
    coordinator.advance(100)
    coordinator.add(B0)
    coordinator.advance(100)
    assert coordinator.end(True, version=OLDER_END) == Answer(NONE)
    (markers,) = coordinator.markers
    assert markers.partitions == [A0, A1, B0]
    assert (markers.is_committed, markers.producer_epoch, markers.transaction_version) == (True, 0, 0)
    coordinator.advance(50)
    coordinator.tell(markers.build_markers_written([A0, B0]))
    assert coordinator.state() == "PrepareCommit"
    assert coordinator.end(True, version=OLDER_END).error == 51
    coordinator.tell(markers.build_markers_written([A1]))
    assert coordinator.state() == "CompleteCommit"
    assert coordinator.end(True, version=OLDER_END) == Answer(NONE)
    assert coordinator.find_events(TransactionPrepared) == [
        TransactionPrepared(TID, FIRST_ID, 0, True, 200, 3)
    ]
    assert coordinator.find_events(TransactionCompleted) == [
        TransactionCompleted(TID, FIRST_ID, 0, True, 250, 50, 3)
    ]


def test_the_epoch_rises_with_each_end_from_v5_on(coordinator: Coordinator) -> None:
    coordinator.add(A0, level=2)
    assert coordinator.end(True) == Answer(NONE, FIRST_ID, 1)
    assert coordinator.markers[0].producer_epoch == 1, "markers have the epoch of the next transaction"
    assert coordinator.markers[0].transaction_version == 2
    coordinator.finish_markers()
    coordinator.add(B0, epoch=1, level=2)
    assert coordinator.end(False, epoch=1) == Answer(NONE, FIRST_ID, 2)


def test_a_lost_answer_is_repeated(coordinator: Coordinator) -> None:
    coordinator.add(A0)
    assert coordinator.end(True) == Answer(NONE, FIRST_ID, 1)
    assert coordinator.end(True) == Answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    coordinator.finish_markers()
    assert coordinator.end(True) == Answer(NONE, FIRST_ID, 1)
    assert coordinator.end(False) == Answer(ErrorCode.INVALID_TXN_STATE)
    coordinator.restart()
    assert coordinator.end(True) == Answer(NONE, FIRST_ID, 1), "the log says enough"
    coordinator.add(A0, epoch=1)
    assert coordinator.end(True) == Answer(ErrorCode.PRODUCER_FENCED)


def test_an_abort_of_nothing_is_legal_from_v5_on(coordinator: Coordinator) -> None:
    assert coordinator.end(False) == Answer(NONE, FIRST_ID, 1)
    assert coordinator.markers == []
    assert [record.value.transaction_status for record in coordinator.records[1:]] == [3, 5]
    assert coordinator.describe().transaction_start_time_ms == coordinator.now.wall_ms
    assert coordinator.end(False) == Answer(NONE, FIRST_ID, 1), "a repeated one"
    assert coordinator.end(True).error == 48


def test_an_open_transaction_without_partitions_ends_at_once(coordinator: Coordinator) -> None:
    coordinator.add()
    assert coordinator.state() == "Ongoing"
    assert coordinator.end(True, version=OLDER_END) == Answer(NONE)
    assert coordinator.state() == "CompleteCommit"
    assert [record.value.transaction_status for record in coordinator.records] == [0, 1, 2, 4]


def test_why_an_end_is_refused_is_told(coordinator: Coordinator) -> None:
    coordinator.end(True)
    coordinator.end(True, epoch=5)
    assert [event.detail for event in coordinator.find_events(TransactionRequestRefused)] == [
        EndForbidden("Empty", True),
        EpochDiffers(5, 0),
    ]
    assert {(event.request, event.state) for event in coordinator.find_events(TransactionRequestRefused)} == {
        ("EndTxn", "Empty")
    }


def test_an_older_end_does_not_raise_the_epoch_whoever_added(coordinator: Coordinator) -> None:
    coordinator.add(A0, level=2)
    assert coordinator.value().client_transaction_version == 2
    coordinator.end(True, version=OLDER_END)
    assert coordinator.current() == (FIRST_ID, 0)
    assert coordinator.markers[0].transaction_version == 0


def test_the_last_epoch_of_a_producer_id_ends_with_another_id() -> None:
    coordinator = at_epoch(LAST)
    coordinator.add(A0, epoch=LAST)
    new_id = coordinator.next_id
    assert coordinator.end(True, epoch=LAST) == Answer(NONE, new_id, 0)
    (markers,) = coordinator.markers
    assert (markers.producer_id, markers.producer_epoch) == (FIRST_ID, 32767)
    assert coordinator.value().next_producer_id == new_id
    assert coordinator.end(True, epoch=LAST).error == 51
    coordinator.finish_markers()
    assert coordinator.current() == (new_id, 0)
    assert coordinator.end(True, epoch=LAST) == Answer(NONE, new_id, 0)
    assert coordinator.end(True, FIRST_ID, LAST - 1).error == 49
    assert coordinator.add(A0, producer_id=new_id) == {A0: NONE}
    assert coordinator.end(True, FIRST_ID, LAST).error == 49, "another transaction has begun"


@pytest.mark.parametrize("level", [0, 1, 2])
def test_that_outlives_a_crash_before_the_markers(level: int) -> None:
    coordinator = at_epoch(LAST, level)
    coordinator.add(A0, epoch=LAST)
    answer = coordinator.end(True, epoch=LAST)
    coordinator.restart()
    coordinator.finish_markers()
    assert coordinator.current() == (answer.producer_id, answer.epoch)
    assert coordinator.end(True, epoch=LAST) == answer
    coordinator.restart()
    assert coordinator.end(True, epoch=LAST) == answer


def test_what_happens_while_a_producer_id_is_drawn_comes_first() -> None:
    coordinator = at_epoch(LAST)
    coordinator.add(A0, epoch=LAST)
    coordinator.holds_works = True
    request = EndTxnRequest(transactional_id=TID, producer_id=FIRST_ID, producer_epoch=LAST, committed=True)
    ends = [coordinator.send(request, 5), coordinator.send(request, 5)]
    assert coordinator.add(B0, epoch=LAST) == {B0: NONE}
    assert coordinator.markers == []
    coordinator.finish_works()
    assert [end.given.error for end in ends] == [0, 51]
    assert coordinator.markers[0].partitions == [A0, B0]


def test_what_is_told_of_other_markers_does_not_count(coordinator: Coordinator) -> None:
    coordinator.add(A0)
    coordinator.end(True, version=OLDER_END)
    (late,) = coordinator.markers
    coordinator.restart()
    coordinator.tell(late.build_markers_written([A0]))
    assert coordinator.state() == "PrepareCommit", "those of the coordinator before the restart"
    coordinator.finish_markers()
    coordinator.add(A0)
    coordinator.end(False, version=OLDER_END)
    coordinator.tell(late.build_markers_written([A0]))
    assert coordinator.state() == "PrepareAbort"
    (markers,) = coordinator.markers
    coordinator.tell(markers._replace(producer_epoch=1).build_markers_written([A0]))
    coordinator.tell(markers._replace(producer_id=1).build_markers_written([A0]))
    coordinator.tell(markers._replace(transactional_id="other").build_markers_written([A0]))
    assert coordinator.state() == "PrepareAbort"
    coordinator.tell(markers.build_markers_written([A0, B0]))
    assert coordinator.state() == "CompleteAbort"
    coordinator.tell(markers.build_markers_written([A0]))
    assert coordinator.state() == "CompleteAbort"
