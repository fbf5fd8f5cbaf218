"""FindCoordinator: the broker that owns the partition of a group, or of a transactional id. Source: Kafka's
`KafkaApis.getCoordinator`.

As in Kafka the topic of transactions is made when somebody first asks for their coordinator. Kafka says
COORDINATOR_NOT_AVAILABLE meanwhile, and clients come again after a while; here the answer waits until it is there.
"""

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Final, Protocol

from coordinator.answers import PARKED
from coordinator.cluster.ownership import Ownership
from coordinator.names import CONSUMER_OFFSETS, TRANSACTION_STATE, Node
from coordinator.net.caller import Caller
from coordinator.net.run_queue import RunQueue
from coordinator.net.slot import Slot
from coordinator.server.handlers.merge import Combining, Merge
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from protocol.partitioner import partition_for
from storage.topic_partition import TopicPartition

_SEVERAL_KEYS_SINCE: Final = 4


Owner = Callable[[str], Node | None]
"""Gives the owner of a key, as this client knows it; None where there is none."""


class CoordinatorType(IntEnum):
    """Kafka's numbers for what is coordinated."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class TopicOfTransactions(Protocol):
    """What is asked of whoever makes it."""

    def begin(self) -> str | None:
        """Makes the topic unless it is there; why it cannot be made, if so."""

    @property
    def partitions(self) -> int:
        """How many it has, or will have."""

    @property
    def is_being_made(self) -> bool:
        """Whether it has begun, and cannot be asked yet."""

    def when_made(self, call: Callable[[], None]) -> None:
        """Has something called when it can."""


class FindCoordinatorHandler:
    """Answers FindCoordinator."""

    def __init__(
        self, run_queue: RunQueue, transactions: TopicOfTransactions, ownership: Ownership, partitions: int
    ) -> None:
        """In: how many partitions groups have."""
        self._run_queue = run_queue
        self._transactions = transactions
        self._ownership = ownership
        self._partitions = partitions

    def handle(self, request: FindCoordinatorRequest, caller: Caller) -> object:
        """The owner of each key, as this client knows it."""
        why_not = None
        if request.key_type == CoordinatorType.TRANSACTION:
            why_not = self._transactions.begin()
            if why_not is None and self._transactions.is_being_made and not caller.is_large:
                slot = caller.answer_later(parks=True)
                answer = partial(self._fill, slot, request, caller.node, caller.api_version)
                self._transactions.when_made(answer)
                return PARKED
        node, version = caller.node, caller.api_version
        if not caller.is_large:
            return find_coordinator(request, partial(self._owner, node, request.key_type), version, why_not)

        def combine(_: list[object]) -> Combining:
            coordinators = []
            owner = partial(self._owner, node, request.key_type)
            for key in request.coordinator_keys:
                coordinators.append(_find(key, request.key_type, owner, why_not))
                yield
            return FindCoordinatorResponse(coordinators=coordinators)

        return Merge(combine, self._run_queue, version).answer((), caller)

    def _fill(self, slot: Slot, request: FindCoordinatorRequest, node: Node, version: int) -> None:
        slot.fill(find_coordinator(request, partial(self._owner, node, request.key_type), version, None))

    def _owner(self, node: Node, key_type: int, key: str) -> Node | None:
        """In: the broker that is asked."""
        if self._ownership.only is not None:
            return node
        if key_type == CoordinatorType.TRANSACTION:
            topic, partitions = TRANSACTION_STATE, self._transactions.partitions
        else:
            topic, partitions = CONSUMER_OFFSETS, self._partitions
        owner = self._ownership.owner(TopicPartition(topic, partition_for(key, partitions)))
        return None if owner is None else self._ownership.brokers[owner].seen_from(node)


def find_coordinator(
    request: FindCoordinatorRequest, owner: Owner, version: int, why_no_transactions: str | None
) -> FindCoordinatorResponse:
    """All at once. The message of a success is "NONE" before v4, empty from then on: so Kafka has it."""
    if version >= _SEVERAL_KEYS_SINCE:
        return FindCoordinatorResponse(
            coordinators=[
                _find(key, request.key_type, owner, why_no_transactions) for key in request.coordinator_keys
            ]
        )
    found = _find(request.key, request.key_type, owner, why_no_transactions)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or ErrorCode.NONE.name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(key: str, key_type: int, owner: Owner, why_no_transactions: str | None) -> Coordinator:
    if key_type == CoordinatorType.TRANSACTION and why_no_transactions is not None:
        return _refusal(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, why_no_transactions)
    if key_type in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
        node = owner(key)
        if node is None:
            return _refusal(
                key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "no broker that lives owns its partition"
            )
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
