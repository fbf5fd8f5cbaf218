"""Rules for refusing requests: validation before lookup, error responses, and events.

`TRANSACTION_REQUEST_RULES` has one entry for each request with a response. The handlers use it, and so does the
runtime for requests that cannot reach a shard, because their partition is loading or elsewhere. Source:
`getErrorResponse` of Kafka's request classes; the checks at the entry of its `TransactionCoordinator`.
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
    """Require producer id and epoch together, a transactional id, and a timeout within its bounds."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= config.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def validate_transactional_id(request: Any, _: TransactionConfig) -> ErrorCode:
    """Require a transactional id that is not empty."""
    return ErrorCode.NONE if request.transactional_id else ErrorCode.INVALID_REQUEST


def translate_fenced_error(error: ErrorCode, api_version: int, known_since: int) -> ErrorCode:
    """Replace PRODUCER_FENCED for versions that do not know it."""
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
    """The rule for refusing one class of requests."""

    name: str
    """Kafka's name of the API."""
    build_response: Callable[[Any, int, ErrorCode], object]
    """Called with the request, its API version and the error."""
    check: Callable[[Any, TransactionConfig], ErrorCode]
    """Returns the error that holds for any transactional id."""
    is_read_only: Callable[[Any], bool] = lambda _: False
    """Returns whether a request never writes records."""


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
    """Return the error of a request that holds for any transactional id, even while its partition is loading."""
    return TRANSACTION_REQUEST_RULES[type(request)].check(request, config)


def is_read_only(request: object) -> bool:
    """Return whether a request never writes records, so that groupd can serve it while writes are impossible."""
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
    """Answer a request with an error, and add the event. `transaction` is None if it is unknown or the check ran
    before the lookup.
    """
    builder.reply(context.waiter, build_transaction_error_response(request, context.api_version, error))
    add_refused_event(transaction, request, error, builder, detail)


def refuse_before_lookup(
    request: InitProducerIdRequest | AddPartitions | EndTxnRequest,
    context: Context,
    config: TransactionConfig,
    builder: OutcomeBuilder,
) -> bool:
    """Refuse a request with an error that holds for any transactional id; return whether it was refused."""
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
    """Add the event of a refused request, or of a part of it."""
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
