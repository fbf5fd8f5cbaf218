from typing import Any

import pytest

from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from storage.topic_partition import TopicPartition
from tests.broker.harness import Client
from tests.http.api.api_port import Api, serving_api


async def owners(api: Api, topic: str) -> list[int | None]:
    status = await api.call("GET", "/v1/cluster")
    return [part["owner"] for part in status.value["partitions"] if part["topic"] == topic]


async def test_a_move_is_seen_in_status_metrics_and_what_was_done() -> None:
    async with serving_api(brokers=3) as api:
        acts: list[Any] = []
        api.control.actions.listeners.append(acts.append)
        number = api.server.runtime.find_partition("billing").number
        before = (await owners(api, "__consumer_offsets"))[number]
        assert before is not None
        to = before % 3 + 1
        moved = await api.call("POST", "/v1/cluster/move", {"group": "billing", "to": to})
        assert (moved.status, moved.value["before"], moved.value["owner"]) == (200, before, to)
        assert (await owners(api, "__consumer_offsets"))[number] == to
        assert [(act.kind, act.group_id) for act in acts] == [("cluster", "billing")]
        metrics = (await api.call("GET", "/metrics")).body.decode()
        assert 'groupd_cluster_moves_total{cause="moved"} 1.0' in metrics
        again = await api.call("POST", "/v1/cluster/move", {"group": "billing", "to": to})
        assert (again.status, again.value["before"]) == (200, to)
        assert len(acts) == 1


async def test_in_text_each_partition_is_told_with_its_owner() -> None:
    async with serving_api(brokers=3, properties={"offsets.topic.num.partitions": "200"}) as api:
        status = await api.call("GET", "/v1/cluster", headers={"Accept": "text/plain"})
        lines = status.body.decode().splitlines()
        assert max(map(len, lines)) < 120
        told: dict[str, int] = {}
        owner = 0
        for line in lines[lines.index("coordinators in __consumer_offsets") + 1 : lines.index("orders")]:
            owner = int(words[1]) if (words := line.split())[0] == "broker" else owner
            told |= {word.partition("@")[0]: owner for word in words if "@" in word}
        expected = await owners(api, "__consumer_offsets")
        assert told == {str(number): expected[number] for number in range(200)}


async def test_what_kafkas_own_api_moves_is_an_act_too() -> None:
    async with serving_api(brokers=3) as api:
        acts: list[Any] = []
        api.control.actions.listeners.append(acts.append)
        before = (await owners(api, "orders"))[0]
        assert before is not None
        to = before % 3 + 1
        asked = ReassignablePartition(partition_index=0, replicas=[to])
        topics = [ReassignableTopic(name="orders", partitions=[asked])]
        async with Client(api.server) as client:
            await client.call(AlterPartitionReassignmentsRequest(topics=topics), 0)
        assert (await owners(api, "orders"))[0] == to
        [act] = acts
        assert act.kind == "cluster"
        assert str(TopicPartition("orders", 0)) in act.what
        metrics = (await api.call("GET", "/metrics")).body.decode()
        assert 'groupd_cluster_moves_total{cause="reassigned"} 1.0' in metrics


async def test_a_broker_stops_and_starts() -> None:
    async with serving_api(brokers=3) as api:
        stopped = await api.call("POST", "/v1/cluster/brokers/2/stop")
        assert (stopped.status, stopped.value["live"], stopped.value["owned_partitions"]) == (200, False, 0)
        assert 2 not in await owners(api, "__consumer_offsets")
        assert (await api.call("POST", "/v1/cluster/brokers/2/stop")).status == 422
        started = await api.call("POST", "/v1/cluster/brokers/2/start")
        assert (started.status, started.value["live"]) == (200, True)
        assert (await api.call("POST", "/v1/cluster/brokers/2/start")).status == 422


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"to": 1}, 400),
        ({"to": 1, "group": "billing", "partition": 0}, 400),
        ({"to": 1, "partition": 3}, 400),
        ({"to": 1, "partition": -1}, 400),
        ({"to": 1, "topic": "orders", "partition": 0, "hold_loading": "1s"}, 400),
        ({"to": 1, "partition": 0, "hold_loading": "11m"}, 400),
        ({"to": 1, "topic": "nothing", "partition": 0}, 404),
        ({"to": 9, "partition": 0}, 422),
    ],
    ids=str,
)
async def test_a_move_that_makes_no_sense_moves_nothing(body: dict[str, Any], status: int) -> None:
    async with serving_api(brokers=3) as api:
        before = await owners(api, "__consumer_offsets"), await owners(api, "orders")
        assert (await api.call("POST", "/v1/cluster/move", body)).status == status
        assert (await owners(api, "__consumer_offsets"), await owners(api, "orders")) == before


async def test_one_broker_owns_all_and_nothing_moves() -> None:
    async with serving_api() as api:
        assert set(await owners(api, "__consumer_offsets")) == {1}
        for path in ("/v1/cluster/brokers/1/stop", "/v1/cluster/brokers/1/start"):
            assert (await api.call("POST", path)).status == 422
        assert (await api.call("POST", "/v1/cluster/move", {"group": "billing", "to": 1})).status == 422
