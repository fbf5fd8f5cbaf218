"""The demonstration of README.md from top to bottom, and each command of docs/getting-started.md, each twice."""

from collections.abc import Iterator

import pytest

from tests.readme.newcomer import Newcomer
from tests.readme.page import FIRST_SCREEN, GETTING_STARTED, README, Role, Snippet

FIRST_SNIPPETS = [snippet for snippet in README if snippet.section == FIRST_SCREEN]
REST = [*(snippet for snippet in README if snippet.section != FIRST_SCREEN), *GETTING_STARTED]


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    """A reader that has played the first screen and left groupd running."""
    newcomer = Newcomer(tmp_path_factory.mktemp("settled"))
    try:
        for snippet in FIRST_SNIPPETS:
            newcomer.play(snippet)
        yield newcomer
        newcomer.stop_groupd()
    finally:
        newcomer.close()


@pytest.mark.interop
@pytest.mark.timeout(600)
def test_first_screen_comes_again_as_it_is_shown(settled: Newcomer) -> None:
    """Pasted from top to bottom once more, in the same terminals and directory."""
    for snippet in FIRST_SNIPPETS:
        settled.play(snippet)


@pytest.mark.parametrize("snippet", [s for s in REST if s.role is Role.COMMAND], ids=str)
def test_command_prints_what_the_page_says(settled: Newcomer, snippet: Snippet) -> None:
    """Twice, beside a groupd that knows the first screen's group."""
    for _ in range(2):
        settled.play(snippet)


@pytest.fixture(scope="module")
def restarting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    """A reader that starts groupd in one way after the other."""
    newcomer = Newcomer(tmp_path_factory.mktemp("restarting"))
    try:
        yield newcomer
    finally:
        newcomer.close()


@pytest.mark.parametrize("snippet", [s for s in REST if s.role is Role.SERVE], ids=str)
def test_groupd_starts_as_the_page_says_and_ends_with_ctrl_c(restarting: Newcomer, snippet: Snippet) -> None:
    """In any order: a start also finds the directory that another one left."""
    restarting.play(snippet)
    restarting.stop_groupd()
