"""Refused requests: what is wrong with one whatever the group, which response says so, and how it is told.

`RULES` has one entry for each request that a group's coordinator takes. The handlers use it, and so does the shell
for requests that it cannot put to a group, because their partition is being read or is not here.

Source: `getErrorResponse` of Kafka's request classes; the checks at the entry of its `GroupCoordinatorService`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final, Protocol

from coordinator.group.classic.responses import join_error, sync_error
from coordinator.group.config import GroupConfig
from coordinator.group.events import (
    CommitRefused,
    HeartbeatRefused,
    JoinRefused,
    MemberFenced,
    Refused,
    SyncRefused,
)
from coordinator.group.member_name import MemberName
from coordinator.group.offsets.commit_form import IN_TRANSACTION, PLAIN, commit_error
from coordinator.group.refusal_facts import GenerationDiffers, RefusalDetail, RefusedOffset
from coordinator.group.requests import (
    Acted,
    EndTransaction,
    ExpireMember,
    ExpireOffsets,
    FetchOffsets,
    KeepAlive,
    MoveTimes,
    OffsetsGone,
)
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
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
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.offset_fetch import OffsetFetchResponseGroup
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

SYNC_NAMES_PROTOCOL_VERSION: Final = 5
LOADING_IS_KNOWN_VERSION: Final = 2

# Looking a member of an enumeration up costs more than the rest of a check.
NONE: Final = ErrorCode.NONE
INVALID_GROUP_ID: Final = ErrorCode.INVALID_GROUP_ID


# What is wrong whatever the group


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


# Which response says an error


def _txn_commit_error(request: TxnOffsetCommitRequest, version: int, error: ErrorCode) -> object:
    """The oldest clients take a partition that is loading for one that is elsewhere."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_IS_KNOWN_VERSION:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return commit_error(IN_TRANSACTION, request, error)


def _fetch_error(request: FetchOffsets, error: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=request.group.group_id, topics=[], error_code=error)


def _describe_error(request: DescribeGroupsRequest, error: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[
            DescribedGroup(
                error_code=error,
                error_message=None,
                group_id=group_id,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=[],
            )
            for group_id in request.groups
        ]
    )


def _consumer_describe_error(
    request: ConsumerGroupDescribeRequest, error: ErrorCode
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[
            ConsumerGroupDescribeResponseGroup(error_code=error, group_id=group_id)
            for group_id in request.group_ids
        ]
    )


def _delete_error(request: DeleteGroupsRequest, error: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id in dict.fromkeys(request.groups_names)
        ]
    )


@dataclass(frozen=True, slots=True)
class Rules:
    """What there is to know of the refusals of one class of requests."""

    response: Callable[[Any, int, ErrorCode], object]
    """Takes the request and its api version; says the error wherever there is room for it."""
    check: Callable[[Any, int, GroupConfig], ErrorCode] = lambda *_: NONE
    """Takes the same, and the configuration: what is wrong with the request whatever the group."""
    while_loading: ErrorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    event: Callable[..., Refused] | None = None
    """What a group tells when it refuses one; None when nobody is told."""
    operation: str = ""
    """Kafka's word for such a request, where a group can fence its sender."""
    generation_of: Callable[[Any], int | None] = lambda _: None
    """The generation in whose name it is sent."""
    only_reads: bool = False
    """Whether no record ever comes of one."""


