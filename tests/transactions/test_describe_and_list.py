import re

import pytest

from coordinator.transactions.transaction_request_rules import build_transaction_error_response, is_read_only
from coordinator.transactions.transaction_requests import (
    AddPartitions,
    AddPartitionsResult,
    DescribeTransaction,
    ListTransactions,
    MarkersWritten,
)
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_transactions import ListTransactionsResponse
from tests.transactions.coordinator import A0, A1, B0, FIRST_ID, TID, Coordinator


@pytest.fixture
def coordinator() -> Coordinator:
    """Ids `empty`, `open`, `ending` and `ended`, each with a producer id of its own, a second apart."""
    coordinator = Coordinator()
    for number, name in enumerate(["empty", "open", "ending", "ended"]):
        coordinator.init(tid=name)
        if name != "empty":
            coordinator.add(A0, A1, B0, tid=name, producer_id=FIRST_ID + number)
        if name.startswith("end"):
            coordinator.end(name == "ended", FIRST_ID + number, tid=name)
        if name == "ended":
            ended = coordinator.markers.pop()
            coordinator.tell(ended.build_markers_written(ended.partitions))
        coordinator.advance(1000)
    return coordinator


def test_partitions_of_an_ended_transaction_go_as_they_get_their_markers(coordinator: Coordinator) -> None:
    described = coordinator.describe("open")
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("a", [0, 1]), ("b", [0])]
    assert described.transaction_timeout_ms == 60_000
    assert described.transaction_start_time_ms == coordinator.now.wall_ms - 3000
    (markers,) = coordinator.markers
    coordinator.tell(markers.build_markers_written([A0, B0]))
    described = coordinator.describe("ending")
    assert described.transaction_state == "PrepareAbort"
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("a", [1])]
    assert (described.producer_id, described.producer_epoch) == (FIRST_ID + 2, 1)
    assert coordinator.describe("ended").topics == []
    assert coordinator.describe("ended").transaction_start_time_ms == coordinator.now.wall_ms - 1000
    assert coordinator.describe("empty").transaction_start_time_ms == -1


def test_an_unknown_id_has_an_error_and_nothing_else(coordinator: Coordinator) -> None:
    described = coordinator.describe("nobody")
    assert described.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert (described.transactional_id, described.transaction_state) == ("nobody", "")
    assert (described.producer_id, described.producer_epoch, described.topics) == (0, 0, [])


def test_filters(coordinator: Coordinator) -> None:
    assert coordinator.listed() == ["empty", "open", "ending", "ended"]
    assert coordinator.listed(state_filters=["Ongoing", "Empty", "Nonsense"]) == ["empty", "open"]
    assert coordinator.listed(state_filters=["Nonsense", "ongoing"]) == []
    assert coordinator.listed(producer_id_filters=[FIRST_ID + 1, 5]) == ["open"]
    assert coordinator.listed(producer_id_filters=[FIRST_ID], state_filters=["Ongoing"]) == []
    assert coordinator.listed(pattern=re.compile("end.*").fullmatch) == ["ending", "ended"]
    # Open for more than that; what never began passes.
    assert coordinator.listed(duration_filter=2000) == ["empty", "open"]
    assert coordinator.listed(duration_filter=2999) == ["empty", "open"]
    assert coordinator.listed(duration_filter=3000) == ["empty"]
    assert coordinator.listed(duration_filter=0) == ["empty", "open", "ending", "ended"]


def test_names_that_are_no_states_come_back(coordinator: Coordinator) -> None:
    names = ["ongoing", "Ongoing", "Dead", "PrepareEpochFence", "x", "x"]
    response = coordinator.send(ListTransactions(names)).answer(ListTransactionsResponse)
    assert response.unknown_state_filters == ["ongoing", "x"]
    (one,) = response.transaction_states
    assert (one.transactional_id, one.producer_id, one.transaction_state) == ("open", FIRST_ID + 1, "Ongoing")


# --- responses without a shard

INIT = InitProducerIdRequest(transactional_id=TID, transaction_timeout_ms=1)
END = EndTxnRequest(transactional_id=TID, producer_id=1, producer_epoch=0, committed=True)
ADD = AddPartitions(TID, 1, 0, (A0, B0), False, 0)
VERIFY = AddPartitions(TID, 1, 0, (A0, B0), True, 2)


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_every_request_can_be_refused(error: ErrorCode) -> None:
    assert build_transaction_error_response(INIT, 0, error) == InitProducerIdResponse(
        error_code=error, producer_id=-1, producer_epoch=-1
    )
    assert build_transaction_error_response(END, 5, error) == EndTxnResponse(error_code=error)
    assert build_transaction_error_response(ADD, 0, error) == AddPartitionsResult({A0: error, B0: error})
    assert build_transaction_error_response(DescribeTransaction(TID), 0, error).error_code == error
    assert build_transaction_error_response(ListTransactions(), 0, error).error_code == error


def test_what_only_reads_is_served_while_the_log_cannot_be_written() -> None:
    assert all(map(is_read_only, [DescribeTransaction(TID), ListTransactions(), VERIFY]))
    assert not any(map(is_read_only, [INIT, END, ADD, MarkersWritten(TID, 1, 0, 1, [A0])]))
