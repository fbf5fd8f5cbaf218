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

# Looking a member of an enumeration up costs more than the rest of a check.
NONE: Final = ErrorCode.NONE
INVALID_GROUP_ID: Final = ErrorCode.INVALID_GROUP_ID


# Validation before lookup


def check_group_id(request: Any) -> ErrorCode:
    """A group has a name. Only plain commits and fetches of offsets know one without."""
    return NONE if request.group_id else INVALID_GROUP_ID


def check_join(request: JoinGroupRequest, config: GroupConfig) -> ErrorCode:
    """It names a group, and its session timeout is within the bounds that the configuration sets."""
    shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    error = check_group_id(request)
    if error is NONE and not shortest <= request.session_timeout_ms <= longest:
        error = ErrorCode.INVALID_SESSION_TIMEOUT
    return error


def check_sync(request: SyncGroupRequest, api_version: int) -> ErrorCode:
    """It names a group, and from v5 on the protocol that it is about (KIP-559)."""
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
    """Build an error response without COORDINATOR_LOAD_IN_PROGRESS, which the oldest clients do not know."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_IS_KNOWN_VERSION:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    response: TxnOffsetCommitResponse = build_error_response(request, version, error)
    return response


def _build_fetch_error(request: FetchOffsets, version: int, error: ErrorCode) -> OffsetFetchResponseGroup:
    return build_error_entry(OffsetFetchResponseGroup, request.group, version, error)


class GroupRequestRule(Struct, frozen=True):
    """What there is to know of the refusals of one class of requests."""

    build_response: Callable[[Any, int, ErrorCode], object] = build_error_response
    """Takes the request, its API version and the error."""
    check: Callable[[Any, int, GroupConfig], ErrorCode] = lambda *_: NONE
    """Takes the same, and the configuration: what is wrong with the request whatever the group."""
    loading_error: ErrorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    event: Callable[..., RequestRefused] | None = None
    """What a group tells when it refuses one; None when nobody is told."""
    operation: str = ""
    """Kafka's word for such a request, where a group can fence its sender."""
    find_generation: Callable[[Any], int | None] = lambda _: None
    """The generation in whose name it is sent."""
    is_read_only: bool = False
    """Whether no record ever comes of one."""


GROUP_REQUEST_RULES: Final[Mapping[type[object], GroupRequestRule]] = {
    JoinGroupRequest: GroupRequestRule(
        lambda request, version, error: build_join_error(error, request.member_id, version),
        check=lambda request, _, config: check_join(request, config),
        event=JoinRefused,
        operation="join-group",
    ),
    SyncGroupRequest: GroupRequestRule(
        check=lambda request, version, _: check_sync(request, version),
        # It looks like a rebalance: clients from before Kafka 2.4 do not expect anything else there.
        loading_error=ErrorCode.REBALANCE_IN_PROGRESS,
        event=SyncRefused,
        operation="sync-group",
        find_generation=attrgetter("generation_id"),
    ),
    HeartbeatRequest: GroupRequestRule(
        check=lambda request, *_: check_group_id(request),
        loading_error=NONE,  # so that members stay
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
    TxnOffsetCommitRequest: GroupRequestRule(
        _build_txn_commit_error,
        check=lambda request, *_: check_group_id(request),
        event=partial(CommitRefused, is_transactional=True),
        # Kafka swaps this word and that of a plain commit.
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
    """What is wrong with a request whatever the group: told even while its partition is loading."""
    return GROUP_REQUEST_RULES[type(request)].check(request, api_version, config)


def is_read_only(request: object) -> bool:
    """Whether no record ever comes of a request: it can be served while none can be written."""
    return GROUP_REQUEST_RULES[type(request)].is_read_only


def find_loading_error(request: object) -> ErrorCode:
    """What a request is told while its partition is loading."""
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
    """State that a group (None: there is none, or nobody looked) refuses a request of a class whose rules name an
    event. What there is to say beside ILLEGAL_GENERATION need not be given; `partitions` is how many of its
    partitions are refused, where it has any, and `offsets` some of them."""
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
    """State that the instance id of a sender is another member's. `request` is the class of what it sent."""
    assert sender.group_instance_id is not None, sender
    existing = group.find_static_member_id(sender.group_instance_id)
    assert existing is not None, sender
    operation = GROUP_REQUEST_RULES[request].operation
    assert operation, request
    builder.add_event(MemberFenced(group.group_id, group.generation_id, sender, existing, operation))
