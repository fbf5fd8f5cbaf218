"""The coordinators of one broker among several: what another broker owns is answered with NOT_COORDINATOR.

Source: Kafka's `CoordinatorRuntime.contextOrThrow`, `TransactionStateManager.getAndMaybeAddTransactionState`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from coordinator.answers import Later
from coordinator.cluster.ownership import Ownership
from coordinator.engine.place import Asker
from coordinator.engine.runtime import Runtime
from coordinator.group.config import GroupConfig
from coordinator.group.refusal import error_before_lookup, error_response
from coordinator.group.shard import Shard
from coordinator.machine.outcome import Context
from coordinator.net.caller import Caller
from coordinator.server.handlers.groups import GroupPartition, GroupRouter
from coordinator.server.handlers.transaction_router import TransactionPartition, TransactionRouter
from coordinator.transactions.config import TransactionConfig
from coordinator.transactions.refusal import error_before_lookup as error_before_lookup_of_transaction
from coordinator.transactions.refusal import error_response as error_response_of_transaction
from coordinator.transactions.shard import TransactionShard
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest


class GroupRouterOfBroker(GroupRouter):
    """The groups of one broker."""

    def __init__(
        self, runtime: Runtime[Shard], config: GroupConfig, ownership: Ownership, node_id: int
    ) -> None:
        super().__init__(runtime, config)
        self._config_of_groups = config
        self._ownership = ownership
        self._node_id = node_id

    def _owns(self, partition: GroupPartition) -> bool:
        return self._ownership.owns(self._node_id, partition.name)

    @property
    def partitions(self) -> Sequence[GroupPartition]:
        """Those that this broker coordinates."""
        return [partition for partition in self.runtime.partitions if self._owns(partition)]

    def serves(self, partition: GroupPartition) -> bool:
        """Whether this broker coordinates a partition, and it can be asked."""
        return partition.machine is not None and self._owns(partition)

    def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> object:
        """Heartbeat: never waits."""
        partition = self.runtime.partition_of(request.group_id)
        if not self._owns(partition):
            return self._not_here(request, caller.api_version)
        return super().heartbeat(request, caller)

    def beat(self, partition: GroupPartition, request: Any, context: Context) -> object | None:
        """None where another broker is to be asked."""
        return super().beat(partition, request, context) if self._owns(partition) else None

    def repeat(self, request: Any, response: Any, caller: Caller) -> Callable[[int], bool] | None:
        """It is not the same answer once another broker is to be asked."""
        repeated = super().repeat(request, response, caller)
        if repeated is None:
            return None
        partition = self.runtime.partition_of(request.group_id)
        return lambda process_ms: self._owns(partition) and repeated(process_ms)

    def put(self, partition: GroupPartition, request: Any, context: Context, asker: Asker) -> object | Later:
        """Asks a partition that this broker owns."""
        if not self._owns(partition):
            return self._not_here(request, context.api_version)
        return super().put(partition, request, context, asker)

    def _not_here(self, request: Any, api_version: int) -> object:
        error = error_before_lookup(request, api_version, self._config_of_groups)
        if self.runtime.is_shut_down:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        elif error is ErrorCode.NONE:
            error = ErrorCode.NOT_COORDINATOR
        return error_response(request, api_version, error)


class TransactionRouterOfBroker(TransactionRouter):
    """The transactions of one broker."""

    def __init__(
        self,
        runtime: Runtime[TransactionShard],
        config: TransactionConfig,
        ownership: Ownership,
        node_id: int,
    ) -> None:
        super().__init__(runtime, config)
        self._config_of_transactions = config
        self._ownership = ownership
        self._node_id = node_id

    def _owns(self, partition: TransactionPartition) -> bool:
        return self._ownership.owns(self._node_id, partition.name)

    @property
    def partitions(self) -> Sequence[TransactionPartition]:
        """Those that this broker coordinates."""
        return [partition for partition in self.runtime.partitions if self._owns(partition)]

    def ask_partition(
        self, partition: TransactionPartition, request: Any, context: Context, asker: Asker
    ) -> object | Later:
        """Asks a partition that this broker owns."""
        if self._owns(partition):
            return super().ask_partition(partition, request, context, asker)
        error = error_before_lookup_of_transaction(request, self._config_of_transactions)
        if self.runtime.is_shut_down:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        elif error is ErrorCode.NONE:
            error = ErrorCode.NOT_COORDINATOR
        refusal: object = error_response_of_transaction(request, context.api_version, error)
        return refusal
