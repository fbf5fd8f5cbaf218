"""Links between daemons, etcd and clients are cut or slowed down.

no data is lost, and the histories of stock clients are linearizable.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.cluster.etcd.conftest import SESSION_MS, Groupds, three_daemons
from tests.cluster.etcd.history import History
from tests.cluster.etcd.linearizable import OK, Operations, checker, verdicts
from tests.cluster.etcd.stock_history import StockHistory
from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking

pytestmark = pytest.mark.timeout(600)
PAST_A_SESSION_S = 1.5 * SESSION_MS / 1000


@pytest.fixture(scope="module")
def shared_linked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Groupds]:
    try:
        checker()
    except CannotBuild as reason:
        lacking(f"Porcupine: {reason}")
    with three_daemons(tmp_path_factory.mktemp("linked"), are_linked=True) as daemons:
        yield daemons


@pytest.fixture
def linked(shared_linked: Groupds) -> Groupds:
    """Daemons with links, all of them up and linked at the start of each test."""
    shared_linked.restore()
    return shared_linked


@asynccontextmanager
async def watched(groupds: Groupds, group: str) -> AsyncIterator[History]:
    """Clients that continue during a failure."""
    operations = Operations()
    history = History(groupds.ports, group, operations)
    stock = StockHistory(groupds.bootstrap, group, 1, operations)
    history.start()
    stock.start()
    try:
        await history.until_more()
        yield history
        await history.until_more()
    finally:
        await asyncio.to_thread(stock.stop)
        await history.stop()
    assert await history.last() >= history.acknowledged
    judged = await asyncio.to_thread(verdicts, operations)
    assert judged == {f"{group}/orders/0": OK, f"{group}/orders/1": OK}


@pytest.mark.parametrize(
    ("requests", "answers"), [(True, True), (True, False), (False, True)], ids=["both", "requests", "answers"]
)
async def test_an_owner_is_cut_off_from_etcd(linked: Groupds, requests: bool, answers: bool) -> None:
    """Another broker takes over during the pause. After the pause the broker joins the cluster again."""
    async with watched(linked, f"cut-{requests}-{answers}") as history:
        owner = await history.owner()
        for link in linked.behind[owner]:
            link.cut(requests=requests, answers=answers)
        try:
            await history.until_more()
            await history.wait_for_other_owner(owner)
        finally:
            for link in linked.behind[owner]:
                link.mend()


async def test_an_owner_is_cut_off_from_its_clients(linked: Groupds) -> None:
    """The owner keeps the partition, as in Kafka; clients cannot reach it until the link is restored."""
    async with watched(linked, "unreachable") as history:
        owner = await history.owner()
        linked.front[owner].cut()
        try:
            await asyncio.sleep(PAST_A_SESSION_S)
        finally:
            linked.front[owner].mend()
        await history.until_more()
        assert await history.owner() == owner


async def test_etcd_is_far_away(linked: Groupds) -> None:
    """Slower than one try may take: answers come late, and are right."""
    async with watched(linked, "far") as history:
        owner = await history.owner()
        for link in linked.behind[owner]:
            link.slow(0.4)
        try:
            await asyncio.sleep(PAST_A_SESSION_S)
        finally:
            for link in linked.behind[owner]:
                link.mend()
