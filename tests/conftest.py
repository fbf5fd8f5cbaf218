"""How the tests are shared out between processes, where there is more than one, and how property tests run."""

import logging
import signal
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Final

import pytest
from hypothesis import settings

from tests.tiers import is_extended, is_nightly, may_have_extended_tests

pytest_plugins = ["tests.hang_limit", "tests.shared_fixtures", "pytester"]

ROOT: Final = Path(__file__).parents[1]
SHARED: Final = {"spark": "spark", "machine": "tools", "java_cluster": "tests/ecosystem/cluster"}
"""Fixtures that take long to make, and what the tests that ask for them are called together."""
LONG: Final = (
    "tests/oracle/", *SHARED.values(), "tests/readme/", "tests/interop/", "tests/ecosystem/", "tests/crash/",
    "tests/pipeline/", "tests/hostile/", "tests/docker/environments/",
)  # fmt: skip
"""The groups that take longest, by how their names begin. They are begun first, so that no process is still at one
of them when there is nothing left for the others. The oracle comes before the others because it mostly waits."""

EXTENDED_MARKERS: Final = ("extended", "extended and not nightly", "nightly")
"""Selections by `-m` that have extended tests only."""

LOGGING_FLAGS: Final = ("logThreads", "logProcesses", "logMultiprocessing", "raiseExceptions")

# No example is judged by the clock of a busy machine.
settings.register_profile("untimed", deadline=None)
settings.register_profile("brief", deadline=None, max_examples=10)  # for `make coverage`
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Give the processes that tests start the default action for SIGINT and SIGHUP.

    A script's shell starts background commands with SIGINT ignored, and nohup ignores SIGHUP. Child processes
    inherit that, and tests could not interrupt them, or end them by closing their terminal. With a handler in this
    process they start with the default action. For SIGINT the handler is Python's own: Ctrl-C in that script's
    terminal ends the children too, so the run ends with them. A lost terminal does not end the run.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _stay)


def _stay(_signal: int, _frame: FrameType | None) -> None:
    """Ignore a signal in this process alone: child processes do not inherit a handler."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Restore the logging of this process after each test: `groupd serve`, run in this process, changes it."""
    loggers = {logger: logger.level for logger in (logging.getLogger(), logging.getLogger("asyncio"))}
    handlers = logging.getLogger().handlers[:]
    flags = {name: getattr(logging, name) for name in LOGGING_FLAGS}
    try:
        return (yield)
    finally:
        for logger, level in loggers.items():
            logger.setLevel(level)
        logging.getLogger().handlers[:] = handlers
        for name, value in flags.items():
            setattr(logging, name, value)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without extended tests if the run selects these only: imports of all tests take a minute."""
    if config.getoption("markexpr") not in EXTENDED_MARKERS or not collection_path.name.startswith("test_"):
        return None
    path = collection_path.relative_to(ROOT).as_posix()
    return None if may_have_extended_tests(path) else True


@pytest.hookimpl(tryfirst=True)  # before marks are selected, and before xdist reads them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the extended and the nightly tests (`tests/tiers.py`). A nightly test has both marks.

    Keep together the tests of a file, or of a fixture that takes long to start.
    """
    for item in items:
        if is_extended(item.nodeid, getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.extended)
            if is_nightly(item.nodeid):
                item.add_marker(pytest.mark.nightly)
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(name=group))
    items.sort(key=lambda item: _turn(groups[item]))


def _group(item: pytest.Item) -> str:
    fixtures = getattr(item, "fixturenames", ())
    return next((group for fixture, group in SHARED.items() if fixture in fixtures), item.location[0])


def _turn(group: str) -> int:
    return next((turn for turn, long in enumerate(LONG) if group.startswith(long)), len(LONG))
