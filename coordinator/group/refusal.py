"""The response that says one error, for every request that a group's coordinator takes.

Source: `getErrorResponse` of Kafka's request classes.
"""

from typing import Any, Final

from coordinator.group.config import GroupConfig
from coordinator.group.requests import FetchOffsets
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.offset_fetch import OffsetFetchResponseGroup
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_NULLABLE_SINCE: Final = 7
_SYNC_NAMES_PROTOCOL_SINCE: Final = 5


def error_response(request: object, api_version: int, error: ErrorCode) -> Any:
    """The response to `request` (one of the core's) that says `error` wherever there is room for it."""
    match request:
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=error)
        case JoinGroupRequest():
            return JoinGroupResponse(
                error_code=error,
                protocol_name=None if api_version >= _PROTOCOL_NULLABLE_SINCE else "",
                leader="",
                member_id=request.member_id,
            )
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=error, assignment=b"")
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=error)
        case OffsetCommitRequest():
            return commit_error(request, error)
        case FetchOffsets():
            return OffsetFetchResponseGroup(group_id=request.group.group_id, topics=[], error_code=error)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=error)
        case ListGroupsRequest():
            return ListGroupsResponse(error_code=error, groups=[])
        case DescribeGroupsRequest():
            return DescribeGroupsResponse(groups=[_described(group_id, error) for group_id in request.groups])
        case DeleteGroupsRequest():
            return DeleteGroupsResponse(
                results=[
                    DeletableGroupResult(group_id=group_id, error_code=error)
                    for group_id in dict.fromkeys(request.groups_names)
                ]
            )
        case _:
            raise AssertionError(f"{type(request).__name__} is no request to a group coordinator")


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The response to a commit that says one error of each of its partitions."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _described(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        error_message=None,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )


def error_before_lookup(request: object, api_version: int, config: GroupConfig) -> ErrorCode:
    """What is wrong with a request whatever the group: told even while its partition is loading.

    Source: the checks at the entry of Kafka's `GroupCoordinatorService`.
    """
    if (
        isinstance(request, SyncGroupRequest)
        and api_version >= _SYNC_NAMES_PROTOCOL_SINCE
        and (request.protocol_type is None or request.protocol_name is None)
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if (
        isinstance(
            request,
            JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest | OffsetDeleteRequest,
        )
        and not request.group_id
    ):
        return ErrorCode.INVALID_GROUP_ID
    if isinstance(request, JoinGroupRequest):
        shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def loading_error(request: object) -> ErrorCode:
    """What a request is told while its partition is loading.

    A heartbeat is fine, so that members stay; SyncGroup looks like a rebalance, since clients from before Kafka
    2.4 do not expect anything else there.
    """
    if isinstance(request, HeartbeatRequest):
        return ErrorCode.NONE
    if isinstance(request, SyncGroupRequest):
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
