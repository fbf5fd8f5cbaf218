"""Replicates appends to the cluster's store, and has the store prove that this daemon still owns the partitions.

At the end of each loop iteration there is one submission for each partition with new records or new answers.
Tickets report the results in the order of submissions. `AppendSubmitter` builds the transactions: this module
knows no keys or tokens.

After a failed submission the content of the store is unknown. The partition is then released, and taken back
under another token if this daemon still owns it.

`ReplicatedRuntime` runs the machines of an internal topic over such logs.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol

from coordinator.core.outcome import Message
from coordinator.runtime.coordinator_partition import CoordinatorPartition, EngineContext, Gate
from coordinator.runtime.flusher import OnSynced
from coordinator.runtime.machine import InternalTopic, M
from coordinator.runtime.partition_driver import PartitionDriver, PartitionService
from coordinator.runtime.partition_lifecycle import LifecycleEvent
from coordinator.runtime.runtime import Runtime
from storage.log import PartitionLog
from storage.storage_errors import StorageError
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("Replication")


class Ticket(NamedTuple):
    """One submission of one log."""

    log: PartitionLog
    number: int
    end_offset: int
    on_synced: OnSynced


class NotReplicated(StorageError):
    """The replicated content of a log is unknown."""


class AppendSubmitter(Protocol):
    """Puts submissions into transactions. Raises nothing."""

    def submit_append(
        self,
        partition: TopicPartition,
        token: int,
        base_offset: int,
        next_offset: int,
        data: bytes,
        ticket: Ticket | None,
    ) -> None:
        """Append bytes under a token. A piece without a ticket gets no result: the ticket of the next piece covers
        it.
        """

    def submit_proof(self, partition: TopicPartition, token: int, ticket: Ticket) -> None:
        """Make the store confirm that a token is valid."""


class Replication:
    """A `DurabilityBackend` that replicates logs to the cluster's store. All methods belong to the event loop's
    thread.
    """

    def __init__(self, appends: AppendSubmitter, on_doubted: Callable[[TopicPartition], None]) -> None:
        """Create a backend. `on_doubted` takes a released partition that this daemon may still own: it must be
        taken back under a new token.
        """
        self.on_doubted = on_doubted
        self._appends = appends
        self._names: dict[PartitionLog, TopicPartition] = {}
        self._requested: dict[PartitionLog, OnSynced] = {}
        self._removed_listeners: set[OnSynced] = set()

    def on_opened(self, partition: TopicPartition, log: PartitionLog) -> None:
        """Register the log of a partition. The store has all of its records."""
        self.on_released(partition)
        self._names[log] = partition

    def on_released(self, partition: TopicPartition) -> None:
        """Stop submitting appends of a released partition, even if its log is still open."""
        for other in [log for log, name in self._names.items() if name == partition or log.is_closed]:
            del self._names[other]

    def request_sync(self, log: PartitionLog, on_synced: OnSynced) -> None:
        self._requested[log] = on_synced

    def start_sync(self) -> None:
        requested, self._requested = self._requested, {}
        for log, on_synced in requested.items():
            try:
                self._submit(log, on_synced)
            except Exception as problem:  # noqa: BLE001 - the other logs are still submitted
                _LOG.error("Failed to submit %s", log.directory, exc_info=problem)
                ticket = Ticket(log, -1, log.log_end_offset, on_synced)
                asyncio.get_running_loop().call_soon(self.on_failed, ticket, f"cannot submit: {problem!r}")

    def _submit(self, log: PartitionLog, on_synced: OnSynced) -> None:
        queue, partition = log.durability.replication_queue, self._names.get(log)
        if queue is None or partition is None or log.is_closed:
            return
        end_offset = log.log_end_offset
        number, pieces = queue.take_submission(end_offset)
        ticket = Ticket(log, number, end_offset, on_synced)
        if not pieces:
            self._appends.submit_proof(partition, queue.ownership_token, ticket)
        for piece in pieces:
            last = ticket if piece is pieces[-1] else None
            self._appends.submit_append(partition, queue.ownership_token, *piece, last)

    def remove_listener(self, on_synced: OnSynced) -> None:
        self._removed_listeners.add(on_synced)

    def on_confirmed(self, ticket: Ticket) -> None:
        """Handle a successful submission: its records are stored, and the token was valid afterwards."""
        log = ticket.log
        queue = log.durability.replication_queue
        if queue is None or log.is_closed or ticket.on_synced in self._removed_listeners:
            return
        queue.confirm_submission(ticket.number)
        log.durability.on_replicated(ticket.end_offset, log.log_end_offset)
        self._notify(ticket, None)

    def on_failed(self, ticket: Ticket, reason: str) -> None:
        """Handle a submission with an unknown result."""
        if not ticket.log.is_closed and ticket.on_synced not in self._removed_listeners:
            self._notify(ticket, NotReplicated(f"{self._names.get(ticket.log)}: {reason}"))

    @staticmethod
    def _notify(ticket: Ticket, error: StorageError | None) -> None:
        try:
            ticket.on_synced(ticket.log, error)
        except Exception as problem:  # noqa: BLE001 - the waiters of other logs still get their answers
            _LOG.error("After replicating %s", ticket.log.directory, exc_info=problem)


class _ReplicatedGate(Gate):
    """A gate that requests a submission for each held answer, because the store must prove the token first."""

    __slots__ = ("_request_submission",)

    def __init__(self, request_submission: Callable[[], None]) -> None:
        super().__init__()
        self._request_submission = request_submission

    def hold_answer(self, position: int, waiter: int, response: object) -> None:
        super().hold_answer(position, waiter, response)
        self._request_submission()


class ReplicatedPartition(CoordinatorPartition[M], Generic[M]):
    """A partition with its log in the cluster's store. Its positions are numbers of submissions to the store."""

    __slots__ = ("_schedule_submission",)

    def __init__(
        self,
        topic: InternalTopic[M],
        number: int,
        schedule_submission: Callable[[CoordinatorPartition[M]], None],
    ) -> None:
        """Create a partition. `schedule_submission` takes it for the submission at the end of the iteration."""
        super().__init__(topic, number)
        self.gate = _ReplicatedGate(self._request_submission)
        self._schedule_submission = schedule_submission

    def _request_submission(self) -> None:
        self._schedule_submission(self)

    @property
    def position(self) -> int:
        """The number of the submission that an answer of this iteration waits for."""
        queue = None if self.log is None else self.log.durability.replication_queue
        return 1 if queue is None else queue.next_submission

    @property
    def confirmed_position(self) -> int:
        """The number of the last confirmed submission."""
        queue = None if self.log is None else self.log.durability.replication_queue
        return 0 if queue is None else queue.last_confirmed

    def queue_messages(self, messages: Sequence[Message]) -> None:
        """Keep messages of this iteration until the store has proved the token."""
        super().queue_messages(messages)
        self._request_submission()


