"""Play docs/replay.md from top to bottom."""

from pathlib import Path

import pytest

from tests.readme.newcomer import Newcomer
from tests.readme.page import Role, snippets

GUIDE = snippets((Path(__file__).parents[2] / "docs" / "replay.md").read_text())


@pytest.mark.interop
@pytest.mark.timeout(600)
def test_the_guide_comes_as_it_is_shown(newcomer: Newcomer) -> None:
    """One daemon, one group, each command where the page has it."""
    for snippet in GUIDE:
        newcomer.play(snippet)
    newcomer.stop_groupd()


def test_every_snippet_of_the_guide_is_played() -> None:
    """The test plays every kind of snippet.

    All but those that only start or end a consumer have an expected output.
    """
    assert {snippet.role for snippet in GUIDE} <= {Role.SERVE, Role.COMMAND}
    assert [s.text for s in GUIDE if not s.prints and "kcat" not in s.text and "kill" not in s.text] == []
