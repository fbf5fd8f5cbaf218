"""FindCoordinator: this broker, for every group and every transactional id. Source: Kafka's
`KafkaApis.getCoordinator`.

As in Kafka the topic of transactions is made when somebody first asks for their coordinator.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from coordinator.net.caller import Caller
from coordinator.net.run_queue import RunQueue
from coordinator.server.handlers.merge import Combining, Merge
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_SEVERAL_KEYS_SINCE: Final = 4

BeginTransactions = Callable[[], str | None]
"""Makes the topic of transactions unless it is there; why it cannot be, None when it can."""


class CoordinatorType(IntEnum):
    """Kafka's numbers for what is coordinated."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class FindCoordinatorHandler:
    """Answers FindCoordinator."""

    def __init__(self, run_queue: RunQueue, begin_transactions: BeginTransactions) -> None:
        self._run_queue = run_queue
        self._begin_transactions = begin_transactions

    def handle(self, request: FindCoordinatorRequest, caller: Caller) -> object:
        """This broker, as this client knows it, for every key."""
        if not caller.is_large:
            return find_coordinator(request, caller, self._begin_transactions)

        def combine(_: list[object]) -> Combining:
            coordinators = []
            for key in request.coordinator_keys:
                coordinators.append(_find(key, request.key_type, caller, self._begin_transactions))
                yield
            return FindCoordinatorResponse(coordinators=coordinators)

        return Merge(combine, self._run_queue, caller.api_version).answer((), caller)


def find_coordinator(
    request: FindCoordinatorRequest, caller: Caller, begin_transactions: BeginTransactions
) -> FindCoordinatorResponse:
    """All at once. The message of a success is "NONE" before v4, empty from then on: so Kafka has it."""
    if caller.api_version >= _SEVERAL_KEYS_SINCE:
        return FindCoordinatorResponse(
            coordinators=[
                _find(key, request.key_type, caller, begin_transactions) for key in request.coordinator_keys
            ]
        )
    found = _find(request.key, request.key_type, caller, begin_transactions)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or ErrorCode.NONE.name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(key: str, key_type: int, caller: Caller, begin_transactions: BeginTransactions) -> Coordinator:
    if key_type == CoordinatorType.TRANSACTION:
        why_not = begin_transactions()
        if why_not is not None:
            return _refusal(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, why_not)
    if key_type in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
        node = caller.node
        return Coordinator(
            key=key,
            node_id=node.node_id,
            host=node.host,
            port=node.port,
            error_code=ErrorCode.NONE,
            error_message="",
        )
    message = (
        "share groups are not served here" if key_type == CoordinatorType.SHARE else f"no key type {key_type}"
    )
    return _refusal(key, ErrorCode.INVALID_REQUEST, message)


def _refusal(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
