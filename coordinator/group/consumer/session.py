"""How long a member may be silent, and how long it may take to give partitions up: its two timers. A member of the
classic protocol has two others, for joining again and for asking for its assignment.

A heartbeat only moves the deadline of the session; the timer outside is left where it is, and set anew when it
fires too early. Source: Kafka's GroupMetadataManager, scheduleConsumerGroupSessionTimeout,
scheduleConsumerGroupRebalanceTimeout, scheduleConsumerGroupJoinTimeoutIfAbsent, scheduleConsumerGroupSyncTimeout.
"""

from coordinator.group.consumer.group import ConsumerGroup, Session
from coordinator.group.consumer.member import ConsumerMember, MemberState
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.machine.turn import Turn


def session_key(group: ConsumerGroup, member_id: str) -> TimerKey:
    """The timer of a member's session."""
    return TimerKey(TimerKind.CONSUMER_SESSION, group.group_id, member_id)


def rebalance_key(group: ConsumerGroup, member_id: str) -> TimerKey:
    """The timer of a member that has to give partitions up."""
    return TimerKey(TimerKind.CONSUMER_REBALANCE, group.group_id, member_id)


def join_key(group: ConsumerGroup, member_id: str) -> TimerKey:
    """The timer of a member of the classic protocol that has to join again."""
    return TimerKey(TimerKind.CLASSIC_MEMBER_JOIN, group.group_id, member_id)


def sync_key(group: ConsumerGroup, member_id: str) -> TimerKey:
    """The timer of a member of the classic protocol that has to ask for its assignment."""
    return TimerKey(TimerKind.CLASSIC_MEMBER_SYNC, group.group_id, member_id)


def restart_session(
    group: ConsumerGroup, member_id: str, timeout_ms: int, connection_id: int, turn: Turn
) -> None:
    """A member was heard: its session lasts so long from now on."""
    now_ms = turn.now.monotonic_ms
    session = group.sessions.get(member_id)
    if session is None:
        session = group.sessions[member_id] = Session(now_ms, now_ms)
    if not extend_session(session, timeout_ms, connection_id, now_ms):
        session.timer_ms = now_ms + timeout_ms
        turn.arm(session_key(group, member_id), session.timer_ms)
        extend_session(session, timeout_ms, connection_id, now_ms)


def extend_session(session: Session, timeout_ms: int, connection_id: int, monotonic_ms: int) -> bool:
    """The same where the timer outside can stay as it is; whether it can. If not, nothing has changed."""
    deadline_ms = monotonic_ms + timeout_ms
    if session.timer_ms is None or session.timer_ms > deadline_ms:
        return False
    session.heard_ms, session.deadline_ms, session.timeout_ms = monotonic_ms, deadline_ms, timeout_ms
    session.connection_id = connection_id or session.connection_id
    return True


def start_classic_sessions(group: ConsumerGroup, turn: Turn) -> None:
    """Members of the classic protocol came with their group: they have the sessions that they joined with."""
    for member in group.durable.members.values():
        if member.classic is not None and member.member_id not in group.sessions:
            restart_session(group, member.member_id, member.classic.session_timeout_ms, 0, turn)


def watch_revocation(group: ConsumerGroup, member: ConsumerMember, turn: Turn) -> None:
    """A member was told where it stands: one that has to give partitions up has its rebalance timeout for that,
    from now on."""
    session = group.sessions[member.member_id]
    if member.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
        await_revocation(group, member, turn)
    elif session.rebalance_ms is not None:
        session.rebalance_ms = None
        turn.cancel(rebalance_key(group, member.member_id))


def await_revocation(group: ConsumerGroup, member: ConsumerMember, turn: Turn) -> None:
    """A member has its rebalance timeout to leave the epoch that it is in."""
    session = group.sessions[member.member_id]
    session.rebalance_epoch = member.member_epoch
    session.rebalance_timeout_ms = member.rebalance_timeout_ms
    session.rebalance_ms = turn.now.monotonic_ms + member.rebalance_timeout_ms
    turn.arm(rebalance_key(group, member.member_id), session.rebalance_ms)


def await_join(group: ConsumerGroup, member: ConsumerMember, turn: Turn) -> None:
    """A member of the classic protocol was told to join again: it has its rebalance timeout for that, from the
    first time on."""
    session = group.sessions[member.member_id]
    if session.join_ms is None:
        session.join_ms = turn.now.monotonic_ms + member.rebalance_timeout_ms
        session.rebalance_timeout_ms = member.rebalance_timeout_ms
        turn.arm(join_key(group, member.member_id), session.join_ms)


def await_sync(group: ConsumerGroup, member_id: str, timeout_ms: int, turn: Turn) -> None:
    """A member of the classic protocol joined: it has so long to ask for its assignment."""
    session = group.sessions[member_id]
    if session.join_ms is not None:
        session.join_ms = None
        turn.cancel(join_key(group, member_id))
    session.sync_ms = turn.now.monotonic_ms + timeout_ms
    session.rebalance_timeout_ms = timeout_ms
    turn.arm(sync_key(group, member_id), session.sync_ms)


def end_sync(group: ConsumerGroup, member_id: str, turn: Turn) -> None:
    """A member of the classic protocol has asked for its assignment."""
    session = group.sessions[member_id]
    if session.sync_ms is not None:
        session.sync_ms = None
        turn.cancel(sync_key(group, member_id))


def end_session(group: ConsumerGroup, member_id: str, turn: Turn) -> None:
    """A member is none any more."""
    session = group.sessions.pop(member_id, None)
    if session is not None:
        if session.timer_ms is not None:
            turn.cancel(session_key(group, member_id))
        if session.rebalance_ms is not None:
            turn.cancel(rebalance_key(group, member_id))
        if session.join_ms is not None:
            turn.cancel(join_key(group, member_id))
        if session.sync_ms is not None:
            turn.cancel(sync_key(group, member_id))
