"""What README.md shows before anything else."""

import pytest

from tests.readme.newcomer import Newcomer
from tests.readme.page import FIRST_SCREEN, SNIPPETS


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_first_screen_comes_as_it_is_shown_and_comes_again(newcomer: Newcomer) -> None:
    """Pasted from top to bottom, twice in the same terminals and directory."""
    screen = [snippet for snippet in SNIPPETS if snippet.section == FIRST_SCREEN]
    for _ in range(2):
        for snippet in screen:
            newcomer.play(snippet)
        newcomer.stop_groupd()
