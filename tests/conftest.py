"""How the tests are shared out between processes, where there is more than one, and how property tests run."""

from typing import Final

import pytest
from hypothesis import settings

pytest_plugins = ["tests.shared_fixtures"]

SHARED: Final = {"spark": "spark", "machine": "tools"}
"""Fixtures that take long to make, and what the tests that ask for them are called together."""

# No example is judged by the clock of a busy machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps together what shares something that takes long to make: a file's tests, and those of such a fixture."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        group = next((group for fixture, group in SHARED.items() if fixture in fixtures), item.location[0])
        item.add_marker(pytest.mark.xdist_group(group))
