"""The tests play every snippet of README.md and its command pages, and each snippet states its expected output."""

import re

import pytest

from coordinator.config.properties import Config
from tests.readme.newcomer import PORTS
from tests.readme.page import NOT_PLAYED, PASTED, SNIPPETS, Role, Snippet, snippets


@pytest.mark.parametrize("snippet", SNIPPETS, ids=str)
def test_snippet_is_played_or_it_is_said_why_not(snippet: Snippet) -> None:
    """A played snippet has a line or a block with its output; a client snippet has a command."""
    if snippet.role is not Role.NOT_PLAYED:
        assert snippet.prints or snippet.log_says or snippet.shown
    if snippet.role is Role.CLIENT:
        assert snippet.command


def test_what_is_not_played_is_there() -> None:
    """No reason outlives its snippet."""
    assert [name for name in NOT_PLAYED if not any(s.text.startswith(name) for s in SNIPPETS)] == []


def test_pasted_lines_have_no_comments() -> None:
    """zsh, the shell of a Mac, takes a comment in a pasted line for arguments."""
    assert [s.text for s in SNIPPETS if s.language == PASTED and re.search(r"(^|\s)#", s.text)] == []


def test_ports_are_those_that_groupd_takes_by_itself() -> None:
    """The tests give it others, so this alone sees the defaults."""
    kafka, http = PORTS
    assert Config().listeners == (f"PLAINTEXT://127.0.0.1:{kafka}",)
    assert Config().http_listener == f"127.0.0.1:{http}"


def test_new_code_is_noticed() -> None:
    """A snippet in an unknown language, code without output, and a code block without an end."""
    (unknown,) = snippets("# Page\n\nIt prints `1`:\n\n```ruby\nputs 1\n```\n")
    with pytest.raises(ValueError, match="no test plays this"):
        print(unknown.role)
    with pytest.raises(ValueError, match="nothing before it"):
        snippets("# Page\n\n```\n1\n```\n")
    with pytest.raises(ValueError, match="does not end"):
        snippets("# Page\n\n```sh\nls\n")
