"""A group in whose ledger something has just happened."""

import pytest

from tests.control.ledger.told import Told, with_bob_dead


@pytest.fixture
def group() -> Told:
    """Alice leads, carol follows, and bob has just been found dead."""
    return with_bob_dead(Told())
