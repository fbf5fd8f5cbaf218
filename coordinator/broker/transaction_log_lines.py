"""What happens to transactions, as lines of a log, in Kafka's words where it has some.

What every producer does all the time (begin, commit, abort) has no line above DEBUG. Source: the log statements of
Kafka's `TransactionCoordinator`, `TransactionStateManager`, `TransactionMarkerChannelManager`.
"""

import logging
from typing import Final

from coordinator.machine.outcome import Event
from coordinator.net.peer import printable
from coordinator.server.line_limit import LineLimit
from coordinator.transactions.events import (
    Began,
    Completed,
    Expired,
    Fenced,
    Initialized,
    MarkersGivenUp,
    MarkersSentAgain,
    Prepared,
    RecordsSkipped,
    Refused,
    TimedOut,
)
from coordinator.transactions.refusal_facts import (
    AbortsOpenTransaction,
    EndForbidden,
    EpochDiffers,
    MarkersOutstanding,
    NoProducerId,
    PartitionsMissing,
    ProducerIdDiffers,
    RecordTooLarge,
    RefusalDetail,
    TimeoutOutOfRange,
)
from protocol.errors import ErrorCode
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("TransactionCoordinator")

_NO_LINE: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})
"""What a producer is told in the course of things, and comes again for."""
_WARNED_OF: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.COORDINATOR_NOT_AVAILABLE})


def log_transaction(partition: TopicPartition, event: Event, limit: LineLimit) -> None:
    """Writes the line of what happened to a transactional id of one partition, if it has one."""
    match event:
        case Began() | Prepared() | Completed():
            _log_step(event)
        case Initialized():
            _LOG.info(
                "Initialized transactionalId %s with producerId %d and producer epoch %d on partition %s",
                printable(event.transactional_id),
                event.producer_id,
                event.producer_epoch,
                partition,
            )
        case TimedOut():
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
        case Refused():
            _log_refused(event, limit)
        case _:
            _log_rare(partition, event)


def _log_step(event: Began | Prepared | Completed) -> None:
    if not _LOG.isEnabledFor(logging.DEBUG):
        return
    who = printable(event.transactional_id)
    match event:
        case Began():
            _LOG.debug(
                "TransactionalId %s has begun a transaction in %d partitions (producer %d of epoch %d)",
                who,
                event.partitions,
                event.producer_id,
                event.producer_epoch,
            )
        case Prepared():
            _LOG.debug(
                "TransactionalId %s %s a transaction in %d partitions, open for %d ms (producer %d of epoch %d)",
                who,
                "commits" if event.is_committed else "aborts",
                event.partitions,
                event.open_ms,
                event.producer_id,
                event.producer_epoch,
            )
        case Completed():
            _LOG.debug(
                "TransactionalId %s has %s a transaction in %d partitions after %d ms, %d ms of them for its "
                "markers (producer %d of epoch %d is next)",
                who,
                "committed" if event.is_committed else "aborted",
                event.partitions,
                event.open_ms,
                event.markers_ms,
                event.producer_id,
                event.producer_epoch,
            )


def _log_rare(partition: TopicPartition, event: Event) -> None:
    match event:
        case Fenced():
            _LOG.info(
                "TransactionalId %s: aborts a transaction that is open in %d partitions, since a producer with "
                "that id begins anew; producer %d of epoch %d is fenced",
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
                "TransactionalId %s: %d partitions do not take the marker of producer %d of epoch %d (%s); it "
                "stays as it is until %s is loaded again",
                printable(event.transactional_id),
                event.partitions,
                event.producer_id,
                event.producer_epoch,
                event.error.name,
                partition,
            )
        case Expired():
            _LOG.info(
                "TransactionalId %s has expired: nothing was heard of it for %d ms",
                printable(event.transactional_id),
                event.idle_ms,
            )
        case RecordsSkipped():
            _LOG.warning(
                "Unknown value version %d while loading transaction metadata from %s: %d records are ignored",
                event.version,
                partition,
                event.count,
            )


def _log_refused(event: Refused, limit: LineLimit) -> None:
    if event.error in _NO_LINE:
        return
    times = limit.admit("transaction", event.request, event.error, event.transactional_id)
    if not times:
        return
    level = logging.WARNING if event.error in _WARNED_OF else logging.INFO
    state = f" ({event.state})" if event.state else ""
    because = "" if event.detail is None else f": {_because(event.detail)}"
    _LOG.log(
        level,
        "TransactionalId %s%s refused %s of producer %d of epoch %d: %s%s.%s",
        printable(event.transactional_id),
        state,
        event.request,
        event.producer_id,
        event.producer_epoch,
        event.error.name,
        because,
        f" ({times - 1} more like this since it was last told)" if times > 1 else "",
    )


def _because(detail: RefusalDetail) -> str:
    match detail:
        case EpochDiffers(sent, current):
            return f"it is of epoch {sent}, the present one is {current}"
        case ProducerIdDiffers(sent, current):
            return f"it is producer {sent}, the present one is {current}"
        case TimeoutOutOfRange(timeout_ms, max_ms):
            return f"transaction.timeout.ms={timeout_ms} is not between 1 and transaction.max.timeout.ms={max_ms}"
        case EndForbidden(state, is_committed):
            result = "COMMIT" if is_committed else "ABORT"
            return f"its state is {state}, but received transaction marker result to send: {result}"
        case MarkersOutstanding(partitions):
            return f"{partitions} partitions wait for the marker of the transaction before"
        case AbortsOpenTransaction():
            return "the transaction that was open is aborted first"
        case NoProducerId(reason):
            return f"no producer id could be drawn ({reason})"
        case RecordTooLarge(partitions, max_bytes):
            return f"a record of {partitions} partitions would be larger than message.max.bytes={max_bytes}"
        case PartitionsMissing(partitions):
            return f"{partitions} of its partitions are not in the transaction"
