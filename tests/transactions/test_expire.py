import pytest

from coordinator.transactions.shard_transactions import IDS_PER_STEP
from coordinator.transactions.transaction_event_types import TransactionalIdExpired
from coordinator.transactions.transaction_requests import TransactionTimerKey, TransactionTimerKind
from tests.transactions.coordinator import A0, FIRST_ID, TID, Coordinator

KEY = TransactionTimerKey(TransactionTimerKind.REMOVE_EXPIRED)
DAY_MS, HOUR_MS = 86_400_000, 3_600_000


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort"])
def test_an_id_of_which_nothing_is_heard_is_forgotten(state: str) -> None:
    coordinator = Coordinator()
    coordinator.init()
    if state != "Empty":
        coordinator.add(A0)
        coordinator.end(state == "CompleteCommit", version=4)
        coordinator.finish_markers()
    coordinator.advance(7 * DAY_MS - 1)
    assert coordinator.state() == state
    coordinator.advance(1)
    assert coordinator.state() == ""
    assert coordinator.records[-1].value is None
    assert coordinator.find_events(TransactionalIdExpired) == [
        TransactionalIdExpired(TID, FIRST_ID, 0, 7 * DAY_MS)
    ]
    assert coordinator.timers == {}
    assert set(coordinator.add(A0).values()) == {49}
    assert coordinator.end(True).error == 49
    assert coordinator.init().producer_id == FIRST_ID + 1


def test_whatever_is_heard_begins_its_time_anew() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.advance(6 * DAY_MS)
    coordinator.init()
    coordinator.advance(6 * DAY_MS)
    assert coordinator.state() == "Empty"
    coordinator.restart()
    coordinator.advance(DAY_MS)
    assert coordinator.state() == ""


def test_one_whose_markers_are_outstanding_is_kept() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.add(A0)
    coordinator.end(True)
    coordinator.advance(30 * DAY_MS)
    assert coordinator.state() == "PrepareCommit"
    assert len(coordinator.markers) == 1


def test_many_are_forgotten_a_part_at_a_time() -> None:
    coordinator = Coordinator()
    for number in range(IDS_PER_STEP + 1):
        coordinator.init(tid=f"t{number}")
    coordinator.skip(8 * DAY_MS)
    assert len(coordinator.fire(KEY).records) == IDS_PER_STEP
    coordinator.init(tid="late")
    assert coordinator.timers[KEY] == coordinator.now.monotonic_ms, "the rest waits for no hour"
    assert len(coordinator.fire(KEY).records) == 1
    assert coordinator.shard.list_transactional_ids() == ["late"]
    assert coordinator.timers[KEY] == coordinator.now.monotonic_ms + HOUR_MS
