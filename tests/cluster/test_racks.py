"""Racks: the racks of brokers in responses to clients."""

from pathlib import Path

import pytest

from coordinator.config.config_errors import ConfigError
from coordinator.config.in_process_brokers import parse_racks
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.metadata import MetadataRequest
from tests.broker.harness import Client, serving
from tests.cluster.brokers import NODE_IDS, three_brokers
from tests.cluster.daemon.cluster_daemons import daemons, eventually


async def told(client: Client) -> list[str | None]:
    """The racks of brokers, by Metadata and by DescribeCluster."""
    metadata = await client.call(MetadataRequest(topics=None), 9)
    described = await client.call(DescribeClusterRequest(include_cluster_authorized_operations=False), 0)
    racks = [broker.rack for broker in metadata.brokers]
    assert [broker.rack for broker in described.brokers] == racks
    return racks


@pytest.mark.parametrize(("text", "rack"), [("", None), ("r1", "r1"), ("r1,r2", "r1,r2")])
async def test_one_broker_has_the_rack_that_it_was_given(text: str, rack: str | None) -> None:
    async with serving(None, {"broker.rack": text}) as server, Client(server) as client:
        assert await told(client) == [rack]


@pytest.mark.parametrize(("text", "racks"), [("r", ["r"] * 3), ("r1, r2,", ["r1", "r2", None])])
async def test_brokers_of_one_process_have_one_rack_or_each_its_own(
    tmp_path: Path, text: str, racks: list[str | None]
) -> None:
    async with three_brokers(tmp_path, {"broker.rack": text}) as cluster:
        for node_id in NODE_IDS:
            assert await told(cluster.clients[node_id]) == racks


def test_a_list_that_is_not_of_as_many_as_there_are_brokers_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"broker\.rack"):
        parse_racks("r1,r2", 3)


async def test_daemons_of_a_cluster_know_the_racks_of_all() -> None:
    async with daemons(None, 1, **{"broker.rack": "r1"}) as cluster:
        await cluster.start(2, **{"broker.rack": "r2"})
        for daemon in cluster.by_id.values():
            await eventually(lambda daemon=daemon: len(daemon.server.membership.ownership.brokers) == 2)  # type: ignore[misc]
            assert await told(daemon.client) == ["r1", "r2"]
