"""FindCoordinator: the broker that owns the partition of a group, or of a transactional id.

As in Kafka, the first request for a transaction coordinator creates the topic of transactions. Kafka answers
COORDINATOR_NOT_AVAILABLE until it exists, and clients retry; here the response waits until it exists. The topic of
groups exists from the start, and lists of topics omit it until a client requests a coordinator.

Source: Kafka's `KafkaApis.getCoordinator`.
"""

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Final, Protocol

from coordinator.apis.request_task import RequestTasks
from coordinator.cluster.partition_ownership import PartitionOwnership
from coordinator.core.reply import Reply
from coordinator.core.response_status import BLOCKED
from coordinator.core.shared_types import CONSUMER_OFFSETS, TRANSACTION_STATE, Node
from coordinator.core.time_budget import Budget
from coordinator.network.request_context import RequestContext
from coordinator.topics.topic import Topic
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_entry
from protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from protocol.partitioner import partition_for
from storage.topic_partition import TopicPartition

_SEVERAL_KEYS_SINCE: Final = 4


FindOwner = Callable[[str], Node | None]
"""Takes a key. Returns its coordinator at the address for this client, or None."""


class CoordinatorType(IntEnum):
    """Kafka's key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class TransactionStateTopic(Protocol):
    """The topic of transactions, and how it is created."""

    def start(self) -> str | None:
        """Create the topic if it does not exist. Return the reason if that is impossible."""

    @property
    def partitions(self) -> int:
        """Return the number of its partitions, now or after its creation."""

    @property
    def is_being_created(self) -> bool:
        """Return whether its creation has begun and not ended."""

    def call_when_created(self, call: Callable[[], None]) -> None:
        """Call a function once the topic exists."""


class FindCoordinatorHandler:
    """Answers FindCoordinator."""

    def __init__(
        self,
        tasks: RequestTasks,
        transactions: TransactionStateTopic,
        ownership: PartitionOwnership,
        offsets_topic: Topic,
    ) -> None:
        self._tasks = tasks
        self._transactions = transactions
        self._ownership = ownership
        self._offsets_topic = offsets_topic

    def handle(self, request: FindCoordinatorRequest, context: RequestContext) -> object:
        """Answer with the owner of each key, as advertised to this client."""
        why_not = None
        if request.key_type == CoordinatorType.GROUP:
            self._offsets_topic.is_needed = True
        elif request.key_type == CoordinatorType.TRANSACTION:
            why_not = self._transactions.start()
            if why_not is None and self._transactions.is_being_created and not context.is_large:
                reply = context.defer(blocks=True)
                self._transactions.call_when_created(partial(self._send_found, reply, request, context))
                return BLOCKED
        owner = partial(self._find_owner, context.client.node, request.key_type)
        if not context.is_large:
            return find_coordinator(request, owner, context.api_version, why_not)
        budget = self._tasks.create_budget()
        return self._tasks.run(_find_in_steps(request, owner, why_not, budget), context.defer, budget)

    def _send_found(self, reply: Reply, request: FindCoordinatorRequest, context: RequestContext) -> None:
        owner = partial(self._find_owner, context.client.node, request.key_type)
        reply.send(find_coordinator(request, owner, context.api_version, None))

    def _find_owner(self, node: Node, key_type: int, key: str) -> Node | None:
        """Return the owner of a key, with its address for this client; None without one. `node` is this broker."""
        if self._ownership.single_broker_id is not None:
            return node
        if key_type == CoordinatorType.TRANSACTION:
            topic, partitions = TRANSACTION_STATE, self._transactions.partitions
        else:
            topic, partitions = CONSUMER_OFFSETS, len(self._offsets_topic.partitions)
        owner = self._ownership.find_owner(TopicPartition(topic, partition_for(key, partitions)))
        return None if owner is None else self._ownership.brokers[owner].node_for_client(node)


def find_coordinator(
    request: FindCoordinatorRequest, owner: FindOwner, version: int, why_no_transactions: str | None
) -> FindCoordinatorResponse:
    """Answer in one step. As in Kafka, the message of a success is "NONE" before v4, and empty from then on."""
    if version >= _SEVERAL_KEYS_SINCE:
        return FindCoordinatorResponse(
            coordinators=[
                _find_key(key, request.key_type, owner, why_no_transactions)
                for key in request.coordinator_keys
            ]
        )
    found = _find_key(request.key, request.key_type, owner, why_no_transactions)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or ErrorCode.NONE.name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find_in_steps(
    request: FindCoordinatorRequest, owner: FindOwner, why_no_transactions: str | None, budget: Budget
) -> FindCoordinatorResponse:
    """Answer a large request, which has several keys."""
    coordinators = []
    for key in request.coordinator_keys:
        coordinators.append(_find_key(key, request.key_type, owner, why_no_transactions))
        await budget.checkpoint()
    return FindCoordinatorResponse(coordinators=coordinators)


def _find_key(key: str, key_type: int, owner: FindOwner, why_no_transactions: str | None) -> Coordinator:
    if key_type == CoordinatorType.TRANSACTION and why_no_transactions is not None:
        return _refuse_key(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, why_no_transactions)
    if key_type in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
        node = owner(key)
        if node is None:
            return _refuse_key(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "no live broker owns its partition")
        return Coordinator(
            key=key,
            node_id=node.node_id,
            host=node.host,
            port=node.port,
            error_code=ErrorCode.NONE,
            error_message="",
        )
    message = (
        "groupd does not support share groups"
        if key_type == CoordinatorType.SHARE
        else f"unknown key type {key_type}"
    )
    return _refuse_key(key, ErrorCode.INVALID_REQUEST, message)


def _refuse_key(key: str, error: ErrorCode, message: str) -> Coordinator:
    return build_error_entry(Coordinator, key, _SEVERAL_KEYS_SINCE, error, message)
