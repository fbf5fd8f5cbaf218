"""What is told of an etcd that grows too large, is full, or loses a node: each once, when it begins and ends."""

import logging
from collections.abc import Sequence

import pytest

from coordinator.cluster.engine.node_status import NodeStatus
from coordinator.server.cluster.engine_health import DEFAULT_QUOTA_BYTES, EngineHealth


class Nodes:
    """Says what it was told to say."""

    def __init__(self) -> None:
        self.said: list[NodeStatus] = []

    async def nodes(self) -> Sequence[NodeStatus]:
        return self.said


async def looked(
    health: EngineHealth, nodes: Nodes, caplog: pytest.LogCaptureFixture, *said: NodeStatus
) -> list[int]:
    """The levels of the lines of one look."""
    caplog.clear()
    caplog.set_level(logging.INFO)
    nodes.said = list(said)
    await health.look()
    return [record.levelno for record in caplog.records]


def node(share: float, *, quota: int = 0, is_full: bool = False, name: str = "a:1") -> NodeStatus:
    size = int(share * (quota or DEFAULT_QUOTA_BYTES))
    return NodeStatus(name, "3.6.1", size_bytes=size, quota_bytes=quota, is_full=is_full)


async def test_seven_tenths_of_the_quota_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes()
    health = EngineHealth(nodes, 0)
    assert await looked(health, nodes, caplog, node(0.69), node(0.1)) == []
    assert await looked(health, nodes, caplog, node(0.1), node(0.71)) == [logging.WARNING]
    for share in (0.71, 0.69, 0.9):
        assert await looked(health, nodes, caplog, node(share)) == []
    assert await looked(health, nodes, caplog, node(0.5)) == []
    assert await looked(health, nodes, caplog, node(0.8)) == [logging.WARNING]


@pytest.mark.parametrize(("configured", "said", "quota"), [(0, 0, DEFAULT_QUOTA_BYTES), (0, 8, 8), (5, 8, 5)])
async def test_the_quota_is_what_is_known_of_it(configured: int, said: int, quota: int) -> None:
    nodes = Nodes()
    nodes.said = [NodeStatus("a:1", size_bytes=1, quota_bytes=said)]
    health = EngineHealth(nodes, configured)
    await health.look()
    assert health.quota_bytes == quota


async def test_one_that_is_full_is_told_when_it_begins_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes()
    health = EngineHealth(nodes, 0)
    assert await looked(health, nodes, caplog, node(0.1, is_full=True), node(0.1)) == [logging.ERROR]
    assert health.is_full
    assert await looked(health, nodes, caplog, node(0.1, is_full=True)) == []
    # One that does not answer says nothing of that.
    assert await looked(health, nodes, caplog, NodeStatus("b:1", problem="gone")) == [logging.WARNING]
    assert await looked(health, nodes, caplog, node(0.1), node(0, name="b:1")) == [logging.INFO] * 2
    assert not health.is_full
