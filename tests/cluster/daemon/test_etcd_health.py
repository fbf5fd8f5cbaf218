"""Warnings about an etcd that grows too large, is full or loses a node.

one line at the start and one at the end.
"""

import logging
from collections.abc import Sequence

import pytest

from coordinator.cluster.daemon.etcd_status import DEFAULT_QUOTA_BYTES, EtcdHealth
from coordinator.cluster.key_value_store import EtcdNodeStatus


class Nodes:
    """Returns preset node states."""

    def __init__(self) -> None:
        self.said: list[EtcdNodeStatus] = []

    async def fetch_node_statuses(self) -> Sequence[EtcdNodeStatus]:
        return self.said


async def looked(
    health: EtcdHealth, nodes: Nodes, caplog: pytest.LogCaptureFixture, *said: EtcdNodeStatus
) -> list[int]:
    """The levels of the lines of one look."""
    caplog.clear()
    caplog.set_level(logging.INFO)
    nodes.said = list(said)
    await health.check_nodes()
    return [record.levelno for record in caplog.records]


def node(share: float, *, quota: int = 0, is_full: bool = False, name: str = "a:1") -> EtcdNodeStatus:
    size = int(share * (quota or DEFAULT_QUOTA_BYTES))
    return EtcdNodeStatus(name, "3.6.1", size_bytes=size, quota_bytes=quota, is_full=is_full)


async def test_seven_tenths_of_the_quota_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes()
    health = EtcdHealth(nodes, 0)
    assert await looked(health, nodes, caplog, node(0.69), node(0.1)) == []
    assert await looked(health, nodes, caplog, node(0.1), node(0.71)) == [logging.WARNING]
    for share in (0.71, 0.69, 0.9):
        assert await looked(health, nodes, caplog, node(share)) == []
    assert await looked(health, nodes, caplog, node(0.5)) == []
    assert await looked(health, nodes, caplog, node(0.8)) == [logging.WARNING]


@pytest.mark.parametrize(("configured", "said", "quota"), [(0, 0, DEFAULT_QUOTA_BYTES), (0, 8, 8), (5, 8, 5)])
async def test_the_quota_is_what_is_known_of_it(configured: int, said: int, quota: int) -> None:
    nodes = Nodes()
    nodes.said = [EtcdNodeStatus("a:1", size_bytes=1, quota_bytes=said)]
    health = EtcdHealth(nodes, configured)
    await health.check_nodes()
    assert health.quota_bytes == quota


async def test_one_that_is_full_is_told_when_it_begins_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes()
    health = EtcdHealth(nodes, 0)
    assert await looked(health, nodes, caplog, node(0.1, is_full=True), node(0.1)) == [logging.ERROR]
    assert health.is_full
    assert await looked(health, nodes, caplog, node(0.1, is_full=True)) == []
    # One that does not answer says nothing of that.
    assert await looked(health, nodes, caplog, EtcdNodeStatus("b:1", problem="gone")) == [logging.WARNING]
    assert await looked(health, nodes, caplog, node(0.1), node(0, name="b:1")) == [logging.INFO] * 2
    assert not health.is_full