class FencingDriver(PartitionDriver[M], Generic[M]):
    """Releases a failed partition: only a new token shows which of its last appends the cluster has."""

    def __init__(
        self,
        topic: InternalTopic[M],
        engine_context: EngineContext,
        partitions: Sequence[CoordinatorPartition[M]],
        service: PartitionService,
        on_doubted: Callable[[TopicPartition], None],
    ) -> None:
        """Create a driver. `on_doubted` takes a released partition that this daemon may still own."""
        super().__init__(topic, engine_context, partitions, service)
        self._on_doubted = on_doubted

    def _replace_machine(self, partition: CoordinatorPartition[M]) -> None:
        self._fence_partition(partition)

    def _recover_failed_append(self, partition: CoordinatorPartition[M]) -> None:
        self._fence_partition(partition)

    def _fence_partition(self, partition: CoordinatorPartition[M]) -> None:
        self._end_service(partition, LifecycleEvent.FENCED)
        self._close_log(partition)
        if not self.is_shut_down:
            self._on_doubted(partition.name)


class ReplicatedRuntime(Runtime[M], Generic[M]):
    """The runtime of an internal topic with logs in the cluster's store."""

    def __init__(
        self, topic: InternalTopic[M], engine_context: EngineContext, replication: Replication
    ) -> None:
        self._on_doubted = replication.on_doubted
        super().__init__(topic, engine_context, replication)

    def _create_partition(self, number: int) -> CoordinatorPartition[M]:
        return ReplicatedPartition(self.topic, number, self.schedule_append)

    def _create_lifecycle(self) -> PartitionDriver[M]:
        return FencingDriver(self.topic, self._engine_context, self.partitions, self, self._on_doubted)

    def _append_pending(self, partition: CoordinatorPartition[M], wall_ms: int) -> None:
        """Append the pending records. Without any, request a submission that proves the token."""
        if partition.pending_records:
            super()._append_pending(partition, wall_ms)
        elif partition.log is not None and partition.machine is not None:
            self._durability.request_sync(partition.log, self._on_synced)
