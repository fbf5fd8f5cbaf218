"""Sessions: how long a daemon may believe in one, and whose key it finds."""

from coordinator.cluster.engine.engine import EngineError, LeaseGone, Read, Transaction, Unavailable
from coordinator.cluster.keys import Keys
from coordinator.cluster.session import (
    Answer,
    Began,
    Command,
    Duplicate,
    Ended,
    Event,
    Grant,
    KeepAlive,
    Session,
)
from tests.cluster.model_map import ModelMap

KEYS = Keys("c")
TTL_MS = 9_000


def do(engine: ModelMap, command: Command, now_ms: int) -> Answer:
    try:
        if isinstance(command, Grant):
            return engine.grant(command.ttl_ms, now_ms)
        if isinstance(command, KeepAlive):
            engine.keep_alive(command.lease, now_ms)
            return None
        if isinstance(command, Transaction):
            return engine.transact(command)
        if isinstance(command, Read):
            return engine.read(command)
        engine.revoke(command.lease)
        return None
    except EngineError as error:
        return error


def pump(session: Session, engine: ModelMap, now_ms: int) -> list[Event]:
    """Everything that is due now."""
    events = session.passed(now_ms)
    while (command := session.next(now_ms)) is not None:
        events += session.answered(command, do(engine, command, now_ms), now_ms)
    return events


def new(node_id: int = 1, registration: bytes = b"me") -> Session:
    return Session(KEYS, node_id, registration, TTL_MS)


def test_the_deadline_counts_from_when_an_answered_renewal_was_sent() -> None:
    engine, session = ModelMap(), new()
    assert pump(session, engine, 0) == [Began(session.lease, session.broker_epoch)]
    assert session.is_live(8_099)
    assert not session.is_live(8_100)
    renewal = session.next(3_000)
    assert isinstance(renewal, KeepAlive)
    session.answered(renewal, None, 4_000)
    assert session.is_live(11_099)
    assert not session.is_live(11_100)


def test_at_its_deadline_a_daemon_lets_go_revokes_and_begins_anew() -> None:
    engine, session = ModelMap(), new()
    pump(session, engine, 0)
    first = session.lease
    renewal = session.next(3_000)
    assert renewal is not None
    assert session.answered(renewal, Unavailable("cut off"), 3_500) == []
    events = pump(session, engine, 8_100)
    assert [type(event) for event in events] == [Ended, Began]
    assert first not in engine.leases
    assert session.lease in engine.leases


def test_a_lease_that_is_gone_ends_the_session_at_once() -> None:
    engine, session = ModelMap(), new()
    pump(session, engine, 0)
    engine.revoke(session.lease)
    assert [type(event) for event in pump(session, engine, 3_000)] == [Ended, Began]


def test_an_answer_of_a_session_that_was_given_up_says_nothing() -> None:
    engine, session = ModelMap(), new()
    pump(session, engine, 0)
    renewal = session.next(3_000)
    assert renewal is not None
    session.passed(8_100)
    assert session.answered(renewal, LeaseGone("late"), 8_101) == []
    assert [type(event) for event in pump(session, engine, 8_102)] == [Began]


def test_the_second_of_two_with_one_node_id_waits_until_the_first_is_gone() -> None:
    engine, first, second = ModelMap(), new(registration=b"first"), new(registration=b"second")
    pump(first, engine, 0)
    assert pump(second, engine, 10) == [Duplicate(b"first")]
    assert Duplicate(b"first") in pump(second, engine, 2_000)
    first.close(2_100)
    pump(first, engine, 2_100)
    events = pump(second, engine, 3_500)
    assert events == [Began(second.lease, second.broker_epoch)]
    assert engine.entries[KEYS.broker(1)].value == b"second"


def test_its_own_registration_of_an_unanswered_try_is_known_again() -> None:
    engine, session = ModelMap(), new()
    grant = session.next(0)
    assert grant is not None
    session.answered(grant, do(engine, grant, 0), 0)
    registration = session.next(0)
    assert isinstance(registration, Transaction)
    epoch = engine.transact(registration).revision
    session.answered(registration, Unavailable("lost"), 500)
    assert pump(session, engine, 600) == [Began(session.lease, epoch)]


def test_a_closed_session_leaves_nothing_behind() -> None:
    engine, session = ModelMap(), new()
    pump(session, engine, 0)
    assert [type(event) for event in session.close(100)] == [Ended]
    pump(session, engine, 100)
    assert not engine.leases
    assert not engine.entries
    assert session.next(60_000) is None
