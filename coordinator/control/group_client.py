"""Requests from groupd itself, such as the control API, to groups.

`InternalGroupClient.request` returns a response after everything that it reports is durable; `request_now`
does not wait for the disk. A group cannot be reached while its offsets partition is loading or belongs to
another process; the error names the state or the coordinating broker.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from coordinator.cluster.partition_ownership import PartitionOwnership
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core import clock
from coordinator.core.message_text import printable
from coordinator.core.outcome import Context
from coordinator.core.reply import InternalReply
from coordinator.core.response_status import DeferredResponse
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.runtime.runtime import Runtime
from storage.topic_partition import TopicPartition


def describe_remote_coordinator(ownership: PartitionOwnership, partition: TopicPartition) -> str | None:
    """Return the end of a sentence about a partition of another process, or without an owner.

    Return None for a partition of this process.
    """
    if not ownership.is_remote(partition):
        return None
    owner = ownership.find_owner(partition)
    return (
        "has no coordinator now"
        if owner is None
        else f"is coordinated by broker {owner}: send the request there"
    )


CLIENT_ID: Final = "groupd"
CLIENT_HOST: Final = "/127.0.0.1"


def create_awaitable_reply() -> tuple[InternalReply, "asyncio.Future[Any]"]:
    """Return a reply, and the future that gets its response or its failure."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def set_response(response: object) -> None:
        if not answer.done():
            answer.set_result(response)

    def set_failure(problem: Exception) -> None:
        if not answer.done():
            answer.set_exception(problem)

    return InternalReply(set_response, set_failure), answer


class InternalGroupClient:
    """Sends requests to the groups of a server. All methods belong to the event loop's thread."""

    def __init__(
        self, runtime: Runtime[GroupShard], arrival: clock.Arrival, ownership: PartitionOwnership
    ) -> None:
        """Create a client. `arrival` is the engine's time of the current request. `ownership` knows the
        coordinator of each partition."""
        self._runtime = runtime
        self._arrival = arrival
        self._ownership = ownership

    @property
    def partitions(self) -> Sequence[CoordinatorPartition[GroupShard]]:
        """The offsets partitions, in any state."""
        return self._runtime.partitions

    def find_partition(self, group_id: str) -> CoordinatorPartition[GroupShard]:
        """Return the offsets partition of a group. Raises Problem (loading) while it is not in service."""
        partition = self._runtime.find_partition(group_id)
        if partition.machine is None:
            remote = describe_remote_coordinator(self._ownership, partition.name)
            if remote is not None:
                text = f"{partition.name} {remote}"
                raise Problem(ProblemKind.LOADING, text, f"{text}.")
            is_loading = partition.state is PartitionState.LOADING
            state = "is being loaded" if is_loading else f"is {partition.state.value}"
            detail = (
                f"{partition.name} {state}: group {printable(group_id)} is unavailable until it is loaded."
            )
            raise Problem(ProblemKind.LOADING, f"{partition.name} {state}", detail)
        return partition

    async def request(
        self,
        group_id: str,
        request: Any,
        api_version: int,
        *,
        client_id: str = CLIENT_ID,
        connection_id: int = 0,
        new_member_uuid: str = "",
    ) -> Any:
        """Send a request of the core to the partition of a group, and return the durable response. A cancelled
        call leaves no state behind.

        Args:
            group_id: the group.
            request: the request.
            api_version: the API version in the context of the request.
            client_id: the client id in the context.
            connection_id: the connection id in the context.
            new_member_uuid: the UUID for a new member id.

        Raises:
            Problem: the group is loading or has another coordinator.
        """
        partition = self.find_partition(group_id)
        self._arrival.advance(clock.monotonic_ns())
        reply, answer = create_awaitable_reply()
        context = Context(
            self._runtime.next_waiter(),
            api_version,
            client_id,
            CLIENT_HOST,
            new_member_uuid,
            connection_id=connection_id,
        )
        response = self._runtime.execute_request(partition, request, context, reply.reopen)
        if type(response) is not DeferredResponse:
            return response
        try:
            return await answer
        finally:
            reply.abandon()

    def request_now(self, partition: CoordinatorPartition[GroupShard], request: Any) -> Any:
        """Handle a request of the core whose response need not be durable, and return the response.

        Return None if the partition is not in service.
        """
        if partition.machine is None:
            return None
        self._arrival.advance(clock.monotonic_ns())
        context = Context(self._runtime.next_waiter(), 0, CLIENT_ID, CLIENT_HOST)
        return self._runtime.execute_immediate_request(partition, request, context)
