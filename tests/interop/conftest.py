"""Fixtures: the broker, a driver's command, a group of its members."""

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.interop.broker import EXTERNAL, Broker
from tests.interop.build import CannotBuild
from tests.interop.daemon import Daemon
from tests.interop.driver import Driver
from tests.interop.group import Group
from tests.interop.member import Board
from tests.interop.replayed import replayed
from tests.interop.requirement import lacking
from tests.interop.violations import nothing_violated
from tests.shared_fixtures import shared

__all__ = ["nothing_violated"]

_names = itertools.count(1)


def fresh(kind: str) -> str:
    """A name that no other test uses."""
    return f"{kind}-{os.getpid()}-{next(_names)}"


def _broker(data_directory: str) -> Iterator[Broker]:
    if EXTERNAL:
        yield Broker(EXTERNAL, None)
        return
    daemon = Daemon(
        data_directory,
        *("-o", "oracle.commits=true"),
        *("-o", "group.consumer.min.session.timeout.ms=100"),
        *("-o", "group.consumer.min.heartbeat.interval.ms=100"),
    )
    try:
        yield Broker(daemon.bootstrap, daemon)
    except BaseException:
        daemon.kill()
        raise
    daemon.stop()


@shared(Broker.is_alive)
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all the tests that do not stop it; each test has topics and groups of its own."""
    yield from _broker(str(tmp_path_factory.mktemp("groupd")))


@pytest.fixture
def mortal_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of this test's own, to be restarted."""
    yield from _broker(str(tmp_path_factory.mktemp("groupd")))


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return fresh("topic")


@pytest.fixture
def group_name() -> str:
    """A name that no other test uses."""
    return fresh("group")


@pytest.fixture
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    """Where the members' events arrive; ends every member at the end of the test."""
    board = Board()
    yield board
    for member in board.members:
        member.dispose()


def command_of(driver: Driver) -> list[str]:
    """Return the command of a driver, building it on first use; skips where the machine lacks something."""
    try:
        return driver.prepare()
    except CannotBuild as reason:
        lacking(f"{driver.name}: {reason}")
        raise AssertionError("unreachable") from reason


@pytest.fixture
def group(broker: Broker, driver: Driver, group_name: str, board: Board) -> Iterator[Group]:
    """A group of the driver's members on the shared broker. Its recording is replayed afterwards."""
    command = command_of(driver)
    with replayed(broker, group_name):
        yield Group(broker, driver, command, group_name, board)


@pytest.fixture
def mortal_group(mortal_broker: Broker, driver: Driver, group_name: str, board: Board) -> Group:
    """A group of the driver's members on a broker of its own."""
    return Group(mortal_broker, driver, command_of(driver), group_name, board)
