"""Requests about many groups: split by partition, put together in the order of the request.

Source: Kafka's `GroupCoordinatorService.listGroups`, `describeGroups`, `deleteGroups`.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from coordinator.engine.partition import PartitionState
from coordinator.net.caller import Caller
from coordinator.net.run_queue import RunQueue
from coordinator.server.handlers.groups import GroupPartition, GroupRouter
from coordinator.server.handlers.merge import Combine, Combining, Merge
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

MOST_AT_ONCE: Final = 500
"""Groups that a partition is asked about before others are answered."""


class GroupAdmin:
    """Answers ListGroups, DescribeGroups, DeleteGroups."""

    def __init__(self, router: GroupRouter, run_queue: RunQueue) -> None:
        self._router = router
        self._run_queue = run_queue

    def ask_all(
        self, parts: Iterable[tuple[GroupPartition, Any] | None], combine: Combine, caller: Caller
    ) -> object:
        """Puts such a request to each of these partitions; None is a step on the way. Out: what the answers
        combine to, or one of `coordinator.answers`."""
        merge = Merge(combine, self._run_queue, caller.api_version)
        asked = (part and partial(self._router.ask, part[0], part[1], caller) for part in parts)
        return merge.answer(asked, caller)

    def list_groups(self, request: ListGroupsRequest, caller: Caller) -> object:
        """The groups of every partition that is in service; an error while one is loading."""
        partitions = self._router.partitions
        if self._router.runtime.is_shut_down:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, groups=[])
        if any(partition.state is PartitionState.LOADING for partition in partitions):
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
        parts = [(partition, request) for partition in partitions if partition.machine is not None]
        return self.ask_all(parts, _combine_list, caller)

    def describe_groups(self, request: DescribeGroupsRequest, caller: Caller) -> object:
        """Each group as its partition describes it, in the order asked for."""

        def part(group_ids: list[str]) -> DescribeGroupsRequest:
            return DescribeGroupsRequest(
                groups=group_ids, include_authorized_operations=request.include_authorized_operations
            )

        def combine(responses: list[DescribeGroupsResponse]) -> Combining:
            by_id: dict[str, DescribedGroup] = {}
            for response in responses:
                by_id.update((group.group_id, group) for group in response.groups)
                yield
            return DescribeGroupsResponse(groups=[by_id[group_id] for group_id in request.groups])

        return self.ask_all(self.split(dict.fromkeys(request.groups), part), combine, caller)

    def delete_groups(self, request: DeleteGroupsRequest, caller: Caller) -> object:
        """Each group once, however often it was named."""
        group_ids = list(dict.fromkeys(request.groups_names))

        def part(names: list[str]) -> DeleteGroupsRequest:
            return DeleteGroupsRequest(groups_names=names)

        def combine(responses: list[DeleteGroupsResponse]) -> Combining:
            by_id: dict[str, DeletableGroupResult] = {}
            for response in responses:
                by_id.update((result.group_id, result) for result in response.results)
                yield
            return DeleteGroupsResponse(results=[by_id[group_id] for group_id in group_ids])

        return self.ask_all(self.split(group_ids, part), combine, caller)

    def split(
        self, group_ids: Iterable[str], part: Callable[[list[str]], Any]
    ) -> Iterator[tuple[GroupPartition, Any] | None]:
        """Requests about so many groups each, by partition; None for a step on the way to them."""
        by_partition: dict[int, list[str]] = {}
        runtime = self._router.runtime
        for number, group_id in enumerate(group_ids, 1):
            by_partition.setdefault(runtime.partition_of(group_id).number, []).append(group_id)
            if number % MOST_AT_ONCE == 0:
                yield None
        for partition, names in by_partition.items():
            for start in range(0, len(names), MOST_AT_ONCE):
                yield runtime.partitions[partition], part(names[start : start + MOST_AT_ONCE])


def _combine_list(lists: list[ListGroupsResponse]) -> Combining:
    error = next((answer.error_code for answer in lists if answer.error_code), int(ErrorCode.NONE))
    groups = [group for answer in lists for group in answer.groups]
    yield
    return ListGroupsResponse(error_code=error, groups=groups)
