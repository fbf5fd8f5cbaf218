"""Static members: a restarted process takes the place that its predecessor held (KIP-345, KIP-814).

A JoinGroup with a group instance id but no member id, when the instance is a member already, gives the
instance a new member id; the old one is fenced from then on. In a Stable group whose selected protocol
does not change by it, nothing else happens: no rebalance, the assignment goes on. That is what static
membership is for.
"""

from typing import Final

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.join_request import Join
from coordinator.group.classic.member import Member
from coordinator.group.classic.rebalance import maybe_complete_join_phase, prepare_rebalance
from coordinator.group.classic.record import group_metadata_record
from coordinator.group.classic.responses import join_success
from coordinator.group.classic.session import answer_parked, cancel_session, park_join, restart_session
from coordinator.group.events import RebalanceAvoided, StaticMemberReplaced
from coordinator.group.groups import Groups
from coordinator.group.rebalance_facts import RebalanceCause, Trigger
from coordinator.group.state import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode

SKIP_ASSIGNMENT_VERSION: Final = 9


def replace_static_member(
    groups: Groups, group: ClassicGroup, join: Join, new_member_id: str, turn: Turn
) -> None:
    """The known instance of `join` comes back without its member id and gets `new_member_id`."""
    instance_id = join.request.group_instance_id
    assert instance_id is not None, new_member_id
    old_leader_id = group.leader_id
    member = _replace(group, instance_id, new_member_id, join, turn)
    join.update(group, member)
    if group.state is STABLE and group.select_protocol() == group.protocol_name:
        _keep_generation(group, member, join, old_leader_id, turn)
        return
    park_join(group, member, join.context, turn)
    if group.state is PREPARING_REBALANCE:
        maybe_complete_join_phase(groups, group, turn)
        return
    assert group.state in (STABLE, COMPLETING_REBALANCE), group.state
    if group.state is STABLE:
        reason = (
            f"Group's selectedProtocol will change because static member {new_member_id} with instance id "
            f"{instance_id} joined with change of protocol; client reason: {join.reason}"
        )
    else:
        # The leader may be assigning to the old id at this moment; the new one would get nothing.
        reason = (
            f"Updating metadata for static member {new_member_id} with instance id {instance_id}; "
            f"client reason: {join.reason}"
        )
    actor = join.sender(new_member_id)
    trigger = Trigger(RebalanceCause.STATIC_MEMBER_REPLACED, reason, actor, join.client_reason)
    prepare_rebalance(groups, group, trigger, turn)


def _replace(group: ClassicGroup, instance_id: str, new_member_id: str, join: Join, turn: Turn) -> Member:
    old = group.members[group.static_members[instance_id]]
    turn.tell(
        StaticMemberReplaced(
            group.group_id,
            group.generation_id,
            join.sender(new_member_id),
            old.member_id,
            group.state.value,
        )
    )
    answer_parked(group, old, ErrorCode.FENCED_INSTANCE_ID, old.member_id, turn)
    cancel_session(group, old, turn)
    new = Member(
        new_member_id,
        instance_id,
        old.client_id,
        old.client_host,
        old.session_timeout_ms,
        old.rebalance_timeout_ms,
        old.protocols,
        old.assignment,
    )
    new.settled_assignment = old.settled_assignment
    group.replace(old, new)
    restart_session(group, new, turn)
    return new


def _keep_generation(
    group: ClassicGroup, member: Member, join: Join, old_leader_id: str | None, turn: Turn
) -> None:
    assert group.leader_id is not None, group.group_id
    assert old_leader_id is not None, group.group_id
    assert member.group_instance_id is not None, member.member_id
    turn.write(group_metadata_record(group))
    turn.tell(RebalanceAvoided(group.group_id, group.generation_id, join.sender(member.member_id)))
    if join.context.api_version >= SKIP_ASSIGNMENT_VERSION:
        leads = member.member_id == group.leader_id
        response = join_success(
            group, member.member_id, with_members=leads, leader=group.leader_id, skip_assignment=leads
        )
    else:
        # An older leader would assign anew if it knew that it led. Told its former id, it follows.
        response = join_success(group, member.member_id, with_members=False, leader=old_leader_id)
    turn.reply(join.context.waiter, response)
