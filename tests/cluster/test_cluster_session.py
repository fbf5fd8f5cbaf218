"""Sessions: the time for which a daemon may rely on one, and conflicts over its key."""

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.cluster_session import (
    ClusterSession,
    DuplicateNodeId,
    GrantLease,
    RenewLease,
    SessionAnswer,
    SessionBegan,
    SessionCommand,
    SessionEnded,
    SessionEvent,
)
from coordinator.cluster.key_value_store import (
    KeyValueStoreError,
    LeaseExpired,
    ReadRange,
    StoreTransaction,
    StoreUnavailable,
)
from tests.cluster.model_map import ModelMap

KEYS = ClusterKeys("c")
TTL_MS = 9_000


def do(engine: ModelMap, command: SessionCommand, now_ms: int) -> SessionAnswer:
    try:
        if isinstance(command, GrantLease):
            return engine.grant(command.ttl_ms, now_ms)
        if isinstance(command, RenewLease):
            engine.keep_alive(command.lease, now_ms)
            return None
        if isinstance(command, StoreTransaction):
            return engine.transact(command)
        if isinstance(command, ReadRange):
            return engine.read(command)
        engine.revoke(command.lease)
        return None
    except KeyValueStoreError as error:
        return error


def pump(session: ClusterSession, engine: ModelMap, now_ms: int) -> list[SessionEvent]:
    """Everything that is due now."""
    events = session.advance_time(now_ms)
    while (command := session.next_command(now_ms)) is not None:
        events += session.apply_answer(command, do(engine, command, now_ms), now_ms)
    return events


def new(node_id: int = 1, registration: bytes = b"me") -> ClusterSession:
    return ClusterSession(KEYS, node_id, registration, TTL_MS)


def test_the_deadline_counts_from_when_an_answered_renewal_was_sent() -> None:
    engine, session = ModelMap(), new()
    assert pump(session, engine, 0) == [SessionBegan(session.lease, session.broker_epoch)]
    assert session.is_live(8_099)
    assert not session.is_live(8_100)
    renewal = session.next_command(3_000)
    assert isinstance(renewal, RenewLease)
    session.apply_answer(renewal, None, 4_000)
    assert session.is_live(11_099)
    assert not session.is_live(11_100)


def test_at_its_deadline_a_daemon_lets_go_revokes_and_begins_anew() -> None:
    engine, session = ModelMap(), new()
    pump(session, engine, 0)
    first = session.lease
    renewal = session.next_command(3_000)
    assert renewal is not None
    assert session.apply_answer(renewal, StoreUnavailable("cut off"), 3_500) == []
    events = pump(session, engine, 8_100)
    assert [type(event) for event in events] == [SessionEnded, SessionBegan]
    assert first not in engine.leases
    assert session.lease in engine.leases


def test_a_lease_that_is_gone_ends_the_session_at_once() -> None:
    engine, session = ModelMap(), new()
    pump(session, engine, 0)
    engine.revoke(session.lease)
    assert [type(event) for event in pump(session, engine, 3_000)] == [SessionEnded, SessionBegan]


def test_an_answer_of_a_session_that_was_given_up_says_nothing() -> None:
    engine, session = ModelMap(), new()
    pump(session, engine, 0)
    renewal = session.next_command(3_000)
    assert renewal is not None
    session.advance_time(8_100)
    assert session.apply_answer(renewal, LeaseExpired("late"), 8_101) == []
    assert [type(event) for event in pump(session, engine, 8_102)] == [SessionBegan]


def test_the_second_of_two_with_one_node_id_waits_until_the_first_is_gone() -> None:
    engine, first, second = ModelMap(), new(registration=b"first"), new(registration=b"second")
    pump(first, engine, 0)
    assert pump(second, engine, 10) == [DuplicateNodeId(b"first")]
    assert DuplicateNodeId(b"first") in pump(second, engine, 2_000)
    first.close(2_100)
    pump(first, engine, 2_100)
    events = pump(second, engine, 3_500)
    assert events == [SessionBegan(second.lease, second.broker_epoch)]
    assert engine.entries[KEYS.broker(1)].value == b"second"


def test_its_own_registration_of_an_unanswered_try_is_known_again() -> None:
    engine, session = ModelMap(), new()
    grant = session.next_command(0)
    assert grant is not None
    session.apply_answer(grant, do(engine, grant, 0), 0)
    registration = session.next_command(0)
    assert isinstance(registration, StoreTransaction)
    epoch = engine.transact(registration).revision
    session.apply_answer(registration, StoreUnavailable("lost"), 500)
    assert pump(session, engine, 600) == [SessionBegan(session.lease, epoch)]


def test_a_closed_session_leaves_nothing_behind() -> None:
    engine, session = ModelMap(), new()
    pump(session, engine, 0)
    assert [type(event) for event in session.close(100)] == [SessionEnded]
    pump(session, engine, 100)
    assert not engine.leases
    assert not engine.entries
    assert session.next_command(60_000) is None
