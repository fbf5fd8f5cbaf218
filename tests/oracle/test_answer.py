"""Replaced values in responses, and the comparisons that remain."""

import time

from protocol.error_codes import ErrorCode
from protocol.messages.create_acls import AclCreationResult
from protocol.messages.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersProducerState,
)
from protocol.messages.describe_transactions import DescribeTransactionsTransactionState
from protocol.messages.end_txn import EndTxnResponse
from storage.batch import encode_batch
from storage.producers.end_transaction_marker import EndMarker, encode_marker
from storage.record import Record
from tests.oracle.answer import Names, Plain, flat, plain


def shown(names: Names, producer_id: int, epoch: int) -> Plain:
    """What is compared of an answer to EndTxn."""
    answer = EndTxnResponse(error_code=0, producer_id=producer_id, producer_epoch=epoch)
    return plain(answer, 5, names)


def test_producers_are_named_in_the_order_of_their_coming() -> None:
    here, there = Names(""), Names("")
    assert [shown(here, each, 0) for each in (700, 4, 700)] == [shown(there, each, 0) for each in (0, 1, 0)]
    assert shown(here, 700, 1) == shown(there, 0, 1)


def test_another_producer_or_another_epoch_than_before_is_seen() -> None:
    here, there = Names(""), Names("")
    assert shown(here, 700, 0) == shown(there, 0, 0)
    assert shown(here, 700, 1) != shown(there, 1, 1)
    assert shown(here, 700, 2) != shown(there, 0, 1)


def test_the_words_of_a_refusal_are_compared_where_clients_may_be_refused() -> None:
    def words(error: ErrorCode, message: str | None, refusals: bool = True) -> Plain:
        answer = AclCreationResult(error_code=error, error_message=message)
        return flat(plain(answer, 3, Names("-1", refusals=refusals)))["error_message"]

    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert words(denied, "Not for a-1.") == "Not for a."
    assert words(denied, "Request Request(x(at 7)y) needs ALTER.") == "Request (in print) needs ALTER."
    assert (words(denied, ""), words(denied, None)) == ("", None)
    assert words(denied, "Not for a.", refusals=False) == "(a text)"
    assert words(ErrorCode.INVALID_REQUEST, "Not so.") == "(a text)"


def test_where_nothing_is_known_of_a_transaction_0_is_no_producer() -> None:
    names = Names("")
    unknown = DescribeTransactionsTransactionState(
        error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        transactional_id="t",
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
    assert flat(plain(unknown, 0, names))["producer_id"] == 0
    assert not names.producers


def test_times_of_today_and_epochs_of_coordinators_are_replaced_and_made_up_ones_are_not() -> None:
    def state(coordinator_epoch: int, timestamp: int) -> Plain:
        producer = DescribeProducersProducerState(
            producer_id=5,
            producer_epoch=0,
            last_timestamp=timestamp,
            coordinator_epoch=coordinator_epoch,
        )
        answer = DescribeProducersPartitionResponse(
            partition_index=0, error_code=0, active_producers=[producer]
        )
        return plain(answer, 0, Names(""))

    now_ms = time.time_ns() // 1_000_000
    assert state(0, now_ms) == state(7, now_ms - 60_000)
    assert len({str(state(epoch, -1)) for epoch in (-1, 0, 1000, 1001)}) == 4
    assert len({str(state(0, timestamp)) for timestamp in (-1, 5, 1_700_000_000_000, now_ms)}) == 4


def test_a_marker_is_told_from_another_though_its_checksum_is_not_compared() -> None:
    def of(is_committed: bool, coordinator_epoch: int) -> Plain:
        marker = encode_marker(EndMarker(is_committed, coordinator_epoch), 5, 0, 1_700_000_000_000)
        return plain(marker, 0, Names(""), "records")

    assert of(True, 0) == of(True, 3)
    assert len({str(of(*marker)) for marker in ((True, 0), (False, 0), (True, 1000))}) == 3
    data = encode_batch([Record(0, 1_700_000_000_000, b"k", b"v")])
    assert "marker" not in str(plain(data, 0, Names(""), "records"))
