"""What may be done to one member: its session ended, it sent away, its connections closed."""

from coordinator.control.acts import Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.clock.clock_state import MemberDisconnected, MemberExpired, MemberRemoved
from coordinator.control.clock.clocks import Clocks
from coordinator.control.clock.happened import happening
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.groups.member_reference import find_member
from coordinator.control.member_connections import MemberConnections
from coordinator.control.problem import Problem, ProblemKind
from coordinator.group.consumer.state import ConsumerGroupState
from coordinator.group.member_name import MemberName
from coordinator.group.requests import Acted, ExpireMember
from coordinator.group.state import COMPLETING_REBALANCE, PREPARING_REBALANCE
from coordinator.group.view import GroupView
from coordinator.net.peer import printable
from coordinator.server.server import Server
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

_LEAVE_VERSION = 5
_UNDER_WAY = (
    COMPLETING_REBALANCE.value,
    ConsumerGroupState.ASSIGNING.value,
    ConsumerGroupState.RECONCILING.value,
)
"""The group has the number of the generation already."""


class MemberActs:
    """See the top of this file. Members are named by member id, instance id or client id. Every method raises
    Problem (no-such-group, no-such-member, ambiguous-member, loading)."""

    def __init__(
        self,
        server: Server,
        acts: Acts,
        asker: GroupAsker,
        connections: MemberConnections,
        clocks: Clocks,
        removals: GroupRemovals,
    ) -> None:
        self._events = server.group_events
        self._acts = acts
        self._asker = asker
        self._connections = connections
        self._clocks = clocks
        self._removals = removals

    async def expire(self, group_id: str, reference: str, actor: str | None) -> MemberExpired:
        """Ends the session of a member, or of somebody who has a member id and has not joined."""
        view = self._view(group_id)
        name = _found(view, reference)
        self._acts.note("member", f"expire {name.client_id} ({name.member_id})", group_id, actor)
        with happening(self._events, group_id) as happened:
            acted = await self._asker.ask(group_id, ExpireMember(group_id, name.member_id), 0)
        assert isinstance(acted, Acted)
        _check(group_id, name, acted.error)
        return MemberExpired(
            expired=name.member_id,
            client_id=name.client_id,
            rebalance=self._next_generation(group_id),
            seq=happened.last_seq,
        )

    async def remove(
        self, group_id: str, reference: str, reason: str | None, actor: str | None
    ) -> MemberRemoved:
        """Sends a member away, as Kafka's Admin does: with a LeaveGroup in its name."""
        view = self._view(group_id)
        name = _found(view, reference)
        self._acts.note("member", f"remove {name.client_id} ({name.member_id})", group_id, actor)
        identity = MemberIdentity(
            member_id=name.member_id, group_instance_id=name.group_instance_id, reason=reason
        )
        request = LeaveGroupRequest(group_id=group_id, members=[identity])
        with happening(self._events, group_id) as happened:
            answer = await self._asker.ask(group_id, request, _LEAVE_VERSION)
        assert isinstance(answer, LeaveGroupResponse)
        errors = [ErrorCode(member.error_code) for member in answer.members]
        _check(group_id, name, ErrorCode(answer.error_code) or errors[0])
        return MemberRemoved(
            removed=name.member_id,
            client_id=name.client_id,
            rebalance=self._next_generation(group_id),
            seq=happened.last_seq,
        )

    def disconnect(self, group_id: str, reference: str, actor: str | None) -> MemberDisconnected:
        """Closes the connections of a member, as a network does that breaks: without a word."""
        member = find_member(self._view(group_id), reference)
        name = member.name
        self._acts.note("member", f"disconnect {name.client_id} ({name.member_id})", group_id, actor)
        return MemberDisconnected(
            disconnected=name.member_id,
            client_id=name.client_id,
            connections=self._connections.close(group_id, [member]),
        )

    def _view(self, group_id: str) -> GroupView:
        self._asker.partition_of(group_id)
        view = self._clocks.view(group_id)
        if view is None:
            raise self._removals.no_such_group(group_id)
        return view

    def _next_generation(self, group_id: str) -> int | None:
        """The generation that a group is on the way to."""
        view = self._clocks.view(group_id)
        if view is None:
            return None
        if view.state == PREPARING_REBALANCE.value:
            return view.generation_id + 1
        return view.generation_id if view.state in _UNDER_WAY else None


def _found(view: GroupView, reference: str) -> MemberName:
    pending = [one.name for one in view.pending if reference == one.name.member_id]
    if pending:
        return pending[0]
    of_client = [one.name for one in view.pending if reference == one.name.client_id]
    taken = any(reference in (one.name.group_instance_id, one.name.client_id) for one in view.members)
    return of_client[0] if len(of_client) == 1 and not taken else find_member(view, reference).name


def _check(group_id: str, name: MemberName, error: ErrorCode) -> None:
    if error is ErrorCode.NONE:
        return
    who, group = printable(name.client_id), printable(group_id)
    if error is ErrorCode.UNKNOWN_MEMBER_ID:
        raise Problem(ProblemKind.NO_SUCH_MEMBER, f"{who} is gone", f"{who} has just left {group} by itself.")
    detail = f"The coordinator of {group} answered {error.name}."
    raise Problem(ProblemKind.REFUSED, f"refused: {error.name}", detail, {"error": error.name})
