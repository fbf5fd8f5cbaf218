"""The router of requests to the partition of their transactional id."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from coordinator.core.outcome import Context
from coordinator.core.reply import DeferReply
from coordinator.core.response_status import DeferredResponse
from coordinator.network.request_context import RequestContext
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.runtime.runtime import Runtime
from coordinator.transactions.transaction_request_rules import (
    build_transaction_error_response,
    find_error_before_lookup,
)
from coordinator.transactions.transaction_requests import TransactionConfig
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.error_codes import ErrorCode

TransactionStatePartition: TypeAlias = CoordinatorPartition[TransactionShard]


class TransactionRouter:
    """Finds the partition of a request and passes the request to it."""

    def __init__(self, runtime: Runtime[TransactionShard], config: TransactionConfig) -> None:
        self.runtime = runtime
        self._config = config

    @property
    def partitions(self) -> Sequence[TransactionStatePartition]:
        """Return the partitions that this broker coordinates."""
        return self.runtime.partitions

    def create_machine_context(self, context: RequestContext) -> Context:
        """Create the context of a request for transaction shards."""
        client = context.client
        return Context(
            self.runtime.next_waiter(),
            context.api_version,
            client.client_id,
            client.host,
            connection_id=client.connection_id,
        )

    def ask_coordinator(
        self, transactional_id: str, request: Any, machine_context: Context, defer: DeferReply
    ) -> object | DeferredResponse:
        """Pass a request to the partition of a transactional id.

        Returns its response, or a `DeferredResponse` when the reply that `defer` opens receives the response later.
        """
        return self.ask_partition(
            self.runtime.find_partition(transactional_id), request, machine_context, defer
        )

    def ask_partition(
        self, partition: TransactionStatePartition, request: Any, machine_context: Context, defer: DeferReply
    ) -> object | DeferredResponse:
        """Pass a request that concerns all transactional ids of `partition` to it.

        Returns its response, or a `DeferredResponse` when the reply that `defer` opens receives the response later.
        """
        if partition.machine is not None:
            return self.runtime.execute_request(partition, request, machine_context, defer)
        error = find_error_before_lookup(request, self._config)
        if error is ErrorCode.NONE:
            error = self._find_absence_error(partition)
        refusal: object = build_transaction_error_response(request, machine_context.api_version, error)
        return refusal

    def _find_absence_error(self, partition: TransactionStatePartition) -> ErrorCode:
        """Return the error for a partition that is not in service."""
        if self.runtime.is_shut_down:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if partition.state is PartitionState.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR
