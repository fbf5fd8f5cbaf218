"""A consumer group as values: see `coordinator/group/view.py`."""

from coordinator.group.consumer.group import ConsumerGroup, Session
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.group_type import GroupType
from coordinator.group.view import ConsumerMemberView, GroupView, MemberView


def view_of(group: ConsumerGroup, now_ms: int) -> GroupView:
    """The group at a monotonic time."""
    durable = group.durable
    return GroupView(
        group_id=group.group_id,
        type=GroupType.CONSUMER,
        state=group.state_name,
        state_since_ms=None,
        generation_id=durable.epoch,
        protocol_type="consumer",
        protocol_name=None,
        leader_id=None,
        members=tuple(
            [
                _member(group, member, group.sessions[member.member_id], now_ms)
                for member in durable.members.values()
            ]
        ),
        pending=(),
        rebalance=None,
        assignment_epoch=durable.assignment_epoch,
    )


def _member(group: ConsumerGroup, member: ConsumerMember, session: Session, now_ms: int) -> MemberView:
    return MemberView(
        name=member.name,
        connection_id=session.connection_id,
        session_timeout_ms=session.deadline_ms - session.heard_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        silent_ms=max(0, now_ms - session.heard_ms),
        session_left_ms=max(0, session.deadline_ms - now_ms),
        is_new=False,
        is_awaiting_join=False,
        is_awaiting_sync=False,
        protocols=(),
        metadata=b"",
        assignment=b"",
        consumer=ConsumerMemberView(
            member_epoch=member.member_epoch,
            state=member.state.name,
            uses_classic_protocol=member.uses_classic_protocol,
            subscribed_topic_names=tuple(sorted(member.subscribed_topic_names)),
            subscribed_topic_regex=member.subscribed_topic_regex,
            assigned={topic_id: tuple(sorted(of_topic)) for topic_id, of_topic in member.assigned.items()},
            pending={topic_id: tuple(sorted(of_topic)) for topic_id, of_topic in member.pending.items()},
            target={
                topic_id: tuple(sorted(of_topic))
                for topic_id, of_topic in group.durable.target_of(member.member_id).items()
            },
            revokes_left_ms=None if session.rebalance_ms is None else max(0, session.rebalance_ms - now_ms),
        ),
    )
