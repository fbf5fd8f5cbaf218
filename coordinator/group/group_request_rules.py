"""One rule for each request: validation before lookup, its error response, and the event of a refusal."""

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.group.event_details import GenerationDiffers, MemberName, RefusalDetail, RefusedOffset
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_event_types import (
    CommitRefused,
    HeartbeatRefused,
    JoinRefused,
    MemberFenced,
    RequestRefused,
    SyncRefused,
)
from coordinator.group.group_interface import Group
from coordinator.group.group_requests import (
    CommandResult,
    EndTransaction,
    ExpiredOffsets,
    ExpireMember,
    ExpireOffsets,
    ExtendSessions,
    FetchOffsets,
    RepeatedCommit,
    ShiftDeadlines,
)
from protocol.error_codes import ErrorCode
from protocol.error_response import build_bare_error_response, build_error_entry, build_error_response
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchResponseGroup
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

SYNC_NAMES_PROTOCOL_VERSION: Final = 5
LOADING_IS_KNOWN_VERSION: Final = 2

# Access to an enumeration member costs more than the rest of a check.
NONE: Final = ErrorCode.NONE
INVALID_GROUP_ID: Final = ErrorCode.INVALID_GROUP_ID


# Validation before lookup


def check_group_id(request: Any) -> ErrorCode:
    """Require a group id. Only plain commits and fetches of offsets accept an empty one."""
    return NONE if request.group_id else INVALID_GROUP_ID


def check_join(request: JoinGroupRequest, config: GroupConfig) -> ErrorCode:
    """Require a group id, and a session timeout within the configured bounds."""
    shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    error = check_group_id(request)
    if error is NONE and not shortest <= request.session_timeout_ms <= longest:
        error = ErrorCode.INVALID_SESSION_TIMEOUT
    return error


def check_sync(request: SyncGroupRequest, api_version: int) -> ErrorCode:
    """Require a group id, and from v5 on the protocol (KIP-559)."""
    if api_version >= SYNC_NAMES_PROTOCOL_VERSION and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return check_group_id(request)


# Error responses


def build_join_error(error: ErrorCode, member_id: str, api_version: int) -> JoinGroupResponse:
    """Build the response of a refused JoinGroup. Its protocol name is null where the version allows it."""
    assert error is not NONE, member_id
    response: JoinGroupResponse = build_bare_error_response(JoinGroupRequest, api_version, error)
    response.member_id = member_id
    return response


def build_sync_error(error: ErrorCode) -> SyncGroupResponse:
    """Build the response of a refused SyncGroup, without a protocol and an assignment."""
    assert error is not NONE, "a refusal has an error"
    return SyncGroupResponse(error_code=error, assignment=b"")


def _build_txn_commit_error(
    request: TxnOffsetCommitRequest, version: int, error: ErrorCode
) -> TxnOffsetCommitResponse:
    """Build an error response. Replaces COORDINATOR_LOAD_IN_PROGRESS, which the oldest clients do not know."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_IS_KNOWN_VERSION:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    response: TxnOffsetCommitResponse = build_error_response(request, version, error)
    return response


def _build_fetch_error(request: FetchOffsets, version: int, error: ErrorCode) -> OffsetFetchResponseGroup:
    return build_error_entry(OffsetFetchResponseGroup, request.group, version, error)


class GroupRequestRule(Struct, frozen=True):
    """The rule for refusing one class of requests."""

    build_response: Callable[[Any, int, ErrorCode], object] = build_error_response
    """Called with the request, its API version and the error."""
    check: Callable[[Any, int, GroupConfig], ErrorCode] = lambda *_: NONE
    """Called with the request, its API version and the configuration; returns the error that holds for any
    group.
    """
    loading_error: ErrorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    event: Callable[..., RequestRefused] | None = None
    """The class of the event of a refusal; None for a refusal without an event."""
    operation: str = ""
    """Kafka's name of the request, if a group can fence its sender."""
    find_generation: Callable[[Any], int | None] = lambda _: None
    """Returns the generation in the request."""
    is_read_only: bool = False
    """Whether the request never writes records."""


