"""The levels of the log lines of transactions: an operator reads warnings."""

import logging

import pytest

from coordinator.broker.transaction_log_lines import log_transaction
from coordinator.core.daemon_log import LogLineLimit
from coordinator.transactions.transaction_event_types import TransactionRequestRefused
from protocol.error_codes import ErrorCode
from storage.topic_partition import TopicPartition

PARTITION = TopicPartition("__transaction_state", 0)


@pytest.mark.parametrize(
    ("error", "levels"),
    [
        (ErrorCode.INVALID_TXN_STATE, [logging.WARNING]),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, [logging.WARNING]),
        (ErrorCode.PRODUCER_FENCED, [logging.INFO]),
        (ErrorCode.INVALID_PRODUCER_EPOCH, [logging.INFO]),
        (ErrorCode.CONCURRENT_TRANSACTIONS, []),
    ],
)
def test_a_refusal_is_logged_at_the_level_of_its_error(
    error: ErrorCode, levels: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    refused = TransactionRequestRefused("copier", 7, 0, "EndTxn", error, "Empty", None)
    log_transaction(PARTITION, refused, LogLineLimit())
    assert [record.levelno for record in caplog.records] == levels
