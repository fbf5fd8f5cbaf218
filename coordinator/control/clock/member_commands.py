"""Commands about one member: end its session, remove it, close its connections."""

from coordinator.broker.services import Services
from coordinator.control.admin.group_operations import find_member
from coordinator.control.clock.clock_models import (
    MemberDisconnectResult,
    MemberExpiryResult,
    MemberRemovalResult,
)
from coordinator.control.clock.clock_registry import ClockRegistry
from coordinator.control.clock.event_capture import capture_events
from coordinator.control.group_client import InternalGroupClient
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.member_connections import MemberConnections
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import printable
from coordinator.group.classic.classic_state_machine import COMPLETING_REBALANCE, PREPARING_REBALANCE
from coordinator.group.consumer.durable_consumer_group import ConsumerGroupState
from coordinator.group.event_details import MemberName
from coordinator.group.group_requests import CommandResult, ExpireMember
from coordinator.group.group_view import GroupView
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

_LEAVE_VERSION = 5
_REBALANCING_STATES = (
    COMPLETING_REBALANCE.value,
    ConsumerGroupState.ASSIGNING.value,
    ConsumerGroupState.RECONCILING.value,
)
"""In these states the group already has the number of the new generation."""


class MemberCommands:
    """Commands about members, which are named by member id, instance id or client id.

    Every method raises Problem (no-such-group, no-such-member, ambiguous-member, loading).
    """

    def __init__(
        self,
        services: Services,
        actions: ActionLog,
        group_client: InternalGroupClient,
        connections: MemberConnections,
        clocks: ClockRegistry,
        removals: GroupRemovals,
    ) -> None:
        self._events = services.group_events
        self._actions = actions
        self._group_client = group_client
        self._connections = connections
        self._clocks = clocks
        self._removals = removals

    async def expire_member(self, group_id: str, reference: str, actor: str | None) -> MemberExpiryResult:
        """Expire the session of a member, or of a client with a member id that has not joined."""
        view = self._get_view(group_id)
        name = _find_name(view, reference)
        self._actions.record_action("member", f"expire {name.client_id} ({name.member_id})", group_id, actor)
        with capture_events(self._events, group_id) as capture:
            acted = await self._group_client.request(group_id, ExpireMember(group_id, name.member_id), 0)
        assert isinstance(acted, CommandResult)
        _raise_for_error(group_id, name, acted.error)
        return MemberExpiryResult(
            expired=name.member_id,
            client_id=name.client_id,
            rebalance=self._next_generation(group_id),
            seq=capture.last_seq,
        )

    async def remove_member(
        self, group_id: str, reference: str, reason: str | None, actor: str | None
    ) -> MemberRemovalResult:
        """Remove a member with a LeaveGroup request, as Kafka's Admin client does. Also raises Problem
        (refused)."""
        view = self._get_view(group_id)
        name = _find_name(view, reference)
        self._actions.record_action("member", f"remove {name.client_id} ({name.member_id})", group_id, actor)
        identity = MemberIdentity(
            member_id=name.member_id, group_instance_id=name.group_instance_id, reason=reason
        )
        request = LeaveGroupRequest(group_id=group_id, members=[identity])
        with capture_events(self._events, group_id) as capture:
            answer = await self._group_client.request(group_id, request, _LEAVE_VERSION)
        assert isinstance(answer, LeaveGroupResponse)
        errors = [ErrorCode(member.error_code) for member in answer.members]
        _raise_for_error(group_id, name, ErrorCode(answer.error_code) or errors[0])
        return MemberRemovalResult(
            removed=name.member_id,
            client_id=name.client_id,
            rebalance=self._next_generation(group_id),
            seq=capture.last_seq,
        )

    def disconnect_member(self, group_id: str, reference: str, actor: str | None) -> MemberDisconnectResult:
        """Close the connections of a member without a response, as a network failure does."""
        member = find_member(self._get_view(group_id), reference)
        name = member.name
        self._actions.record_action(
            "member", f"disconnect {name.client_id} ({name.member_id})", group_id, actor
        )
        return MemberDisconnectResult(
            disconnected=name.member_id,
            client_id=name.client_id,
            connections=self._connections.close_connections(group_id, [member]),
        )

    def _get_view(self, group_id: str) -> GroupView:
        self._group_client.find_partition(group_id)
        view = self._clocks.find_group(group_id)
        if view is None:
            raise self._removals.no_such_group(group_id)
        return view

    def _next_generation(self, group_id: str) -> int | None:
        """Return the generation that the current rebalance of a group leads to, or None without a rebalance."""
        view = self._clocks.find_group(group_id)
        if view is None:
            return None
        if view.state == PREPARING_REBALANCE.value:
            return view.generation_id + 1
        return view.generation_id if view.state in _REBALANCING_STATES else None


def _find_name(view: GroupView, reference: str) -> MemberName:
    pending = [one.name for one in view.pending if reference == one.name.member_id]
    if pending:
        return pending[0]
    of_client = [one.name for one in view.pending if reference == one.name.client_id]
    taken = any(reference in (one.name.group_instance_id, one.name.client_id) for one in view.members)
    return of_client[0] if len(of_client) == 1 and not taken else find_member(view, reference).name


def _raise_for_error(group_id: str, name: MemberName, error: ErrorCode) -> None:
    if error is ErrorCode.NONE:
        return
    who, group = printable(name.client_id), printable(group_id)
    if error is ErrorCode.UNKNOWN_MEMBER_ID:
        raise Problem(ProblemKind.NO_SUCH_MEMBER, f"{who} has left", f"{who} has just left {group}.")
    detail = f"The coordinator of {group} answered {error.name}."
    raise Problem(ProblemKind.REFUSED, f"refused: {error.name}", detail, {"error": error.name})
