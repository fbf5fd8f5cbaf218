"""Requests about one transactional id, put to the partition that holds it."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from coordinator.answers import Later
from coordinator.engine.partition import Partition, PartitionState
from coordinator.engine.place import Asker
from coordinator.engine.runtime import Runtime
from coordinator.machine.outcome import Context
from coordinator.net.caller import Caller
from coordinator.transactions.config import TransactionConfig
from coordinator.transactions.refusal import error_before_lookup, error_response
from coordinator.transactions.shard import TransactionShard
from protocol.errors import ErrorCode

TransactionPartition: TypeAlias = Partition[TransactionShard]


class TransactionRouter:
    """Finds the partition of a request and asks it."""

    def __init__(self, runtime: Runtime[TransactionShard], config: TransactionConfig) -> None:
        self.runtime = runtime
        self._config = config

    @property
    def partitions(self) -> Sequence[TransactionPartition]:
        """Those that this broker coordinates."""
        return self.runtime.partitions

    def context(self, caller: Caller) -> Context:
        """Of the request at hand."""
        return Context(
            self.runtime.next_waiter(),
            caller.api_version,
            caller.client_id,
            caller.client_host,
            connection_id=caller.connection_id,
        )

    def ask(self, transactional_id: str, request: Any, context: Context, asker: Asker) -> object | Later:
        """Puts a request to the partition of an id; its response, or HELD or PARKED when the asker gets it
        later."""
        return self.ask_partition(self.runtime.partition_of(transactional_id), request, context, asker)

    def ask_partition(
        self, partition: TransactionPartition, request: Any, context: Context, asker: Asker
    ) -> object | Later:
        """The same for what concerns all ids of a partition."""
        if partition.machine is not None:
            return self.runtime.ask(partition, request, context, asker)
        error = error_before_lookup(request, self._config)
        if error is ErrorCode.NONE:
            error = self._why_absent(partition)
        refusal: object = error_response(request, context.api_version, error)
        return refusal

    def _why_absent(self, partition: TransactionPartition) -> ErrorCode:
        """What is to be said of a partition that is not in service."""
        if self.runtime.is_shut_down:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if partition.state is PartitionState.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR
