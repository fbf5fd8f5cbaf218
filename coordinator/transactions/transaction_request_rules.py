"""Refused requests: what is wrong with one whatever the transactional id, which response says so, and how it is
told.

`TRANSACTION_REQUEST_RULES` has one entry for each request that is answered. The handlers use it, and so does
the shell for requests that it cannot put to a shard, because their partition is being read or is not here.

Source: `getErrorResponse` of Kafka's request classes; the checks at the entry of its `TransactionCoordinator`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID, TransactionMetadata
from coordinator.transactions.transaction_event_types import (
    RefusalDetail,
    TimeoutOutOfRange,
    TransactionRequestRefused,
)
from coordinator.transactions.transaction_requests import (
    AddPartitions,
    AddPartitionsResult,
    DescribeTransaction,
    ListTransactions,
    TransactionConfig,
)
from protocol.error_codes import ErrorCode
from protocol.error_response import build_bare_error_response, build_error_entry, build_error_response
from protocol.messages.describe_transactions import DescribeTransactionsTransactionState
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

INIT_KNOWS_FENCED_VERSION: Final = 4
END_KNOWS_FENCED_VERSION: Final = 2


def validate_init_producer_id(request: InitProducerIdRequest, config: TransactionConfig) -> ErrorCode:
    """Producer id and epoch come together; there is a name; the timeout is within its bounds."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= config.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def validate_transactional_id(request: Any, _: TransactionConfig) -> ErrorCode:
    """The transactional id must not be empty."""
    return ErrorCode.NONE if request.transactional_id else ErrorCode.INVALID_REQUEST


def translate_fenced_error(error: ErrorCode, api_version: int, known_since: int) -> ErrorCode:
    """Older versions do not know PRODUCER_FENCED."""
    is_unknown = error is ErrorCode.PRODUCER_FENCED and api_version < known_since
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else error


def _build_init_error(
    request: InitProducerIdRequest, version: int, error: ErrorCode
) -> InitProducerIdResponse:
    error = translate_fenced_error(error, version, INIT_KNOWS_FENCED_VERSION)
    response: InitProducerIdResponse = build_error_response(request, version, error)
    return response


def _build_end_error(request: EndTxnRequest, version: int, error: ErrorCode) -> EndTxnResponse:
    error = translate_fenced_error(error, version, END_KNOWS_FENCED_VERSION)
    response: EndTxnResponse = build_error_response(request, version, error)
    return response


def _build_add_error(request: AddPartitions, _: int, error: ErrorCode) -> AddPartitionsResult:
    return AddPartitionsResult(dict.fromkeys(request.partitions, error))


def _build_describe_error(
    request: DescribeTransaction, version: int, error: ErrorCode
) -> DescribeTransactionsTransactionState:
    return build_error_entry(DescribeTransactionsTransactionState, request.transactional_id, version, error)


def _build_list_error(_: ListTransactions, version: int, error: ErrorCode) -> ListTransactionsResponse:
    response: ListTransactionsResponse = build_bare_error_response(ListTransactionsRequest, version, error)
    return response


class TransactionRequestRule(Struct, frozen=True):
    """What there is to know of the refusals of one class of requests."""

    name: str
    """Kafka's, of the API."""
    build_response: Callable[[Any, int, ErrorCode], object]
    """Takes the request, its API version and the error."""
    check: Callable[[Any, TransactionConfig], ErrorCode]
    """What is wrong with the request whatever the transactional id."""
    is_read_only: Callable[[Any], bool] = lambda _: False
    """Whether no record ever comes of one."""


TRANSACTION_REQUEST_RULES: Final[Mapping[type[object], TransactionRequestRule]] = {
    InitProducerIdRequest: TransactionRequestRule(
        "InitProducerId", _build_init_error, validate_init_producer_id
    ),
    AddPartitions: TransactionRequestRule(
        "AddPartitionsToTxn",
        _build_add_error,
        validate_transactional_id,
        is_read_only=lambda request: bool(request.verify_only),
    ),
    EndTxnRequest: TransactionRequestRule("EndTxn", _build_end_error, validate_transactional_id),
    DescribeTransaction: TransactionRequestRule(
        "DescribeTransactions", _build_describe_error, validate_transactional_id, is_read_only=lambda _: True
    ),
    ListTransactions: TransactionRequestRule(
        "ListTransactions",
        _build_list_error,
        lambda *_: ErrorCode.NONE,
        is_read_only=lambda _: True,
    ),
}


def build_transaction_error_response(request: object, api_version: int, error: ErrorCode) -> Any:
    """Build the response that reports an error for a request of the transaction coordinator."""
    return TRANSACTION_REQUEST_RULES[type(request)].build_response(request, api_version, error)


def find_error_before_lookup(request: object, config: TransactionConfig) -> ErrorCode:
    """What is wrong with a request whatever the transactional id: told even while its partition is loading."""
    return TRANSACTION_REQUEST_RULES[type(request)].check(request, config)


def is_read_only(request: object) -> bool:
    """Whether no record ever comes of a request: it can be served while none can be written."""
    rules = TRANSACTION_REQUEST_RULES.get(type(request))
    return rules is not None and rules.is_read_only(request)


def refuse_request(
    transaction: TransactionMetadata | None,
    request: InitProducerIdRequest | AddPartitions | EndTxnRequest,
    context: Context,
    error: ErrorCode,
    builder: OutcomeBuilder,
    detail: RefusalDetail | None = None,
) -> None:
    """Answer a request with an error, and tell of it. In: None where nothing is known of the transactional id, or
    nobody looked."""
    builder.reply(context.waiter, build_transaction_error_response(request, context.api_version, error))
    add_refused_event(transaction, request, error, builder, detail)


def refuse_before_lookup(
    request: InitProducerIdRequest | AddPartitions | EndTxnRequest,
    context: Context,
    config: TransactionConfig,
    builder: OutcomeBuilder,
) -> bool:
    """Refuse what is wrong whatever the transactional id; whether it was."""
    error = find_error_before_lookup(request, config)
    if error is ErrorCode.NONE:
        return False
    detail: RefusalDetail | None = None
    if error is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        assert isinstance(request, InitProducerIdRequest)
        detail = TimeoutOutOfRange(request.transaction_timeout_ms, config.transaction_max_timeout_ms)
    refuse_request(None, request, context, error, builder, detail)
    return True


def add_refused_event(
    transaction: TransactionMetadata | None,
    request: InitProducerIdRequest | AddPartitions | EndTxnRequest,
    error: ErrorCode,
    builder: OutcomeBuilder,
    detail: RefusalDetail | None = None,
) -> None:
    """State that a request is refused, in part or as a whole."""
    builder.add_event(
        TransactionRequestRefused(
            request.transactional_id or "",
            request.producer_id,
            request.producer_epoch,
            TRANSACTION_REQUEST_RULES[type(request)].name,
            error,
            "" if transaction is None else transaction.state.value,
            detail,
        )
    )
