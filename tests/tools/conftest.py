"""Fixtures: one groupd, one Java machine, and a topic or group that no other test uses."""

import itertools
from collections.abc import Iterator

import pytest

from tests.interop.broker import EXTERNAL, Broker
from tests.interop.build import CannotBuild
from tests.interop.daemon import Daemon
from tests.interop.requirement import lacking
from tests.shared_fixtures import shared
from tests.tools.desk import Desk
from tests.tools.machine import Machine

_names = itertools.count(1)


@shared(Machine.is_alive)
def machine() -> Iterator[Machine]:
    """The Java virtual machine of all the tools."""
    try:
        machine = Machine()
    except CannotBuild as reason:
        lacking(str(reason))
        raise AssertionError("unreachable") from reason
    yield machine
    machine.stop()


@shared(Broker.is_alive)
def tool_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all the tests."""
    if EXTERNAL:
        yield Broker(EXTERNAL, None)
        return
    daemon = Daemon(str(tmp_path_factory.mktemp("groupd")))
    yield Broker(daemon.bootstrap, daemon)
    daemon.stop()


@pytest.fixture
def desk(tool_broker: Broker, machine: Machine) -> Desk:
    """The tools, pointed at the broker."""
    return Desk(tool_broker, machine)


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"tool-topic-{next(_names)}"


@pytest.fixture
def group() -> str:
    """A name that no other test uses."""
    return f"tool-group-{next(_names)}"
