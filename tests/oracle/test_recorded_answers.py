"""groupd gives the recorded responses of Apache Kafka to every session. No broker is needed.

All sessions run at the same time against one daemon per configuration, since most of them only wait. Many depend
on time, and on a busy machine a session timeout may pass between two requests. So a session that differs runs
again with few others, and then alone, against fresh daemons: a real difference appears each time. (Which of two
members gets which partitions depends on their random ids, as in Kafka.)
"""

import contextlib
from collections.abc import Iterator

import pytest

from tests.oracle import recordings
from tests.oracle.answer import Plain
from tests.oracle.compare import Difference, compare
from tests.oracle.explained import EXPLAINED, explanation
from tests.oracle.peers import AT_ONCE, groupd, play_all
from tests.oracle.play import Account, Entry
from tests.oracle.session import Session, library
from tests.shared_fixtures import shared

SESSIONS = {each.name: each for each in library()}
SUBJECTS = sorted({each.subject for each in SESSIONS.values()})
RECORDED = recordings.read()
AGAIN = (6, 3, 1, 1, 1, 1)
"""How many sessions at once are played again, each time."""
START_LIMIT_S = 1200


@shared(lambda _: True, scope="module", start_limit_s=START_LIMIT_S)
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Account]]:
    """The results of all sessions against groupd."""
    played = play(list(SESSIONS.values()), str(tmp_path_factory.mktemp("oracle")), AT_ONCE)
    for at_once in AGAIN:
        differ = [account.session for account in played.values() if faults_of(account)]
        if not differ:
            break
        played |= play(differ, str(tmp_path_factory.mktemp("again")), at_once)
    yield played


def play(sessions: list[Session], directory: str, at_once: int) -> dict[str, Account]:
    with contextlib.ExitStack() as stack:
        setups = {each.setup for each in sessions}
        peers = {setup: stack.enter_context(groupd(directory, setup)) for setup in setups}
        return play_all(sessions, peers, at_once)


def differences_of(account: Account) -> list[Difference]:
    return compare(account.session.name, RECORDED[account.session.name].entries, account.entries)


def faults_of(account: Account) -> list[str]:
    """Why groupd is not as Kafka was in this session."""
    broken = account.problem or account.unplayed
    if broken:
        return [broken]
    return [str(difference) for difference in differences_of(account) if explanation(difference) is None]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_groupd_answers_as_kafka_did(accounts: dict[str, Account], subject: str) -> None:
    mine = [account for account in accounts.values() if account.session.subject == subject]
    faults = [fault for account in mine for fault in faults_of(account)]
    assert faults == [], "\n".join(faults)


def test_every_explanation_is_of_a_difference_that_is_there(accounts: dict[str, Account]) -> None:
    found = [difference for account in accounts.values() for difference in differences_of(account)]
    unused = [known for known in EXPLAINED if not any(known.covers(difference) for difference in found)]
    assert unused == []


def test_every_session_has_an_answer_of_kafka_and_every_answer_a_session() -> None:
    assert {name: kept.subject for name, kept in RECORDED.items()} == {
        name: each.subject for name, each in SESSIONS.items()
    }


def test_what_is_kept_of_an_older_kafka_is_what_the_newest_does_not_say() -> None:
    *older, newest = (recordings.read_version(version) for version in recordings.versions())
    assert older
    for recorded in older:
        assert recorded
        for name, kept in recorded.items():
            assert name not in newest or compare(name, newest[name].entries, kept.entries), name


def leaves(value: Plain, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where the values of an answer are."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, (*path, name))
    elif isinstance(value, list):
        for row, item in enumerate(value):
            yield from leaves(item, (*path, row))
    else:
        yield path


def altered(value: Plain, path: tuple[str | int, ...]) -> Plain:
    """The same answer with another value there."""
    if not path:
        return "altered"
    first, *rest = path
    if isinstance(value, dict):
        return {name: altered(item, tuple(rest)) if name == first else item for name, item in value.items()}
    assert isinstance(value, list)
    return [altered(item, tuple(rest)) if row == first else item for row, item in enumerate(value)]


def test_a_wrong_value_anywhere_in_an_answer_is_seen() -> None:
    session, recorded = "groups_are_described[v5]", RECORDED["groups_are_described[v5]"].entries
    assert compare(session, recorded, recorded) == []
    for step, entry in enumerate(recorded):
        for path in leaves(entry.answer):
            wrong = [*recorded]
            wrong[step] = Entry(entry.label, altered(entry.answer, path))
            (difference,) = compare(session, wrong, recorded)
            assert (difference.step, difference.kafka) == (step, "altered")


def test_an_answer_too_few_or_too_many_or_of_another_step_is_seen() -> None:
    session, recorded = "groups_are_described[v5]", RECORDED["groups_are_described[v5]"].entries
    assert compare(session, recorded, recorded[:-1])
    assert compare(session, recorded[:-1], recorded)
    assert compare(session, recorded, [recorded[1], recorded[0], *recorded[2:]])
    assert compare(session, recorded, [Entry(recorded[0].label, {"groups": []}), *recorded[1:]])


def test_what_is_written_is_read_again(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("a Heartbeat v0 (a note)", {"error_code": "NONE", "text": "ü -> \n= x", "n": [None]})
    account = Account(SESSIONS["a_beat_of_nobody[v0]"], [entry])
    monkeypatch.setattr(recordings, "RECORDINGS", tmp_path)
    recordings.write("4.4.0", "2026-11-21", [account], {"heartbeat"})
    assert recordings.read() == {account.session.name: recordings.Recorded("4.4.0", "heartbeat", [entry])}
