"""Questions to groups that come from people and not from a connection: answered when what they say is durable."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from coordinator import clock
from coordinator.answers import Later
from coordinator.cluster.ownership import Ownership
from coordinator.control.problem import Problem, ProblemKind
from coordinator.engine.partition import Partition, PartitionState
from coordinator.engine.place import Taker
from coordinator.engine.runtime import Runtime
from coordinator.group.shard import Shard
from coordinator.machine.outcome import Context
from coordinator.net.peer import printable

CLIENT_ID: Final = "groupd"
CLIENT_HOST: Final = "/127.0.0.1"


class GroupAsker:
    """Puts requests to the groups of a server. All methods belong to the event loop's thread."""

    def __init__(self, runtime: Runtime[Shard], arrival: clock.Arrival, ownership: Ownership) -> None:
        """In: the instant that the engine takes for that of the request at hand."""
        self._runtime = runtime
        self._arrival = arrival
        self._ownership = ownership

    @property
    def partitions(self) -> Sequence[Partition[Shard]]:
        """All of them, whatever their state."""
        return self._runtime.partitions

    def partition_of(self, group_id: str) -> Partition[Shard]:
        """The offsets partition of a group. Raises Problem (loading) while its groups cannot be asked."""
        partition = self._runtime.partition_of(group_id)
        if partition.machine is None:
            if self._ownership.is_far(partition.name):
                raise self._is_elsewhere(partition, group_id)
            is_loading = partition.state is PartitionState.LOADING
            state = "is being loaded" if is_loading else f"is {partition.state.value}"
            detail = f"{partition.name} {state}: nothing can be said of group {printable(group_id)} now."
            raise Problem(ProblemKind.LOADING, f"{partition.name} {state}", detail)
        return partition

    def _is_elsewhere(self, partition: Partition[Shard], group_id: str) -> Problem:
        owner = self._ownership.owner(partition.name)
        whose = "no broker's now" if owner is None else f"broker {owner}'s"
        asked = "" if owner is None else ": ask that one"
        detail = f"{partition.name}, to which group {printable(group_id)} belongs, is {whose}{asked}."
        return Problem(ProblemKind.LOADING, f"{partition.name} is {whose}", detail)

    async def ask(
        self,
        group_id: str,
        request: Any,
        api_version: int,
        *,
        client_id: str = CLIENT_ID,
        connection_id: int = 0,
        new_member_uuid: str = "",
    ) -> Any:
        """Puts a request of the core to the partition of a group. In: see `Context`. Out: the response, when it is
        durable. Raises Problem (loading). Whoever gives up waiting leaves nothing behind."""
        partition = self.partition_of(group_id)
        self._arrival.advance(clock.monotonic_ns())
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        asker = Taker(lambda response: None if answer.done() else answer.set_result(response), api_version)
        context = Context(
            self._runtime.next_waiter(),
            api_version,
            client_id,
            CLIENT_HOST,
            new_member_uuid,
            connection_id=connection_id,
        )
        response = self._runtime.ask(partition, request, context, asker)
        if type(response) is not Later:
            return response
        try:
            return await answer
        finally:
            if asker.registry is not None:
                asker.registry.pop(asker.waiter, None)

    def tell(self, partition: Partition[Shard], request: Any) -> Any:
        """Puts a request of the core whose answer need not be durable, and tells the answer at once; None where no
        groups are there to be asked."""
        if partition.machine is None:
            return None
        self._arrival.advance(clock.monotonic_ns())
        context = Context(self._runtime.next_waiter(), 0, CLIENT_ID, CLIENT_HOST)
        return self._runtime.ask_at_once(partition, request, context)
