"""Observes the events of transactions: counts them and writes their log lines, in Kafka's words where Kafka
has a line. Begin, commit and abort have lines at DEBUG only. Source: the log statements of Kafka's
`TransactionCoordinator`, `TransactionStateManager`, `TransactionMarkerChannelManager`.
"""

import logging
from collections.abc import Sequence
from typing import Any, Final

from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.core.daemon_log import LogLineLimit
from coordinator.core.message_text import printable
from coordinator.core.outcome import MachineEvent, Now
from coordinator.core.shared_types import TRANSACTION_STATE
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.transactions.transaction_event_types import (
    AbortsOpenTransaction,
    EndForbidden,
    EpochDiffers,
    MarkersGivenUp,
    MarkersOutstanding,
    MarkersSentAgain,
    NoProducerId,
    PartitionsMissing,
    ProducerFenced,
    ProducerIdDiffers,
    ProducerInitialized,
    RecordTooLarge,
    RefusalDetail,
    TimeoutOutOfRange,
    TransactionalIdExpired,
    TransactionBegan,
    TransactionCompleted,
    TransactionPrepared,
    TransactionRecordsSkipped,
    TransactionRequestRefused,
    TransactionTimedOut,
)
from protocol.error_codes import ErrorCode
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("TransactionCoordinator")
_NO_LINE: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})
"""Errors of normal operation, after which a producer retries."""
_WARNING_ERRORS: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class TransactionEventObserver:
    """Observes the events of transactions for a server."""

    def __init__(self, metrics: BrokerMetrics, line_limit: LogLineLimit) -> None:
        self._metrics = metrics
        self._line_limit = line_limit

    def observe(
        self, partition: CoordinatorPartition[Any], events: Sequence[MachineEvent], first: int, now: Now
    ) -> None:
        if partition.name.topic != TRANSACTION_STATE:
            return
        for event in events:
            self._metrics.transactions[type(event)] += 1
            log_transaction(partition.name, event, self._line_limit)


def log_transaction(partition: TopicPartition, event: MachineEvent, limit: LogLineLimit) -> None:
    """Write the line of an event of a transactional id, if it has one."""
    match event:
        case TransactionBegan() | TransactionPrepared() | TransactionCompleted():
            _log_step(event)
        case ProducerInitialized():
            _LOG.info(
                "Initialized transactionalId %s with producerId %d and producer epoch %d on partition %s",
                printable(event.transactional_id),
                event.producer_id,
                event.producer_epoch,
                partition,
            )
        case TransactionTimedOut():
            _LOG.info(
                "Completed rollback of ongoing transaction for transactionalId %s due to timeout: it was open for "
                "%d ms, transaction.timeout.ms=%d, in %d partitions; producer %d of epoch %d is fenced",
                printable(event.transactional_id),
                event.open_ms,
                event.timeout_ms,
                event.partitions,
                event.producer_id,
                event.producer_epoch,
            )
        case TransactionRequestRefused():
            _log_refused(event, limit)
        case _:
            _log_rare(partition, event)


def _log_step(event: TransactionBegan | TransactionPrepared | TransactionCompleted) -> None:
    if not _LOG.isEnabledFor(logging.DEBUG):
        return
    transactional_id = printable(event.transactional_id)
    match event:
        case TransactionBegan():
            _LOG.debug(
                "TransactionalId %s has begun a transaction in %d partitions (producer %d of epoch %d)",
                transactional_id,
                event.partitions,
                event.producer_id,
                event.producer_epoch,
            )
        case TransactionPrepared():
            _LOG.debug(
                "TransactionalId %s %s a transaction in %d partitions, open for %d ms (producer %d of epoch %d)",
                transactional_id,
                "commits" if event.is_committed else "aborts",
                event.partitions,
                event.open_ms,
                event.producer_id,
                event.producer_epoch,
            )
        case TransactionCompleted():
            _LOG.debug(
                "TransactionalId %s has %s a transaction in %d partitions after %d ms, %d ms of them for its "
                "markers (producer %d of epoch %d is next)",
                transactional_id,
                "committed" if event.is_committed else "aborted",
                event.partitions,
                event.open_ms,
                event.markers_ms,
                event.producer_id,
                event.producer_epoch,
            )


def _log_rare(partition: TopicPartition, event: MachineEvent) -> None:
    match event:
        case ProducerFenced():
            _LOG.info(
                "TransactionalId %s: aborting an open transaction of %d partitions, because a producer with "
                "this id has started; producer %d of epoch %d is fenced",
                printable(event.transactional_id),
                event.partitions,
                event.producer_id,
                event.producer_epoch,
            )
        case MarkersSentAgain():
            _LOG.info(
                "Sending txn markers for %s to %d partitions after loading partition %s",
                printable(event.transactional_id),
                event.partitions,
                partition,
            )
        case MarkersGivenUp():
            _LOG.error(
                "TransactionalId %s: %d partitions reject the marker of producer %d of epoch %d (%s); the "
                "transaction cannot end until %s is loaded again",
                printable(event.transactional_id),
                event.partitions,
                event.producer_id,
                event.producer_epoch,
                event.error.name,
                partition,
            )
        case TransactionalIdExpired():
            _LOG.info(
                "TransactionalId %s has expired: no request named it for %d ms",
                printable(event.transactional_id),
                event.idle_ms,
            )
        case TransactionRecordsSkipped():
            _LOG.warning(
                "Unknown value version %d while loading transaction metadata from %s: %d records are ignored",
                event.version,
                partition,
                event.count,
            )


def _log_refused(event: TransactionRequestRefused, limit: LogLineLimit) -> None:
    if event.error in _NO_LINE:
        return
    times = limit.admit("transaction", event.request, event.error, event.transactional_id)
    if not times:
        return
    level = logging.WARNING if event.error in _WARNING_ERRORS else logging.INFO
    state = f" ({event.state})" if event.state else ""
    reason = "" if event.detail is None else f": {_format_reason(event.detail)}"
    _LOG.log(
        level,
        "TransactionalId %s%s refused %s of producer %d of epoch %d: %s%s.%s",
        printable(event.transactional_id),
        state,
        event.request,
        event.producer_id,
        event.producer_epoch,
        event.error.name,
        reason,
        f" ({times - 1} similar lines left out since the last one)" if times > 1 else "",
    )


def _format_reason(detail: RefusalDetail) -> str:
    match detail:
        case EpochDiffers(sent, current):
            return f"the request has epoch {sent}, the current one is {current}"
        case ProducerIdDiffers(sent, current):
            return f"the request has producer id {sent}, the current one is {current}"
        case TimeoutOutOfRange(timeout_ms, max_ms):
            return f"transaction.timeout.ms={timeout_ms} is not between 1 and transaction.max.timeout.ms={max_ms}"
        case EndForbidden(state, is_committed):
            result = "COMMIT" if is_committed else "ABORT"
            return f"its state is {state}, but received transaction marker result to send: {result}"
        case MarkersOutstanding(partitions):
            return f"{partitions} partitions wait for the marker of the previous transaction"
        case AbortsOpenTransaction():
            return "the open transaction is aborted first"
        case NoProducerId(reason):
            return f"no producer id could be allocated ({reason})"
        case RecordTooLarge(partitions, max_bytes):
            return f"a record of {partitions} partitions would be larger than message.max.bytes={max_bytes}"
        case PartitionsMissing(partitions):
            return f"{partitions} of its partitions are not in the transaction"
