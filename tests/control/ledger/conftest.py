"""A group with a new entry in its ledger."""

import pytest

from tests.control.ledger.observed_coordinator import ObservedCoordinator, with_bob_dead


@pytest.fixture
def group() -> ObservedCoordinator:
    """Alice leads, carol follows, and bob has just been found dead."""
    return with_bob_dead(ObservedCoordinator())