RULES: Final[Mapping[type[object], Rules]] = {
    JoinGroupRequest: Rules(
        lambda request, version, error: join_error(error, request.member_id, version),
        check=lambda request, _, config: check_join(request, config),
        event=JoinRefused,
        operation="join-group",
    ),
    SyncGroupRequest: Rules(
        lambda _, __, error: sync_error(error),
        check=lambda request, version, _: check_sync(request, version),
        # It looks like a rebalance: clients from before Kafka 2.4 do not expect anything else there.
        while_loading=ErrorCode.REBALANCE_IN_PROGRESS,
        event=SyncRefused,
        operation="sync-group",
        generation_of=attrgetter("generation_id"),
    ),
    HeartbeatRequest: Rules(
        lambda _, __, error: HeartbeatResponse(error_code=error),
        check=lambda request, *_: check_group_id(request),
        while_loading=NONE,  # so that members stay
        event=HeartbeatRefused,
        operation="heartbeat",
        generation_of=attrgetter("generation_id"),
        only_reads=True,
    ),
    LeaveGroupRequest: Rules(
        lambda _, __, error: LeaveGroupResponse(error_code=error),
        check=lambda request, *_: check_group_id(request),
        operation="leave-group",
    ),
    OffsetCommitRequest: Rules(
        lambda request, _, error: commit_error(PLAIN, request, error),
        event=CommitRefused,
        operation="offset-commit",
        generation_of=attrgetter("generation_id_or_member_epoch"),
    ),
    TxnOffsetCommitRequest: Rules(
        _txn_commit_error,
        check=lambda request, *_: check_group_id(request),
        event=partial(CommitRefused, is_transactional=True),
        # Kafka swaps this word and that of a plain commit.
        operation="txn-offset-commit",
        generation_of=attrgetter("generation_id_or_member_epoch"),
    ),
    EndTransaction: Rules(lambda _, __, error: error),
    FetchOffsets: Rules(lambda request, _, error: _fetch_error(request, error), only_reads=True),
    OffsetDeleteRequest: Rules(
        lambda _, __, error: OffsetDeleteResponse(error_code=error),
        check=lambda request, *_: check_group_id(request),
    ),
    ListGroupsRequest: Rules(
        lambda _, __, error: ListGroupsResponse(error_code=error, groups=[]), only_reads=True
    ),
    DescribeGroupsRequest: Rules(lambda request, _, error: _describe_error(request, error), only_reads=True),
    ConsumerGroupHeartbeatRequest: Rules(
        lambda _, __, error: ConsumerGroupHeartbeatResponse(error_code=error),
        operation="consumer-group-heartbeat",
    ),
    ConsumerGroupDescribeRequest: Rules(
        lambda request, _, error: _consumer_describe_error(request, error), only_reads=True
    ),
    DeleteGroupsRequest: Rules(lambda request, _, error: _delete_error(request, error)),
    ExpireMember: Rules(lambda _, __, error: Acted(error)),
    KeepAlive: Rules(lambda _, __, error: Acted(error), only_reads=True),
    MoveTimes: Rules(lambda _, __, error: Acted(error), only_reads=True),
    ExpireOffsets: Rules(lambda _, __, error: OffsetsGone(error)),
}


def error_response(request: object, api_version: int, error: ErrorCode) -> Any:
    """The response to `request` (one of the core's) that says `error` wherever there is room for it."""
    return RULES[type(request)].response(request, api_version, error)


def error_before_lookup(request: object, api_version: int, config: GroupConfig) -> ErrorCode:
    """What is wrong with a request whatever the group: told even while its partition is loading."""
    return RULES[type(request)].check(request, api_version, config)


def only_reads(request: object) -> bool:
    """Whether no record ever comes of a request: it can be served while none can be written."""
    return RULES[type(request)].only_reads


def loading_error(request: object) -> ErrorCode:
    """What a request is told while its partition is loading."""
    return RULES[type(request)].while_loading


# A group refuses


class Refusing(Protocol):
    """What is told of a group that refuses something."""

    @property
    def group_id(self) -> str:
        """Its name."""

    @property
    def generation_id(self) -> int:
        """Its generation, or its epoch where it has those."""

    @property
    def state_name(self) -> str:
        """Its state, as ListGroups and DescribeGroups call it."""

    def holder_of(self, group_instance_id: str) -> str | None:
        """The id of the member that has this instance id; None when there is none."""


def refuse(
    group: Refusing | None,
    request: Any,
    context: Context,
    error: ErrorCode,
    turn: Turn,
    detail: RefusalDetail | None = None,
    partitions: int | None = None,
    offsets: tuple[RefusedOffset, ...] = (),
) -> None:
    """Answer a request with an error, and tell of it: see `tell_refusal`."""
    turn.reply(context.waiter, error_response(request, context.api_version, error))
    tell_refusal(group, request, context, error, turn, detail, partitions, offsets)


def tell_refusal(
    group: Refusing | None,
    request: Any,
    context: Context,
    error: ErrorCode,
    turn: Turn,
    detail: RefusalDetail | None = None,
    partitions: int | None = None,
    offsets: tuple[RefusedOffset, ...] = (),
) -> None:
    """State that a group (None: there is none, or nobody looked) refuses a request of a class whose rules name an
    event. What there is to say beside ILLEGAL_GENERATION need not be given; `partitions` is how many of its
    partitions are refused, where it has any, and `offsets` some of them."""
    rules = RULES[type(request)]
    assert rules.event is not None, type(request)
    generation_id = rules.generation_of(request)
    sender = MemberName(request.member_id, request.group_instance_id, context.client_id, context.client_host)
    if group is not None and error is ErrorCode.FENCED_INSTANCE_ID:
        tell_fenced(group, sender, type(request), turn)
    if group is not None and generation_id is not None and error is ErrorCode.ILLEGAL_GENERATION:
        detail = GenerationDiffers(generation_id, group.generation_id)
    turn.tell(
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


def tell_fenced(group: Refusing, sender: MemberName, request: type[object], turn: Turn) -> None:
    """State that the instance id of a sender is another member's. `request` is the class of what it sent."""
    assert sender.group_instance_id is not None, sender
    existing = group.holder_of(sender.group_instance_id)
    assert existing is not None, sender
    operation = RULES[request].operation
    assert operation, request
    turn.tell(MemberFenced(group.group_id, group.generation_id, sender, existing, operation))
