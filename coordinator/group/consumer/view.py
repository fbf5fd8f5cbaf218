"""A consumer group as values: see `coordinator/group/view.py`."""

from collections.abc import Iterable, Mapping

from coordinator.group.consumer.group import ConsumerGroup, Session
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.group_type import GroupType
from coordinator.group.topics_image import TopicsImage
from coordinator.group.view import ConsumerMemberView, GroupView, MemberView


def view_of(group: ConsumerGroup, now_ms: int, topics: TopicsImage) -> GroupView:
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
                _member(group, member, group.sessions[member.member_id], now_ms, topics)
                for member in durable.members.values()
            ]
        ),
        pending=(),
        rebalance=None,
        assignment_epoch=durable.assignment_epoch,
    )


def _member(
    group: ConsumerGroup, member: ConsumerMember, session: Session, now_ms: int, topics: TopicsImage
) -> MemberView:
    matched = group.durable.regexes.get(member.subscribed_topic_regex)
    return MemberView(
        name=member.name,
        connection_id=session.connection_id,
        session_timeout_ms=session.timeout_ms,
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
            topics=frozenset(member.subscribed_topic_names) | frozenset(matched.topics if matched else ()),
            assigned=_by_topic(member.assigned, topics),
            pending=_by_topic(member.pending, topics),
            target=_by_topic(group.durable.target_of(member.member_id), topics),
            revokes_left_ms=None if session.rebalance_ms is None else max(0, session.rebalance_ms - now_ms),
        ),
    )


def _by_topic(partitions: Mapping[bytes, Iterable[int]], topics: TopicsImage) -> dict[str, tuple[int, ...]]:
    return {
        topics.by_id[topic_id].name: tuple(sorted(of_topic))
        for topic_id, of_topic in partitions.items()
        if topic_id in topics.by_id
    }
