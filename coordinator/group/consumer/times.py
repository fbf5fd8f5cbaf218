"""What a consumer group waits for, as times: told, put off, moved."""

from collections.abc import Iterator

from coordinator.group.consumer.events import FenceCause
from coordinator.group.consumer.fence import fence
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.session import join_key, rebalance_key, session_key, sync_key
from coordinator.group.groups import Groups
from coordinator.group.requests import KeepAlive
from coordinator.group.timer_key import TimerKey
from coordinator.machine.turn import Turn


def deadlines(group: ConsumerGroup) -> Iterator[tuple[TimerKey, int]]:
    """What time alone will bring about, with its monotonic time. The timer outside of a member that was heard since
    it was armed fires earlier, and in vain."""
    for member_id, session in group.sessions.items():
        yield session_key(group, member_id), session.deadline_ms
        if session.rebalance_ms is not None:
            yield rebalance_key(group, member_id), session.rebalance_ms
        if session.join_ms is not None:
            yield join_key(group, member_id), session.join_ms
        if session.sync_ms is not None:
            yield sync_key(group, member_id), session.sync_ms


def expire_member(groups: Groups, group: ConsumerGroup, member_id: str, turn: Turn) -> bool:
    """The session of a member is over now; whether there is such a member."""
    if member_id not in group.sessions:
        return False
    fence(groups, group, member_id, FenceCause.ASKED, turn)
    return True


def keep_alive(group: ConsumerGroup, request: KeepAlive, turn: Turn) -> None:
    """The sessions of these members last longer."""
    for member_id in request.member_ids:
        session = group.sessions.get(member_id)
        if session is not None and session.deadline_ms < request.until_ms:
            session.deadline_ms = session.timer_ms = request.until_ms
            turn.arm(session_key(group, member_id), request.until_ms)


def move(group: ConsumerGroup, by_ms: int, turn: Turn) -> None:
    """All that it waits for comes in as much time as was left."""
    group.metadata_deadline_ms += by_ms
    for session in group.sessions.values():
        session.heard_ms += by_ms
        session.deadline_ms += by_ms
        session.timer_ms = session.deadline_ms
        if session.rebalance_ms is not None:
            session.rebalance_ms += by_ms
        if session.join_ms is not None:
            session.join_ms += by_ms
        if session.sync_ms is not None:
            session.sync_ms += by_ms
    for key, deadline_ms in deadlines(group):
        turn.arm(key, deadline_ms)
