"""How the tests are shared out between processes, where there is more than one."""

import pytest


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps together what shares something that takes long to make: a file's tests, and those with Spark."""
    for item in items:
        needs_spark = "spark" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("spark" if needs_spark else item.location[0]))
