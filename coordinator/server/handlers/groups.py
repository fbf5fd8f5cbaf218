"""Requests about one group, put to the partition that holds it: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

from coordinator.group.classic.heartbeat import RESPONSES
from coordinator.group.config import GroupConfig
from coordinator.group.outcome import Context
from coordinator.server import clock
from coordinator.server.beat import Beat
from coordinator.server.connection import Connection
from coordinator.server.error_responses import error_before_lookup, error_response, loading_error
from coordinator.server.offsets_partition import OffsetsPartition, PartitionState
from coordinator.server.route import Route
from coordinator.server.runtime import GroupRuntime
from coordinator.server.slot import Awaiting, Slot
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest


class GroupRouter:
    """Finds the partition of a request, asks it, and sees to it that the answer reaches who asked."""

    def __init__(self, runtime: GroupRuntime, config: GroupConfig, turn: clock.Turn) -> None:
        self.runtime = runtime
        self._config = config
        self.turn = turn

    # One group, one partition

    def heartbeat(
        self, request: HeartbeatRequest, connection: Connection, route: Route, correlation_id: int
    ) -> object:
        """Heartbeat: never waits, neither for the group nor for the disk."""
        partition = self.runtime.partition_of(request.group_id)
        shard = partition.shard
        if shard is None:
            return self.refusal(partition, request, route.version)
        now = self.turn.now
        context = Context(0, route.version, connection.client_id, connection.client_host)
        try:
            if shard.beat(request, now.monotonic_ms):
                return RESPONSES[ErrorCode.NONE]
            outcome = shard.handle(request, context, now)
        except Exception as problem:  # noqa: BLE001 - the daemon outlives one partition's groups
            return self.runtime.contradicted(partition, problem, request, context)
        return self.runtime.follow_heartbeat(partition, outcome, request, context, now)

    def remember(self, frame: bytes, request: HeartbeatRequest, route: Route) -> Beat:
        """A heartbeat, for when it comes again."""
        return Beat(frame, request, self.runtime.partition_of(request.group_id), route)

    def handle(
        self, request: Any, connection: Connection, route: Route, correlation_id: int
    ) -> object | None:
        """SyncGroup, LeaveGroup, and whatever else names one group and is answered as the core answers it."""
        return self._ask_for(
            self.context(connection, route.version), request, connection, route, correlation_id
        )

    def join(
        self, request: JoinGroupRequest, connection: Connection, route: Route, correlation_id: int
    ) -> object | None:
        """JoinGroup: a member without an id may get one, which is random and therefore made here."""
        context = self.context(connection, route.version)
        if not request.member_id:
            context.new_member_uuid = str(uuid4())
        return self._ask_for(context, request, connection, route, correlation_id)

    def _ask_for(
        self, context: Context, request: Any, connection: Connection, route: Route, correlation_id: int
    ) -> object | None:
        response, partition = self.ask(request, context)
        if partition is not None:
            slot = connection.open_slot(route, correlation_id, parks=self.runtime.was_parked)
            self.wait_in(slot, partition, context, request)
        return response

    # For those who ask several partitions

    def context(self, connection: Connection, api_version: int) -> Context:
        """Who asks, under a fresh waiter."""
        return Context(self.runtime.next_waiter(), api_version, connection.client_id, connection.client_host)

    def ask(
        self, request: Any, context: Context, partition: OffsetsPartition | None = None
    ) -> tuple[Any | None, OffsetsPartition | None]:
        """Puts a request to the partition of its group, or to a given one.

        Out: the response and None; or None and the partition with which `wait` has to be called next.
        """
        if partition is None:
            partition = self.runtime.partition_of(request.group_id)
        if partition.shard is None:
            return self.refusal(partition, request, context.api_version), None
        response = self.runtime.ask(partition, request, context, self.turn.now)
        return response, (partition if response is None else None)

    def wait_in(self, slot: Slot, partition: OffsetsPartition, context: Context, request: object) -> None:
        """Enters a slot that is to get the answer that `ask` did not give."""
        slot.request, slot.registry, slot.waiter = request, partition.waiting, context.waiter
        partition.waiting[context.waiter] = slot

    def wait(self, partition: OffsetsPartition, context: Context, who: Awaiting) -> Callable[[], None]:
        """Enters who is to get the answer that `ask` did not give; gives what takes the entry back."""
        partition.waiting[context.waiter] = who
        return partial(partition.forget, context.waiter)

    def refusal(self, partition: OffsetsPartition, request: Any, api_version: int) -> Any:
        """The answer of a partition that is not in service."""
        if self.runtime.is_shut_down:
            return error_response(request, api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        error = error_before_lookup(request, api_version, self._config)
        if error is not ErrorCode.NONE:
            return error_response(request, api_version, error)
        if partition.state is PartitionState.LOADING:
            return error_response(request, api_version, loading_error(request))
        return error_response(request, api_version, ErrorCode.NOT_COORDINATOR)
