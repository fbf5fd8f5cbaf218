"""Requests about many groups: split by partition, put together in the order of the request.

Source: Kafka's `GroupCoordinatorService.listGroups`, `describeGroups`, `deleteGroups`.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from coordinator.engine.partition import PartitionState
from coordinator.net.caller import Caller
from coordinator.net.run_queue import RunQueue
from coordinator.server.handlers.groups import GroupPartition, GroupRouter
from coordinator.server.handlers.merge import Combine, Merge
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

MOST_AT_ONCE: Final = 500
"""Groups that a partition is asked about before others are answered."""


class GroupAdmin:
    """Answers ListGroups, DescribeGroups, DeleteGroups."""

    def __init__(self, router: GroupRouter, run_queue: RunQueue) -> None:
        self._router = router
        self._run_queue = run_queue

    def _ask_all(
        self, parts: Iterable[tuple[GroupPartition, Any]], combine: Combine, caller: Caller
    ) -> object:
        merge = Merge(combine, self._run_queue, caller.api_version)
        asked = (partial(self._router.ask, partition, request, caller) for partition, request in parts)
        return merge.answer(asked, caller)

    def list_groups(self, request: ListGroupsRequest, caller: Caller) -> object:
        """The groups of every partition that is in service; an error while one is loading."""
        partitions = self._router.runtime.partitions
        if self._router.runtime.is_shut_down:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, groups=[])
        if any(partition.state is PartitionState.LOADING for partition in partitions):
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
        parts = [(partition, request) for partition in partitions if partition.machine is not None]
        return self._ask_all(parts, _combine_list, caller)

    def describe_groups(self, request: DescribeGroupsRequest, caller: Caller) -> object:
        """Each group as its partition describes it, in the order asked for."""

        def part(group_ids: list[str]) -> DescribeGroupsRequest:
            return DescribeGroupsRequest(
                groups=group_ids, include_authorized_operations=request.include_authorized_operations
            )

        def combine(responses: list[DescribeGroupsResponse]) -> DescribeGroupsResponse:
            described = [group for response in responses for group in response.groups]
            by_id = {group.group_id: group for group in described}
            return DescribeGroupsResponse(groups=[by_id[group_id] for group_id in request.groups])

        split = self._split(dict.fromkeys(request.groups))
        parts = [(partition, part(group_ids)) for partition, group_ids in split]
        return self._ask_all(parts, combine, caller)

    def delete_groups(self, request: DeleteGroupsRequest, caller: Caller) -> object:
        """Each group once, however often it was named."""
        group_ids = list(dict.fromkeys(request.groups_names))

        def combine(responses: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
            results = [result for response in responses for result in response.results]
            by_id = {result.group_id: result for result in results}
            return DeleteGroupsResponse(results=[by_id[group_id] for group_id in group_ids])

        parts = [
            (partition, DeleteGroupsRequest(groups_names=names))
            for partition, names in self._split(group_ids)
        ]
        return self._ask_all(parts, combine, caller)

    def _split(self, group_ids: Iterable[str]) -> list[tuple[GroupPartition, list[str]]]:
        by_partition: dict[int, list[str]] = {}
        runtime = self._router.runtime
        for group_id in group_ids:
            by_partition.setdefault(runtime.partition_of(group_id).number, []).append(group_id)
        return [
            (runtime.partitions[number], names[start : start + MOST_AT_ONCE])
            for number, names in by_partition.items()
            for start in range(0, len(names), MOST_AT_ONCE)
        ]


def _combine_list(lists: list[ListGroupsResponse]) -> ListGroupsResponse:
    error = next((answer.error_code for answer in lists if answer.error_code), int(ErrorCode.NONE))
    return ListGroupsResponse(error_code=error, groups=[group for answer in lists for group in answer.groups])
