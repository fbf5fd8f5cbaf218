"""The newcomer, with a directory of this test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.readme.newcomer import Newcomer


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    """A reader; the fixture closes its terminals at the end of the test."""
    newcomer = Newcomer(tmp_path)
    yield newcomer
    newcomer.close()
