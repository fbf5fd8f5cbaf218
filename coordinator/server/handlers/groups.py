"""Requests about one group, put to the partition that holds it: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias
from uuid import uuid4

from coordinator.answers import Later
from coordinator.engine.partition import Partition, PartitionState
from coordinator.engine.place import Asker
from coordinator.engine.runtime import Runtime
from coordinator.group.config import GroupConfig
from coordinator.group.refusal import error_before_lookup, error_response, loading_error
from coordinator.group.shard import Shard
from coordinator.machine.outcome import Context
from coordinator.net.caller import Caller
from coordinator.net.slot import Slot
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

GroupPartition: TypeAlias = Partition[Shard]
Finish = Callable[[Any], object]
"""Makes the answer for the client of the one that the group gives."""


_SAYS_SOMETHING_NEW: Final[dict[type[object], Callable[[Any], bool]]] = {
    HeartbeatResponse: lambda response: response.error_code != ErrorCode.NONE,
    ConsumerGroupHeartbeatResponse: lambda response: (
        response.error_code != ErrorCode.NONE or response.assignment is not None
    ),
}
"""Answers to heartbeats."""


class GroupRouter:
    """Finds the partition of a request, asks it, and sees to it that the answer reaches who asked."""

    def __init__(self, runtime: Runtime[Shard], config: GroupConfig) -> None:
        self.runtime = runtime
        self._config = config

    @property
    def partitions(self) -> Sequence[GroupPartition]:
        """Those that this broker coordinates."""
        return self.runtime.partitions

    def serves(self, partition: GroupPartition) -> bool:
        """Whether this broker coordinates a partition, and it can be asked."""
        return partition.machine is not None

    # One group, one partition

    def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> object:
        """Heartbeat: never waits, neither for the group nor for the disk."""
        partition = self.runtime.partition_of(request.group_id)
        if partition.machine is None:
            return self._refusal(partition, request, caller.api_version)
        context = beating(caller)
        well = self.beat(partition, request, context)
        return self.runtime.ask_at_once(partition, request, context) if well is None else well

    def beat(self, partition: GroupPartition, request: Any, context: Context) -> object | None:
        """The answer to a heartbeat of either protocol from which nothing else follows; None: it is to be asked."""
        try:
            return self.runtime.beat(partition, request, context, waits_for_log=_waits_for_log(request))
        except Exception as problem:  # noqa: BLE001 - the daemon outlives one partition's groups
            return self.runtime.contradicted(partition, problem, request, context.api_version)

    def repeat(self, request: Any, response: Any, caller: Caller) -> Callable[[int], bool] | None:
        """A heartbeat of either protocol that was answered, for when it comes again: who tells whether the answer
        is the same again. None where it told of something new."""
        if type(response) not in _SAYS_SOMETHING_NEW or _SAYS_SOMETHING_NEW[type(response)](response):
            return None
        partition = self.runtime.partition_of(request.group_id)
        waits_for_log = _waits_for_log(request)
        return self.runtime.repeated_beat(
            partition, request, beating(caller), response, waits_for_log=waits_for_log
        )

    def handle(self, request: Any, caller: Caller) -> object:
        """SyncGroup, LeaveGroup, and whatever else names one group and is answered as the core answers it."""
        return self.answer(request, caller)

    def join(self, request: Any, caller: Caller, may_describe: Callable[[str], bool] | None = None) -> object:
        """JoinGroup, or the heartbeat of a member that may be new: one without an id may get one, which is random
        and therefore made here. In: see `Context`."""
        context = self.context(caller, "" if request.member_id else str(uuid4()), may_describe)
        return self.put(self.runtime.partition_of(request.group_id), request, context, caller)

    def answer(self, request: Any, caller: Caller, finish: Finish | None = None) -> object:
        """Puts a request to the partition of its group. Out: the answer for the client, or one of
        `coordinator.answers`."""
        partition = self.runtime.partition_of(request.group_id)
        asker: Asker = caller if finish is None else _Finishing(caller, finish)
        response = self.ask(partition, request, caller, asker)
        return response if finish is None or type(response) is Later else finish(response)

    def ask(self, partition: GroupPartition, request: Any, caller: Caller, asker: Asker) -> object | Later:
        """Puts a request to a partition; its response, or HELD or PARKED when the asker gets it later."""
        return self.put(partition, request, self.context(caller), asker)

    def context(
        self,
        caller: Caller,
        new_member_uuid: str = "",
        may_describe: Callable[[str], bool] | None = None,
    ) -> Context:
        """Of the request at hand."""
        return Context(
            self.runtime.next_waiter(),
            caller.api_version,
            caller.client_id,
            caller.client_host,
            new_member_uuid,
            connection_id=caller.connection_id,
            may_describe=may_describe,
        )

    def put(self, partition: GroupPartition, request: Any, context: Context, asker: Asker) -> object | Later:
        """The same for a request that is no longer at hand."""
        if partition.machine is None:
            return self._refusal(partition, request, context.api_version)
        return self.runtime.ask(partition, request, context, asker)

    def _refusal(self, partition: GroupPartition, request: Any, api_version: int) -> object:
        """The answer of a partition that is not in service."""
        if self.runtime.is_shut_down:
            return error_response(request, api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        error = error_before_lookup(request, api_version, self._config)
        if error is not ErrorCode.NONE:
            return error_response(request, api_version, error)
        if partition.state is PartitionState.LOADING:
            return error_response(request, api_version, loading_error(request))
        return error_response(request, api_version, ErrorCode.NOT_COORDINATOR)


class _Finishing:
    """A caller whose answer is finished before it is sent."""

    __slots__ = ("_caller", "_finish")

    def __init__(self, caller: Caller, finish: Finish) -> None:
        self._caller = caller
        self._finish = finish

    def answer_later(self, *, parks: bool) -> Slot:
        """Where the answer goes."""
        slot = self._caller.answer_later(parks=parks)
        guards, finish = slot.finish, self._finish
        slot.finish = finish if guards is None else lambda response: guards(finish(response))
        return slot


def beating(caller: Caller) -> Context:
    """Of a heartbeat, whose answer goes nowhere else."""
    return Context(
        0, caller.api_version, caller.client_id, caller.client_host, connection_id=caller.connection_id
    )


def _waits_for_log(request: object) -> bool:
    """A Heartbeat is answered whatever the log does."""
    return type(request) is not HeartbeatRequest
