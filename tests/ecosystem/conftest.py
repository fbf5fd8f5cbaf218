"""Fixtures: a groupd of the test's own and the programs that it starts."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.ecosystem.program import Program
from tests.interop.broker import EXTERNAL, Broker
from tests.interop.cluster import Cluster, cluster
from tests.interop.daemon import Daemon
from tests.interop.violations import nothing_violated
from tests.shared_fixtures import shared

__all__ = ["nothing_violated"]

OPTIONS = (
    "-o",
    "oracle.commits=true",
    "-o",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
)

Start = Callable[[Sequence[str]], Program]


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of this test's own."""
    if EXTERNAL:
        yield Broker(EXTERNAL, None)
        return
    daemon = Daemon(str(tmp_path_factory.mktemp("groupd")), *OPTIONS)
    yield Broker(daemon.bootstrap, daemon)
    daemon.stop()


@shared(Cluster.is_alive)
def java_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests that use it. The fixture restarts killed daemons at the end of a test."""
    yield from cluster(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def start(broker: Broker) -> Iterator[Start]:
    """Starts a program, which ends before the broker does."""
    programs: list[Program] = []

    def start(command: Sequence[str]) -> Program:
        programs.append(Program(command))
        return programs[-1]

    yield start
    for program in programs:
        program.kill()
