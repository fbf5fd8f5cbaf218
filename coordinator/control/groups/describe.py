"""Groups described: from what the core shows of one, and what the connections tell of its members."""

from coordinator.control.groups.description import (
    AwaitedDescription,
    ConsumerMemberDescription,
    GroupDescription,
    GroupSummary,
    MemberDescription,
    PendingMemberDescription,
    RebalanceDescription,
)
from coordinator.control.groups.partitions_of import assignment_of, subscription_of, unowned_of
from coordinator.control.member_connections import Seen
from coordinator.group.rebalance_facts import AwaitedRequest
from coordinator.group.state import ClassicGroupState
from coordinator.group.topics_image import TopicsImage
from coordinator.group.view import ConsumerMemberView, GroupView, MemberView, RebalanceView


def summarize(view: GroupView) -> GroupSummary:
    """A group in a list."""
    return GroupSummary(
        group_id=view.group_id,
        type=view.type.value,
        state=view.state,
        protocol_type=view.protocol_type,
        generation_id=view.generation_id,
        members=len(view.members),
    )


def describe_member(view: GroupView, member: MemberView, seen: Seen) -> MemberDescription:
    """One member of a group."""
    awaits = None
    if member.is_awaiting_join:
        awaits = AwaitedRequest.JOIN.value
    elif member.is_awaiting_sync:
        awaits = AwaitedRequest.SYNC.value
    return MemberDescription(
        member_id=member.name.member_id,
        group_instance_id=member.name.group_instance_id,
        client_id=member.name.client_id,
        client_host=member.name.client_host,
        is_leader=member.name.member_id == view.leader_id,
        is_connected=seen.is_connected(member),
        connection_closed_ms_ago=seen.closed_ms_ago(member),
        silent_ms=member.silent_ms,
        session_left_ms=member.session_left_ms,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        awaits=awaits,
        protocols=list(member.protocols),
        subscription=subscription_of(view, member),
        assignment=assignment_of(view, member),
        consumer=None if member.consumer is None else _consumer(member.consumer),
    )


def _consumer(member: ConsumerMemberView) -> ConsumerMemberDescription:
    return ConsumerMemberDescription(
        member_epoch=member.member_epoch,
        state=member.state,
        uses_classic_protocol=member.uses_classic_protocol,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        revoking={topic: list(numbers) for topic, numbers in sorted(member.pending.items())},
        revokes_left_ms=member.revokes_left_ms,
        target={topic: list(numbers) for topic, numbers in sorted(member.target.items())},
    )


def describe(
    view: GroupView,
    seen: Seen,
    topics: TopicsImage,
    offsets_partition: int,
    members: list[MemberDescription] | None = None,
) -> GroupDescription:
    """A group. In: what its connections tell; the topics as they are; the number of its offsets partition; its
    members where they were described already."""
    if members is None:
        members = [describe_member(view, member, seen) for member in view.members]
    unowned = {}
    is_read = all(
        described.assignment is not None or not member.assignment
        for member, described in zip(view.members, members, strict=True)
    )
    if view.state == ClassicGroupState.STABLE.value and is_read:
        unowned = unowned_of(
            (member.subscription for member in members), (member.assignment for member in members), topics
        )
    return GroupDescription(
        group_id=view.group_id,
        type=view.type.value,
        state=view.state,
        state_since_ms=view.state_since_ms,
        generation_id=view.generation_id,
        protocol_type=view.protocol_type,
        protocol_name=view.protocol_name,
        leader=view.leader_id,
        offsets_partition=offsets_partition,
        members=members,
        pending=[
            PendingMemberDescription(
                member_id=pending.name.member_id,
                client_id=pending.name.client_id,
                client_host=pending.name.client_host,
                since_ms=pending.since_ms,
                left_ms=pending.left_ms,
            )
            for pending in view.pending
        ],
        rebalance=None if view.rebalance is None else _rebalance(view, view.rebalance, seen),
        unowned=unowned,
        assignment_epoch=view.assignment_epoch,
    )


def _rebalance(view: GroupView, rebalance: RebalanceView, seen: Seen) -> RebalanceDescription:
    connected = {member.name.member_id for member in view.members if seen.is_connected(member)}
    trigger = rebalance.trigger
    return RebalanceDescription(
        cause=trigger.cause.value,
        reason=trigger.reason,
        actor=None if trigger.actor is None else trigger.actor.member_id,
        attempts=rebalance.attempts,
        from_state=rebalance.from_state,
        open_ms=rebalance.open_ms,
        phase_ms=rebalance.phase_ms,
        left_ms=rebalance.left_ms,
        is_initial=rebalance.is_initial,
        awaited=[
            AwaitedDescription(
                member_id=awaited.member.member_id,
                client_id=awaited.member.client_id,
                request=awaited.request.value,
                silent_ms=awaited.silent_ms,
                session_left_ms=awaited.session_left_ms,
                left_ms=awaited.left_ms,
                is_connected=awaited.member.member_id in connected,
            )
            for awaited in rebalance.awaited
        ],
    )
