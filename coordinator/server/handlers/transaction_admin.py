"""DescribeTransactions and ListTransactions: how far transactions have come.

Source: Kafka's `KafkaApis.handleDescribeTransactionsRequest`, `handleListTransactionsRequest`; KIP-664, KIP-994,
KIP-1152.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from coordinator.engine.partition import PartitionState
from coordinator.net.caller import Caller
from coordinator.net.run_queue import RunQueue
from coordinator.server.handlers.merge import Combining, Merge, Put
from coordinator.server.handlers.transaction_router import TransactionRouter
from coordinator.transactions.requests import DescribeTransaction, ListTransactions
from coordinator.transactions.state import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_STATES: Final = frozenset(state.value for state in TransactionState)


class TransactionAdmin:
    """Answers admin clients about transactions."""

    def __init__(self, router: TransactionRouter, run_queue: RunQueue) -> None:
        self._router = router
        self._run_queue = run_queue

    def describe(self, request: DescribeTransactionsRequest, caller: Caller) -> object:
        """Each id as its partition describes it, in the order asked for."""

        def ask() -> Iterator[Put]:
            for transactional_id in request.transactional_ids:
                asked = DescribeTransaction(transactional_id)
                yield partial(self._router.ask, transactional_id, asked, self._router.context(caller))

        def combine(answers: list[DescribeTransactionsTransactionState]) -> Combining:
            yield
            return DescribeTransactionsResponse(transaction_states=answers)

        return Merge(combine, self._run_queue, caller.api_version).answer(ask(), caller)

    def list_transactions(self, request: ListTransactionsRequest, caller: Caller) -> object:
        """The ids of every partition that is in service, as far as they pass all filters; an error while one is
        loading."""
        runtime = self._router.runtime
        unknown = [name for name in request.state_filters if name not in _STATES]
        error = ErrorCode.NONE
        if runtime.is_shut_down:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        elif any(partition.state is PartitionState.LOADING for partition in runtime.partitions):
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        matches = None
        if error is ErrorCode.NONE and request.transactional_id_pattern:
            matches = _matcher(request.transactional_id_pattern)
            if matches is None:
                error = ErrorCode.INVALID_REGULAR_EXPRESSION
        if error is not ErrorCode.NONE:
            return ListTransactionsResponse(error_code=error, unknown_state_filters=[], transaction_states=[])
        asked = ListTransactions(
            request.state_filters, request.producer_id_filters, request.duration_filter, matches
        )

        def ask() -> Iterator[Put]:
            for partition in runtime.partitions:
                if partition.machine is not None:
                    context = self._router.context(caller)
                    yield partial(self._router.ask_partition, partition, asked, context)

        def combine(answers: list[ListTransactionsResponse]) -> Combining:
            states = []
            for answer in answers:
                states += answer.transaction_states
                yield
            return ListTransactionsResponse(
                error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=states
            )

        return Merge(combine, self._run_queue, caller.api_version).answer(ask(), caller)


def _matcher(pattern: str) -> Callable[[str], bool] | None:
    """Whether a whole id is of a pattern, in time that grows with its length alone; None where that is no
    pattern."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return None
    return lambda transactional_id: compiled.fullmatch(transactional_id) is not None
