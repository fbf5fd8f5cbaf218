"""The coordinators of one broker among several. Requests for partitions of other brokers are answered with
NOT_COORDINATOR.

Source: Kafka's `CoordinatorRuntime.contextOrThrow`, `TransactionStateManager.getAndMaybeAddTransactionState`.
"""

from collections.abc import Sequence
from typing import Any

from coordinator.apis.group_handlers import GroupPartition, GroupRouter
from coordinator.apis.transaction_router import TransactionRouter, TransactionStatePartition
from coordinator.cluster.partition_ownership import PartitionOwnership
from coordinator.core.outcome import Context
from coordinator.core.reply import DeferReply
from coordinator.core.response_status import DeferredResponse
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_request_rules import build_group_error_response, find_error_before_lookup
from coordinator.group.group_shard import GroupShard
from coordinator.network.repeated_requests import AnsweredRequest, Repetition
from coordinator.network.request_context import RequestContext
from coordinator.runtime.runtime import Runtime
from coordinator.transactions.transaction_request_rules import build_transaction_error_response
from coordinator.transactions.transaction_request_rules import (
    find_error_before_lookup as find_transaction_error_before_lookup,
)
from coordinator.transactions.transaction_requests import TransactionConfig
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest


class BrokerGroupRouter(GroupRouter):
    """The groups of one broker."""

    def __init__(
        self, runtime: Runtime[GroupShard], config: GroupConfig, ownership: PartitionOwnership, node_id: int
    ) -> None:
        super().__init__(runtime, config)
        self._group_config = config
        self._ownership = ownership
        self._node_id = node_id

    def _owns(self, partition: GroupPartition) -> bool:
        return self._ownership.owns(self._node_id, partition.name)

    @property
    def partitions(self) -> Sequence[GroupPartition]:
        """Return the partitions that this broker coordinates."""
        return [partition for partition in self.runtime.partitions if self._owns(partition)]

    def serves(self, partition: GroupPartition) -> bool:
        """Return whether this broker coordinates a partition that serves requests."""
        return partition.machine is not None and self._owns(partition)

    def handle_heartbeat(self, request: HeartbeatRequest, context: RequestContext) -> object:
        """Answer a Heartbeat without waiting."""
        partition = self.runtime.find_partition(request.group_id)
        if not self._owns(partition):
            return self._refuse_not_coordinator(request, context.api_version)
        return super().handle_heartbeat(request, context)

    def try_heartbeat(
        self, partition: GroupPartition, request: Any, machine_context: Context
    ) -> object | None:
        """Return None if another broker coordinates the partition."""
        return super().try_heartbeat(partition, request, machine_context) if self._owns(partition) else None

    def create_heartbeat_repetition(self, answered: AnsweredRequest) -> Repetition | None:
        """Create a repetition that ends when another broker coordinates the partition."""
        repetition = super().create_heartbeat_repetition(answered)
        if repetition is None:
            return None
        partition, repeat = self.runtime.find_partition(answered.request.group_id), repetition.repeat

        def repeat_owned(process_ms: int, changes: Sequence[Any], defer: DeferReply | None) -> object | None:
            return repeat(process_ms, changes, defer) if self._owns(partition) else None

        return repetition._replace(repeat=repeat_owned)

    def send_request(
        self, partition: GroupPartition, request: Any, machine_context: Context, defer: DeferReply
    ) -> object | DeferredResponse:
        """Send a request to a partition if this broker owns it."""
        if not self._owns(partition):
            return self._refuse_not_coordinator(request, machine_context.api_version)
        return super().send_request(partition, request, machine_context, defer)

    def _refuse_not_coordinator(self, request: Any, api_version: int) -> object:
        error = find_error_before_lookup(request, api_version, self._group_config)
        if self.runtime.is_shut_down:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        elif error is ErrorCode.NONE:
            error = ErrorCode.NOT_COORDINATOR
        return build_group_error_response(request, api_version, error)


class BrokerTransactionRouter(TransactionRouter):
    """The transactions of one broker."""

    def __init__(
        self,
        runtime: Runtime[TransactionShard],
        config: TransactionConfig,
        ownership: PartitionOwnership,
        node_id: int,
    ) -> None:
        super().__init__(runtime, config)
        self._transaction_config = config
        self._ownership = ownership
        self._node_id = node_id

    def _owns(self, partition: TransactionStatePartition) -> bool:
        return self._ownership.owns(self._node_id, partition.name)

    @property
    def partitions(self) -> Sequence[TransactionStatePartition]:
        """Return the partitions that this broker coordinates."""
        return [partition for partition in self.runtime.partitions if self._owns(partition)]

    def ask_partition(
        self, partition: TransactionStatePartition, request: Any, machine_context: Context, defer: DeferReply
    ) -> object | DeferredResponse:
        """Pass a request to a partition if this broker owns it."""
        if self._owns(partition):
            return super().ask_partition(partition, request, machine_context, defer)
        error = find_transaction_error_before_lookup(request, self._transaction_config)
        if self.runtime.is_shut_down:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        elif error is ErrorCode.NONE:
            error = ErrorCode.NOT_COORDINATOR
        refusal: object = build_transaction_error_response(request, machine_context.api_version, error)
        return refusal
