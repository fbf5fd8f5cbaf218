"""The commands of README.md after its first screen, each by itself and twice in a row."""

from collections.abc import Iterator

import pytest

from tests.readme.newcomer import Newcomer
from tests.readme.page import CLIENTS, FIRST_SCREEN, SNIPPETS, Role, Snippet

FIRST_SNIPPETS = [snippet for snippet in SNIPPETS if snippet.section == FIRST_SCREEN]
REST = [snippet for snippet in SNIPPETS if snippet.section not in (FIRST_SCREEN, CLIENTS)]


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    """Somebody who has played the first screen, and left groupd running."""
    newcomer = Newcomer(tmp_path_factory.mktemp("settled"))
    try:
        for snippet in FIRST_SNIPPETS:
            newcomer.play(snippet)
        yield newcomer
        newcomer.stop_groupd()
    finally:
        newcomer.close()


@pytest.mark.parametrize("snippet", [s for s in REST if s.role is Role.COMMAND], ids=str)
def test_command_prints_what_the_page_says(settled: Newcomer, snippet: Snippet) -> None:
    """Twice, beside a groupd that knows the first screen's group."""
    for _ in range(2):
        settled.play(snippet)


@pytest.mark.parametrize("snippet", [s for s in REST if s.role is Role.SERVE], ids=str)
def test_groupd_starts_as_the_page_says_and_ends_with_ctrl_c(newcomer: Newcomer, snippet: Snippet) -> None:
    """Twice: the second time it finds the directory of the first."""
    for _ in range(2):
        newcomer.play(snippet)
        newcomer.stop_groupd()
