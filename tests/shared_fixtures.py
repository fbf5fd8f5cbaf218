"""Shared fixtures that take long to start, isolated from the tests that use them.

A pytest plugin. A fixture with a wider scope than `function` starts outside the time limit of the first test
that needs it, within a limit of its own. (pytest-timeout can only exclude all fixtures or none, and then a
hanging fixture would never end.) A fixture declared with `shared` is checked before and after each test that
uses it. A test that ends it fails. The next test gets a new one, and dependent fixtures are created again. After
a failed start the next test retries, a few times.
"""

import contextlib
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Literal, NamedTuple, TypeVar

import pytest

from tests.hang_limit import hang_limit

START_LIMIT_S: Final = 600.0
LOOK_LIMIT_S: Final = 60.0
STOP_LIMIT_S: Final = 120.0
MAX_FAILED_STARTS: Final = 3

Value = TypeVar("Value")
Fixture = pytest.FixtureDef[Any]
Request = Any
"""A fixture's request; its type is private in pytest."""


class Care(NamedTuple):
    """How a fixture is looked after."""

    is_alive: Callable[[Any], bool] = lambda _: True
    start_limit_s: float = START_LIMIT_S


@dataclass
class Started:
    """What became of the starts of a fixture."""

    request: Request
    failures: int = 0
    """Since the last one that succeeded."""


_CARES: Final[dict[Callable[..., Any], Care]] = {}
_STARTED: Final = pytest.StashKey[dict[Fixture, Started]]()


def shared(
    is_alive: Callable[[Value], bool],
    *,
    scope: Literal["module", "session"] = "session",
    start_limit_s: float = START_LIMIT_S,
) -> Callable[[Callable[..., Iterator[Value]]], Any]:
    """A fixture that tests share, and how to see whether the next one can have it."""

    def declare(function: Callable[..., Iterator[Value]]) -> Any:
        _CARES[function] = Care(is_alive, start_limit_s)
        return pytest.fixture(scope=scope)(function)

    return declare


@contextlib.contextmanager
def own_limit(what: str, limit_s: float) -> Iterator[None]:
    """Suspend the limit of the running test; fail if the body exceeds its own limit.

    `what` names the unfinished step in the failure.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no alarm reaches it
        return

    def fail(_signal: int, _frame: FrameType | None) -> None:
        pytest.fail(f"{what} within {limit_s:g} s")

    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        with hang_limit(limit_s):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left_s)  # none was set where this is 0


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Fixture, request: Request) -> Generator[None, object, object]:
    """Start a resource that outlives a test outside of that test's limit."""
    if fixturedef.scope == "function":
        return (yield)
    started = request.session.stash.setdefault(_STARTED, {}).setdefault(fixturedef, Started(request))
    started.request = request
    started.failures += 1
    with own_limit(f"the shared fixture {fixturedef.argname} did not start", _care(fixturedef).start_limit_s):
        made = yield
    started.failures = 0
    return made


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start a resource again that failed to start or has ended since the last test."""
    for fixture, started in _used_by(item):
        if _failed(fixture):
            if started.failures < MAX_FAILED_STARTS:
                _discard(fixture, started)
        elif not _is_alive(fixture):
            _warn(f"{fixture.argname} has ended between two tests{_discard(fixture, started)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fail a test that ended a shared fixture."""
    try:
        yield
    finally:
        ended = [
            f"{fixture.argname} did not outlive this test{_discard(fixture, started)}"
            for fixture, started in _used_by(item)
            if not _failed(fixture) and not _is_alive(fixture)
        ]
        if ended:
            pytest.fail("\n".join(ended), pytrace=False)


def _care(fixture: Fixture) -> Care:
    return _CARES.get(fixture.func, Care())


def _used_by(item: pytest.Item) -> Iterator[tuple[Fixture, Started]]:
    """The shared fixtures of a test that have been started."""
    names = getattr(item, "fixturenames", ())
    for fixture, started in item.session.stash.get(_STARTED, {}).items():
        if fixture.argname in names and fixture.cached_result is not None:
            yield fixture, started


def _failed(fixture: Fixture) -> bool:
    """Return whether the fixture failed to start; a skip is not a failure."""
    assert fixture.cached_result is not None
    failure = fixture.cached_result[2]
    return failure is not None and not isinstance(failure[0], pytest.skip.Exception)


def _is_alive(fixture: Fixture) -> bool:
    assert fixture.cached_result is not None
    value, _, failure = fixture.cached_result
    if failure is not None:
        return True  # it was skipped, there is nothing
    try:
        with own_limit(f"whether {fixture.argname} is alive was not known", LOOK_LIMIT_S):
            return _care(fixture).is_alive(value)
    except pytest.fail.Exception:
        return False


def _discard(fixture: Fixture, started: Started) -> str:
    """End a fixture and its dependents; return their errors after a colon."""
    try:
        with own_limit(f"{fixture.argname} did not end", STOP_LIMIT_S):
            fixture.finish(started.request)
    except (Exception, BaseExceptionGroup, pytest.fail.Exception) as error:  # noqa: BLE001 it may end in any way
        return f": {error}"
    return ""


def _warn(text: str) -> None:
    """Add a warning to the final summary: the next test, which runs now, must not fail for this."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(text, pytest.PytestWarning, stacklevel=2)
