"""The rules of CONTRIBUTING.md for sentences, as far as a program can check them, with bounds that only shrink."""

import pytest

from tests.tooling.prose import (
    HABITS,
    count_habits,
    long_sentences,
    markdown_prose,
    python_prose,
    short_docstrings,
)
from tests.tooling.prose_bounds import find_excesses, measure_pages, measure_python, read_bounds
from tests.tooling.test_tidy import Source

pytestmark = pytest.mark.xdist_group(name="tidy")

SHOWN = (
    "# A page\n\nWhoever waits\nis told so.\n\n| a | b is none |\n\n```sh\nwho is it\n```\n\n- `what is`\n"
)


def test_docstrings_comments_and_messages_keep_their_bounds() -> None:
    assert find_excesses(measure_python(), read_bounds()) == []


def test_pages_keep_their_bounds() -> None:
    assert find_excesses(measure_pages(), read_bounds()) == []


@pytest.mark.parametrize(
    ("text", "habit"),
    [
        ("Return what was written.", "relative clause for a noun"),
        ("the members who wait for it are those who\nasked", "relative clause for a noun"),
        ("Whoever comes, and nobody else", "indefinite person"),
        ("the broker is told about it", "told, asked, said"),
        ("the name is none that is known", "is none, is no"),
        ("there is no member", "is none, is no"),
    ],
)
def test_a_habit_is_counted(text: str, habit: str) -> None:
    assert HABITS[habit].search(" ".join(text.split()))
    assert count_habits(text) > 0


@pytest.mark.parametrize(
    "text", ["Return the records.", "There is no longer a leader.", "the waits of a group"]
)
def test_a_plain_sentence_has_no_habit(text: str) -> None:
    assert count_habits(text) == 0


def test_prose_of_a_module_is_its_docstrings_comments_and_messages() -> None:
    source = '"""Here is what is read."""\nx = 1  # what was it\nraise E(f"{x} is none that fits")\n'
    prose = python_prose(Source("module.py", source).nodes, source)
    assert sorted(prose) == ["Here is what is read.", "X is none that fits", "what was it"]


def test_prose_of_a_page_has_no_code() -> None:
    assert list(markdown_prose(SHOWN)) == ["# A page", "Whoever waits is told so.", "a", "b is none", "- X"]


def test_a_long_sentence_is_found() -> None:
    assert long_sentences(["word " * 41, "Short. " + "word " * 40 + ". Short."]) == ["word " * 41]


def test_a_docstring_of_three_words_is_found() -> None:
    source = Source(
        "module.py", 'def f():\n    """All of it."""\ndef g():\n    """Return all of it."""\ndef h(): ...\n'
    )
    assert short_docstrings(source.nodes) == ["f"]


def test_a_figure_above_its_bound_is_an_excess() -> None:
    figures = {"habits": {"storage": 3, "new": 1, "protocol": 1}}
    bounds = {"habits": {"storage": 2, "protocol": 1}}
    assert find_excesses(figures, bounds) == [
        "habits of storage: 3, at most 2",
        "habits of new: 1, at most 0",
    ]
