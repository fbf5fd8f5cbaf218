"""Each known difference is a row of docs/differences.md, which names a session that shows it."""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.oracle.compare import Difference, Explained
from tests.oracle.explained import EXPLAINED
from tests.oracle.session import library

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
SESSION = re.compile(r"`tests/oracle/sessions/(\w+)\.py::(\w+)`")


@pytest.mark.parametrize("known", EXPLAINED, ids=lambda known: f"{known.session}-{known.why}")
def test_its_row_names_a_session_that_shows_it(known: Explained) -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {known.why}")]
    named = SESSION.findall(row)
    pattern = known.session.replace("[", "[[]")
    covered = {(each.subject, each.script_name) for each in library() if fnmatchcase(each.name, pattern)}
    assert covered & set(named)


def test_every_session_on_the_page_exists() -> None:
    named = set(SESSION.findall(PAGE.read_text()))
    assert named
    assert named <= {(each.subject, each.script_name) for each in library()}


def test_an_explanation_covers_only_what_it_says() -> None:
    known = Explained("why", "a_session*", "a Join*", "members(*).id", kafka=(1,), groupd=(2,))
    difference = Difference("a_session[v1]", 0, "a JoinGroup v1", "members[3].id", 1, 2)
    assert known.covers(difference)
    others = (
        Difference("another", 0, "a JoinGroup v1", "members[3].id", 1, 2),
        Difference("a_session[v1]", 0, "b JoinGroup v1", "members[3].id", 1, 2),
        Difference("a_session[v1]", 0, "a JoinGroup v1", "members[3].error", 1, 2),
        Difference("a_session[v1]", 0, "a JoinGroup v1", "members[3].id", 3, 2),
        Difference("a_session[v1]", 0, "a JoinGroup v1", "members[3].id", 1, 3),
    )
    assert not any(known.covers(other) for other in others)
