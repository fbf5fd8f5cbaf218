"""FindCoordinator: this broker, for every group. Source: Kafka's `KafkaApis.getCoordinator`.

There is no transaction coordinator. A producer that asks for one is told TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
the one answer that every stock producer takes as final; all others that fit make some client ask for ever.
"""

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
_NO_TRANSACTIONS: Final = "transactions are not served here: remove transactional.id from the producer"


class CoordinatorType(IntEnum):
    """Kafka's numbers for what is coordinated."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class FindCoordinatorHandler:
    """Answers FindCoordinator."""

    def __init__(self, run_queue: RunQueue) -> None:
        self._run_queue = run_queue

    def handle(self, request: FindCoordinatorRequest, caller: Caller) -> object:
        """This broker, as this client knows it, for every group."""
        if not caller.is_large:
            return find_coordinator(request, caller)

        def combine(_: list[object]) -> Combining:
            coordinators = []
            for key in request.coordinator_keys:
                coordinators.append(_find(key, request.key_type, caller))
                yield
            return FindCoordinatorResponse(coordinators=coordinators)

        return Merge(combine, self._run_queue, caller.api_version).answer((), caller)


def find_coordinator(request: FindCoordinatorRequest, caller: Caller) -> FindCoordinatorResponse:
    """All at once. The message of a success is "NONE" before v4, empty from then on: so Kafka has it."""
    if caller.api_version >= _SEVERAL_KEYS_SINCE:
        return FindCoordinatorResponse(
            coordinators=[_find(key, request.key_type, caller) for key in request.coordinator_keys]
        )
    found = _find(request.key, request.key_type, caller)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or ErrorCode.NONE.name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(key: str, key_type: int, caller: Caller) -> Coordinator:
    if key_type == CoordinatorType.GROUP:
        node = caller.node
        return Coordinator(
            key=key,
            node_id=node.node_id,
            host=node.host,
            port=node.port,
            error_code=ErrorCode.NONE,
            error_message="",
        )
    if key_type == CoordinatorType.TRANSACTION:
        return _refusal(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _NO_TRANSACTIONS)
    message = (
        "share groups are not served here" if key_type == CoordinatorType.SHARE else f"no key type {key_type}"
    )
    return _refusal(key, ErrorCode.INVALID_REQUEST, message)


def _refusal(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
