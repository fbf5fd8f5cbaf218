"""Refused requests: what is wrong with one whatever the transactional id, which response says so, and how it is
told.

`RULES` has one entry for each request that is answered. The handlers use it, and so does the shell for requests
that it cannot put to a shard, because their partition is being read or is not here.

Source: `getErrorResponse` of Kafka's request classes; the checks at the entry of its `TransactionCoordinator`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from coordinator.transactions.config import TransactionConfig
from coordinator.transactions.events import Refused
from coordinator.transactions.refusal_facts import RefusalDetail, TimeoutOutOfRange
from coordinator.transactions.requests import (
    AddPartitions,
    DescribeTransaction,
    ListTransactions,
    PartitionsAdded,
)
from coordinator.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID, Transaction
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsTransactionState
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_transactions import ListTransactionsResponse

INIT_KNOWS_FENCED_VERSION: Final = 4
END_KNOWS_FENCED_VERSION: Final = 2


def check_init(request: InitProducerIdRequest, config: TransactionConfig) -> ErrorCode:
    """Producer id and epoch come together; there is a name; the timeout is within its bounds."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= config.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def check_name(request: Any, _: TransactionConfig) -> ErrorCode:
    """There is a name."""
    return ErrorCode.NONE if request.transactional_id else ErrorCode.INVALID_REQUEST


def fenced_before(error: ErrorCode, api_version: int, known_since: int) -> ErrorCode:
    """Older versions do not know PRODUCER_FENCED."""
    is_unknown = error is ErrorCode.PRODUCER_FENCED and api_version < known_since
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else error


def _init_error(_: object, api_version: int, error: ErrorCode) -> InitProducerIdResponse:
    code = fenced_before(error, api_version, INIT_KNOWS_FENCED_VERSION)
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


def _end_error(_: object, api_version: int, error: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=fenced_before(error, api_version, END_KNOWS_FENCED_VERSION))


def _describe_error(
    request: DescribeTransaction, _: int, error: ErrorCode
) -> DescribeTransactionsTransactionState:
    return DescribeTransactionsTransactionState(
        error_code=error,
        transactional_id=request.transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


@dataclass(frozen=True, slots=True)
class Rules:
    """What there is to know of the refusals of one class of requests."""

    name: str
    """Kafka's, of the API."""
    response: Callable[[Any, int, ErrorCode], object]
    """Takes the request and its api version; says the error wherever there is room for it."""
    check: Callable[[Any, TransactionConfig], ErrorCode]
    """What is wrong with the request whatever the transactional id."""
    only_reads: Callable[[Any], bool] = lambda _: False
    """Whether no record ever comes of one."""


RULES: Final[Mapping[type[object], Rules]] = {
    InitProducerIdRequest: Rules("InitProducerId", _init_error, check_init),
    AddPartitions: Rules(
        "AddPartitionsToTxn",
        lambda request, _, error: PartitionsAdded(dict.fromkeys(request.partitions, error)),
        check_name,
        only_reads=lambda request: bool(request.verify_only),
    ),
    EndTxnRequest: Rules("EndTxn", _end_error, check_name),
    DescribeTransaction: Rules(
        "DescribeTransactions", _describe_error, check_name, only_reads=lambda _: True
    ),
    ListTransactions: Rules(
        "ListTransactions",
        lambda _, __, error: ListTransactionsResponse(
            error_code=error, unknown_state_filters=[], transaction_states=[]
        ),
        lambda *_: ErrorCode.NONE,
        only_reads=lambda _: True,
    ),
}


def error_response(request: object, api_version: int, error: ErrorCode) -> Any:
    """The response to `request` (one of the core's) that says `error` wherever there is room for it."""
    return RULES[type(request)].response(request, api_version, error)


def error_before_lookup(request: object, config: TransactionConfig) -> ErrorCode:
    """What is wrong with a request whatever the transactional id: told even while its partition is loading."""
    return RULES[type(request)].check(request, config)


def only_reads(request: object) -> bool:
    """Whether no record ever comes of a request: it can be served while none can be written."""
    rules = RULES.get(type(request))
    return rules is not None and rules.only_reads(request)


def refuse(
    transaction: Transaction | None,
    request: InitProducerIdRequest | AddPartitions | EndTxnRequest,
    context: Context,
    error: ErrorCode,
    turn: Turn,
    detail: RefusalDetail | None = None,
) -> None:
    """Answer a request with an error, and tell of it. In: None where nothing is known of the transactional id, or
    nobody looked."""
    turn.reply(context.waiter, error_response(request, context.api_version, error))
    tell_refusal(transaction, request, error, turn, detail)


def refuse_before_lookup(
    request: InitProducerIdRequest | AddPartitions | EndTxnRequest,
    context: Context,
    config: TransactionConfig,
    turn: Turn,
) -> bool:
    """Refuse what is wrong whatever the transactional id; whether it was."""
    error = error_before_lookup(request, config)
    if error is ErrorCode.NONE:
        return False
    detail: RefusalDetail | None = None
    if error is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        assert isinstance(request, InitProducerIdRequest)
        detail = TimeoutOutOfRange(request.transaction_timeout_ms, config.transaction_max_timeout_ms)
    refuse(None, request, context, error, turn, detail)
    return True


def tell_refusal(
    transaction: Transaction | None,
    request: InitProducerIdRequest | AddPartitions | EndTxnRequest,
    error: ErrorCode,
    turn: Turn,
    detail: RefusalDetail | None = None,
) -> None:
    """State that a request is refused, in part or as a whole."""
    turn.tell(
        Refused(
            request.transactional_id or "",
            request.producer_id,
            request.producer_epoch,
            RULES[type(request)].name,
            error,
            "" if transaction is None else transaction.state.value,
            detail,
        )
    )
