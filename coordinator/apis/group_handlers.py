"""Handlers of group APIs: each request goes to the partition of its group.

Requests about several groups are split by partition, and their responses are combined in the order of the request.

- One group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat.
- Several groups: ListGroups, DescribeGroups, DeleteGroups, ConsumerGroupDescribe.

Source: Kafka's `KafkaApis`, `GroupCoordinatorService.listGroups`, `describeGroups`, `deleteGroups`,
`consumerGroupHeartbeat`, `consumerGroupDescribe`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias
from uuid import uuid4

from coordinator.apis.request_task import SendPart, gather_parts
from coordinator.config.properties import Config
from coordinator.core.outcome import Context
from coordinator.core.reply import DeferReply, TransformResponse, defer_mapped
from coordinator.core.response_status import DeferredResponse
from coordinator.core.time_budget import Budget
from coordinator.group.consumer.heartbeat_validation import validate_heartbeat
from coordinator.group.group_config import ConsumerGroupConfig, GroupConfig
from coordinator.group.group_request_rules import (
    build_group_error_response,
    find_error_before_lookup,
    find_loading_error,
)
from coordinator.group.group_shard import GroupShard
from coordinator.network.repeated_requests import AnsweredRequest, Repetition
from coordinator.network.request_context import RequestContext
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.runtime.runtime import Runtime
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_response
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

GroupPartition: TypeAlias = CoordinatorPartition[GroupShard]

MAX_GROUPS_PER_PART: Final = 500
"""Groups of one request to a partition. Other requests are answered after each one."""
MAX_HASHED_CHARACTERS: Final = 50_000
"""Characters of group ids that are hashed in one step: about 5 ms. An id has up to 32,767."""
CONSUMER_PROTOCOL: Final = "consumer"
"""The name of the protocol in `group.coordinator.rebalance.protocols`."""

_TELLS_CHANGE: Final[dict[type[object], Callable[[Any], bool]]] = {
    HeartbeatResponse: lambda response: response.error_code != ErrorCode.NONE,
    ConsumerGroupHeartbeatResponse: lambda response: (
        response.error_code != ErrorCode.NONE or response.assignment is not None
    ),
}
"""By class of response to a heartbeat: returns whether the response contains a change."""


class GroupRouter:
    """Finds the partition of a request, sends the request to it, and routes the response to the client."""

    def __init__(self, runtime: Runtime[GroupShard], config: GroupConfig) -> None:
        self.runtime = runtime
        self._config = config

    @property
    def partitions(self) -> Sequence[GroupPartition]:
        """Return the partitions that this broker coordinates."""
        return self.runtime.partitions

    def serves(self, partition: GroupPartition) -> bool:
        """Return whether this broker coordinates a partition that serves requests."""
        return partition.machine is not None

    # One group, one partition

    def handle_heartbeat(self, request: HeartbeatRequest, context: RequestContext) -> object:
        """Answer a Heartbeat, which waits neither for the group nor for the disk."""
        partition = self.runtime.find_partition(request.group_id)
        if partition.machine is None:
            return self._refuse_unavailable(partition, request, context.api_version)
        machine_context = create_heartbeat_context(context)
        response = self.try_heartbeat(partition, request, machine_context)
        return (
            self.runtime.execute_immediate_request(partition, request, machine_context)
            if response is None
            else response
        )

    def try_heartbeat(
        self, partition: GroupPartition, request: Any, machine_context: Context
    ) -> object | None:
        """Return the response to a heartbeat of either protocol without side effects. None: the heartbeat must be
        sent to the partition.
        """
        try:
            return self.runtime.try_heartbeat(
                partition, request, machine_context, waits_for_log=_waits_for_log(request)
            )
        except Exception as problem:  # noqa: BLE001 - the daemon outlives one partition's groups
            return self.runtime.on_internal_error(partition, problem, request, machine_context.api_version)

    def create_heartbeat_repetition(self, answered: AnsweredRequest) -> Repetition | None:
        """Create the repetition of a heartbeat of either protocol; None if its response contained a change."""
        request, response = answered.request, answered.response
        if type(response) not in _TELLS_CHANGE or _TELLS_CHANGE[type(response)](response):
            return None
        repeat = self.runtime.prepare_repeated_heartbeat(
            self.runtime.find_partition(request.group_id),
            request,
            create_heartbeat_context(answered.context),
            response,
            waits_for_log=_waits_for_log(request),
        )
        return Repetition(request, response, repeat)

    def handle(self, request: Any, context: RequestContext) -> object:
        """Answer SyncGroup, LeaveGroup, and other requests about one group. The core creates the final response."""
        return self.answer_request(request, context)

    def handle_join(
        self, request: Any, context: RequestContext, may_describe: Callable[[str], bool] | None = None
    ) -> object:
        """Answer a JoinGroup, or the heartbeat of a possibly new member. A member without an id may get a random
        one, which is generated here. `may_describe`: see `Context`.
        """
        machine_context = self.create_machine_context(
            context, "" if request.member_id else str(uuid4()), may_describe
        )
        partition = self.runtime.find_partition(request.group_id)
        return self.send_request(partition, request, machine_context, context.defer)

    def answer_request(
        self, request: Any, context: RequestContext, transform: TransformResponse | None = None
    ) -> object:
        """Send a request to the partition of its group.

        Args:
            transform: converts the group's response to the response for the client.

        Returns:
            The response for the client, or a value of `coordinator.core.response_status`.
        """
        partition = self.runtime.find_partition(request.group_id)
        if transform is None:
            return self.send_request(partition, request, self.create_machine_context(context), context.defer)
        defer = partial(defer_mapped, context.defer, transform)
        response = self.send_request(partition, request, self.create_machine_context(context), defer)
        return response if type(response) is DeferredResponse else transform(response)

    def ask_partition(
        self, partition: GroupPartition, request: Any, context: RequestContext, defer: DeferReply
    ) -> object | DeferredResponse:
        """Send a request to a partition. Return its response, or AWAITING_DISK or BLOCKED if the reply gets it
        later.
        """
        return self.send_request(partition, request, self.create_machine_context(context), defer)

    def create_machine_context(
        self,
        context: RequestContext,
        new_member_uuid: str = "",
        may_describe: Callable[[str], bool] | None = None,
    ) -> Context:
        """Create the context of a request for group shards."""
        client = context.client
        return Context(
            self.runtime.next_waiter(),
            context.api_version,
            client.client_id,
            client.host,
            new_member_uuid,
            connection_id=client.connection_id,
            may_describe=may_describe,
        )

    def send_request(
        self, partition: GroupPartition, request: Any, machine_context: Context, defer: DeferReply
    ) -> object | DeferredResponse:
        """Send a request to a partition in a given context."""
        if partition.machine is None:
            return self._refuse_unavailable(partition, request, machine_context.api_version)
        return self.runtime.execute_request(partition, request, machine_context, defer)

    def _refuse_unavailable(self, partition: GroupPartition, request: Any, api_version: int) -> object:
        """Build the error response of a partition that is not in service."""
        if self.runtime.is_shut_down:
            return build_group_error_response(request, api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        error = find_error_before_lookup(request, api_version, self._config)
        if error is not ErrorCode.NONE:
            return build_group_error_response(request, api_version, error)
        if partition.state is PartitionState.LOADING:
            return build_group_error_response(request, api_version, find_loading_error(request))
        return build_group_error_response(request, api_version, ErrorCode.NOT_COORDINATOR)


def create_heartbeat_context(context: RequestContext) -> Context:
    """Create the context of a heartbeat that is answered at once and so needs no waiter."""
    client = context.client
    return Context(0, context.api_version, client.client_id, client.host, connection_id=client.connection_id)


def _waits_for_log(request: object) -> bool:
    """Return whether a response waits for the log. Heartbeats do not."""
    return type(request) is not HeartbeatRequest


class GroupAdminHandler:
    """Answers ListGroups, DescribeGroups, DeleteGroups."""

    def __init__(self, router: GroupRouter) -> None:
        self._router = router

    async def list_groups(
        self, request: ListGroupsRequest, context: RequestContext, budget: Budget
    ) -> object:
        """List the groups of every partition that is in service; answer with an error while one is loading. A
        partition that is lost during the request is omitted, like one lost before.
        """
        if self._router.runtime.is_shut_down:
            return build_error_response(request, context.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        states = [partition.state for partition in self._router.partitions]
        if PartitionState.LOADING in states:
            return build_error_response(request, context.api_version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        groups: list[ListedGroup] = []
        for response in await gather_parts(self._iterate_lists(request, context), context, budget):
            if response.error_code:
                return build_error_response(request, context.api_version, ErrorCode(response.error_code))
            groups += response.groups
            await budget.checkpoint()
        return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)

    def _iterate_lists(self, request: ListGroupsRequest, context: RequestContext) -> Iterator[SendPart]:
        for partition in self._router.partitions:
            # A partition may have begun to load during the request: it answers with the error.
            if partition.machine is not None or partition.state is PartitionState.LOADING:
                yield partial(self._router.ask_partition, partition, request, context)

    async def describe_groups(
        self, request: DescribeGroupsRequest, context: RequestContext, budget: Budget
    ) -> object:
        """Describe each group, in the order of the request."""

        def create_part(group_ids: list[str]) -> DescribeGroupsRequest:
            return DescribeGroupsRequest(
                groups=group_ids, include_authorized_operations=request.include_authorized_operations
            )

        by_id: dict[str, DescribedGroup] = {}
        for response in await self.ask_about_groups(
            dict.fromkeys(request.groups), create_part, context, budget
        ):
            by_id.update((group.group_id, group) for group in response.groups)
            await budget.checkpoint()
        return DescribeGroupsResponse(groups=[by_id[group_id] for group_id in request.groups])

    async def delete_groups(
        self, request: DeleteGroupsRequest, context: RequestContext, budget: Budget
    ) -> object:
        """Delete each group once, however often the request names it."""
        group_ids = list(dict.fromkeys(request.groups_names))
        budget.begin_changes()

        def create_part(names: list[str]) -> DeleteGroupsRequest:
            return DeleteGroupsRequest(groups_names=names)

        by_id: dict[str, DeletableGroupResult] = {}
        for response in await self.ask_about_groups(group_ids, create_part, context, budget):
            by_id.update((result.group_id, result) for result in response.results)
            await budget.checkpoint()
        return DeleteGroupsResponse(results=[by_id[group_id] for group_id in group_ids])

    async def ask_about_groups(
        self,
        group_ids: Iterable[str],
        create_part: Callable[[list[str]], Any],
        context: RequestContext,
        budget: Budget,
    ) -> list[Any]:
        """Send requests about groups to their partitions. Return the responses.

        Args:
            group_ids: the groups, each once.
            create_part: creates the request about some groups of one partition, at most `MAX_GROUPS_PER_PART`.
        """
        runtime = self._router.runtime
        by_partition: dict[int, list[str]] = {}
        hashed_characters = 0
        for number, group_id in enumerate(group_ids, 1):
            by_partition.setdefault(runtime.find_partition(group_id).number, []).append(group_id)
            hashed_characters += len(group_id)
            if number % MAX_GROUPS_PER_PART == 0 or hashed_characters >= MAX_HASHED_CHARACTERS:
                hashed_characters = 0
                await budget.checkpoint()
        parts = (
            partial(
                self._router.ask_partition,
                runtime.partitions[partition],
                create_part(names[start : start + MAX_GROUPS_PER_PART]),
                context,
            )
            for partition, names in by_partition.items()
            for start in range(0, len(names), MAX_GROUPS_PER_PART)
        )
        return await gather_parts(parts, context, budget)


class ConsumerGroupHandler:
    """Answers ConsumerGroupHeartbeat and ConsumerGroupDescribe, with UNSUPPORTED_VERSION if the protocol is not
    enabled.
    """

    def __init__(self, router: GroupRouter, admin: GroupAdminHandler, config: Config) -> None:
        self._router = router
        self._admin = admin
        self._config = config.view(ConsumerGroupConfig)
        self._is_enabled = CONSUMER_PROTOCOL in config.group_coordinator_rebalance_protocols

    def handle_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        may_describe: Callable[[str], bool] | None = None,
    ) -> object:
        """Answer the heartbeat of a member. In v0 a member without an id may get one. `may_describe`: see
        `Context`.
        """
        if not self._is_enabled:
            return build_error_response(request, context.api_version, ErrorCode.UNSUPPORTED_VERSION)
        runtime = self._router.runtime
        partition = runtime.find_partition(request.group_id)
        response = self._router.try_heartbeat(partition, request, create_heartbeat_context(context))
        if response is not None:
            return response
        if not self._router.serves(partition) and not runtime.is_shut_down:
            refusal = validate_heartbeat(request, context.api_version, self._config)
            if refusal is not None:
                return build_error_response(request, context.api_version, refusal.error, refusal.message)
        return self._router.handle_join(request, context, may_describe)

    async def describe_groups(
        self, request: ConsumerGroupDescribeRequest, context: RequestContext, budget: Budget
    ) -> object:
        """Describe each group, in the order of the request."""
        if not self._is_enabled:
            return build_error_response(request, context.api_version, ErrorCode.UNSUPPORTED_VERSION)

        def create_part(group_ids: list[str]) -> ConsumerGroupDescribeRequest:
            return ConsumerGroupDescribeRequest(
                group_ids=group_ids, include_authorized_operations=request.include_authorized_operations
            )

        by_id: dict[str, ConsumerGroupDescribeResponseGroup] = {}
        for response in await self._admin.ask_about_groups(
            dict.fromkeys(request.group_ids), create_part, context, budget
        ):
            by_id.update((group.group_id, group) for group in response.groups)
            await budget.checkpoint()
        return ConsumerGroupDescribeResponse(groups=[by_id[group_id] for group_id in request.group_ids])
