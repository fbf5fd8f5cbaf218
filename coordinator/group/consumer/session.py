"""How long a member may be silent, and how long it may take to give partitions up: its two timers.

A heartbeat only moves the deadline of the session; the timer outside is left where it is, and set anew when it
fires too early. Source: Kafka's GroupMetadataManager, scheduleConsumerGroupSessionTimeout and
scheduleConsumerGroupRebalanceTimeout.
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


def restart_session(
    group: ConsumerGroup, member_id: str, timeout_ms: int, connection_id: int, turn: Turn
) -> None:
    """A member was heard: its session lasts so long from now on."""
    now_ms = turn.now.monotonic_ms
    deadline_ms = now_ms + timeout_ms
    session = group.sessions.get(member_id)
    if session is None:
        session = group.sessions[member_id] = Session(now_ms, deadline_ms)
    session.heard_ms, session.deadline_ms = now_ms, deadline_ms
    session.connection_id = connection_id or session.connection_id
    if session.timer_ms is None or session.timer_ms > deadline_ms:
        session.timer_ms = deadline_ms
        turn.arm(session_key(group, member_id), deadline_ms)


def watch_revocation(group: ConsumerGroup, member: ConsumerMember, turn: Turn) -> None:
    """A member was told where it stands: one that has to give partitions up has its rebalance timeout for that,
    from now on."""
    session = group.sessions[member.member_id]
    key = rebalance_key(group, member.member_id)
    if member.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
        session.rebalance_epoch = member.member_epoch
        session.rebalance_timeout_ms = member.rebalance_timeout_ms
        session.rebalance_ms = turn.now.monotonic_ms + member.rebalance_timeout_ms
        turn.arm(key, session.rebalance_ms)
    elif session.rebalance_ms is not None:
        session.rebalance_ms = None
        turn.cancel(key)


def end_session(group: ConsumerGroup, member_id: str, turn: Turn) -> None:
    """A member is none any more."""
    session = group.sessions.pop(member_id, None)
    if session is not None:
        if session.timer_ms is not None:
            turn.cancel(session_key(group, member_id))
        if session.rebalance_ms is not None:
            turn.cancel(rebalance_key(group, member_id))