GROUP_REQUEST_RULES: Final[Mapping[type[object], GroupRequestRule]] = {
    JoinGroupRequest: GroupRequestRule(
        lambda request, version, error: build_join_error(error, request.member_id, version),
        check=lambda request, _, config: check_join(request, config),
        event=JoinRefused,
        operation="join-group",
    ),
    SyncGroupRequest: GroupRequestRule(
        check=lambda request, version, _: check_sync(request, version),
        # Treated as a rebalance: clients before Kafka 2.4 expect no other error here.
        loading_error=ErrorCode.REBALANCE_IN_PROGRESS,
        event=SyncRefused,
        operation="sync-group",
        find_generation=attrgetter("generation_id"),
    ),
    HeartbeatRequest: GroupRequestRule(
        check=lambda request, *_: check_group_id(request),
        loading_error=NONE,  # members stay
        event=HeartbeatRefused,
        operation="heartbeat",
        find_generation=attrgetter("generation_id"),
        is_read_only=True,
    ),
    LeaveGroupRequest: GroupRequestRule(
        check=lambda request, *_: check_group_id(request), operation="leave-group"
    ),
    OffsetCommitRequest: GroupRequestRule(
        event=CommitRefused,
        operation="offset-commit",
        find_generation=attrgetter("generation_id_or_member_epoch"),
    ),
    RepeatedCommit: GroupRequestRule(
        lambda repeated, version, error: build_error_response(repeated.prepared.request, version, error)
    ),
    TxnOffsetCommitRequest: GroupRequestRule(
        _build_txn_commit_error,
        check=lambda request, *_: check_group_id(request),
        event=partial(CommitRefused, is_transactional=True),
        # Kafka swaps this name and that of a plain commit.
        operation="txn-offset-commit",
        find_generation=attrgetter("generation_id_or_member_epoch"),
    ),
    EndTransaction: GroupRequestRule(lambda _, __, error: error),
    FetchOffsets: GroupRequestRule(_build_fetch_error, is_read_only=True),
    OffsetDeleteRequest: GroupRequestRule(check=lambda request, *_: check_group_id(request)),
    ListGroupsRequest: GroupRequestRule(is_read_only=True),
    DescribeGroupsRequest: GroupRequestRule(is_read_only=True),
    ConsumerGroupHeartbeatRequest: GroupRequestRule(operation="consumer-group-heartbeat"),
    ConsumerGroupDescribeRequest: GroupRequestRule(is_read_only=True),
    DeleteGroupsRequest: GroupRequestRule(),
    ExpireMember: GroupRequestRule(lambda _, __, error: CommandResult(error)),
    ExtendSessions: GroupRequestRule(lambda _, __, error: CommandResult(error), is_read_only=True),
    ShiftDeadlines: GroupRequestRule(lambda _, __, error: CommandResult(error), is_read_only=True),
    ExpireOffsets: GroupRequestRule(lambda _, __, error: ExpiredOffsets(error)),
}


def build_group_error_response(request: object, api_version: int, error: ErrorCode) -> Any:
    """Build the response that reports an error for a request of the group coordinator, or for a part of one."""
    return GROUP_REQUEST_RULES[type(request)].build_response(request, api_version, error)


def find_error_before_lookup(request: object, api_version: int, config: GroupConfig) -> ErrorCode:
    """Return the error of a request that holds for any group, even while its partition is loading."""
    return GROUP_REQUEST_RULES[type(request)].check(request, api_version, config)


def is_read_only(request: object) -> bool:
    """Return whether a request never writes records, so that groupd can serve it while writes are impossible."""
    return GROUP_REQUEST_RULES[type(request)].is_read_only


def find_loading_error(request: object) -> ErrorCode:
    """Return the error of a request to a loading partition."""
    return GROUP_REQUEST_RULES[type(request)].loading_error


# Refusals by a group


def refuse_request(
    group: Group | None,
    request: Any,
    context: Context,
    error: ErrorCode,
    builder: OutcomeBuilder,
    detail: RefusalDetail | None = None,
    partitions: int | None = None,
    offsets: tuple[RefusedOffset, ...] = (),
) -> None:
    """Answer a request with an error, and add the event of the refusal."""
    builder.reply(context.waiter, build_group_error_response(request, context.api_version, error))
    add_refused_event(group, request, context, error, builder, detail, partitions, offsets)


def add_refused_event(
    group: Group | None,
    request: Any,
    context: Context,
    error: ErrorCode,
    builder: OutcomeBuilder,
    detail: RefusalDetail | None = None,
    partitions: int | None = None,
    offsets: tuple[RefusedOffset, ...] = (),
) -> None:
    """Add the event of a refusal, if the rule of the request class has one.

    Args:
        group: None if it does not exist or the check ran before the lookup.
        detail: details of the refusal; may be omitted for ILLEGAL_GENERATION.
        partitions: number of refused partitions, None for a request without partitions.
        offsets: some of the refused offsets.
    """
    rules = GROUP_REQUEST_RULES[type(request)]
    assert rules.event is not None, type(request)
    generation_id = rules.find_generation(request)
    sender = MemberName(request.member_id, request.group_instance_id, context.client_id, context.client_host)
    if group is not None and error is ErrorCode.FENCED_INSTANCE_ID:
        add_fenced_event(group, sender, type(request), builder)
    if group is not None and generation_id is not None and error is ErrorCode.ILLEGAL_GENERATION:
        detail = GenerationDiffers(generation_id, group.generation_id)
    builder.add_event(
        rules.event(
            request.group_id,
            generation_id,
            sender,
            error,
            "" if group is None else group.state_name,
            detail,
            partitions,
            offsets,
        )
    )


def add_fenced_event(
    group: Group, sender: MemberName, request: type[object], builder: OutcomeBuilder
) -> None:
    """Add the event that the sender's instance id belongs to another member. `request` is the class of its
    request.
    """
    assert sender.group_instance_id is not None, sender
    existing = group.find_static_member_id(sender.group_instance_id)
    assert existing is not None, sender
    operation = GROUP_REQUEST_RULES[request].operation
    assert operation, request
    builder.add_event(MemberFenced(group.group_id, group.generation_id, sender, existing, operation))
