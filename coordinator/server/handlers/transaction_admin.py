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
PATTERN_MEMORY_BYTES: Final = 16 * 1024
"""For a compiled pattern and for its matching. A pattern of so many parts is as long as an id is likely to be, and
holds the loop for a few hundredths of a second where an id has 32 kB; with RE2's own limit that is minutes."""

Matches = Callable[[str], bool]
"""Whether an id is of a pattern."""


class TransactionAdmin:
    """Answers admin clients about transactions."""

    def __init__(self, router: TransactionRouter, run_queue: RunQueue) -> None:
        self._router = router
        self._run_queue = run_queue

    def describe(self, request: DescribeTransactionsRequest, caller: Caller) -> object:
        """Each id as its partition describes it, in the order asked for; one that is named again is not described
        again, which would take as much memory each time as its transaction has partitions."""
        transactional_ids = dict.fromkeys(request.transactional_ids)

        def ask() -> Iterator[Put]:
            for transactional_id in transactional_ids:
                asked = DescribeTransaction(transactional_id)
                yield partial(self._router.ask, transactional_id, asked, self._router.context(caller))

        def combine(answers: list[DescribeTransactionsTransactionState]) -> Combining:
            yield
            by_id = dict(zip(transactional_ids, answers, strict=True))
            return DescribeTransactionsResponse(
                transaction_states=[by_id[each] for each in request.transactional_ids]
            )

        return Merge(combine, self._run_queue, caller.api_version).answer(ask(), caller)

    def list_transactions(self, request: ListTransactionsRequest, caller: Caller) -> object:
        """The ids of every partition that is in service, as far as they pass all filters; an error while one is
        loading."""
        unknown = [name for name in request.state_filters if name not in _STATES]
        error = self._why_not()
        matches: Matches = _takes_all
        if error is ErrorCode.NONE and request.transactional_id_pattern:
            found = _matcher(request.transactional_id_pattern)
            if found is None:
                error = ErrorCode.INVALID_REGULAR_EXPRESSION
            else:
                matches = found
        if error is not ErrorCode.NONE:
            return ListTransactionsResponse(error_code=error, unknown_state_filters=[], transaction_states=[])
        asked = ListTransactions(request.state_filters, request.producer_id_filters, request.duration_filter)

        def ask() -> Iterator[Put]:
            for partition in self._router.partitions:
                if partition.machine is not None:
                    context = self._router.context(caller)
                    yield partial(self._router.ask_partition, partition, asked, context)

        def combine(answers: list[ListTransactionsResponse]) -> Combining:
            states = []
            for answer in answers:
                yield
                for state in answer.transaction_states:
                    if matches(state.transactional_id):
                        states.append(state)
                    yield
            return ListTransactionsResponse(
                error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=states
            )

        return Merge(combine, self._run_queue, caller.api_version).answer(ask(), caller)

    def _why_not(self) -> ErrorCode:
        runtime = self._router.runtime
        if runtime.is_shut_down:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if any(partition.state is PartitionState.LOADING for partition in self._router.partitions):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE


def _takes_all(_: str) -> bool:
    return True


def _matcher(pattern: str) -> Matches | None:
    """Whether a whole id is of a pattern, in time that grows with the lengths of both; None where that is no
    pattern, or too large a one."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return None
    return lambda transactional_id: compiled.fullmatch(transactional_id) is not None
