"""A daemon for the tests of the clients."""

from collections.abc import Iterator

import pytest
from groupd_client import Namespace
from pytest_groupd.daemon import Daemon, SpawnedDaemon

from tests.clients.command import COMMAND
from tests.shared_fixtures import shared


def _runs(daemon: Daemon) -> bool:
    return daemon.describe_end() is None


@shared(_runs, scope="session")
def daemon() -> Iterator[Daemon]:
    """groupd as a process of its own."""
    with SpawnedDaemon(COMMAND, []) as daemon:
        daemon.ensure()
        yield daemon


@pytest.fixture
def broker(daemon: Daemon) -> Iterator[Namespace]:
    """A namespace with a topic orders of 6 partitions."""
    with daemon.namespace(topics={"orders": 6}) as broker:
        yield broker
