"""A stock consumer meets faults and a coordinator that moves: aiokafka, in the loop of the server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.faults.fault_rule import ActionSpec, FaultRule, RequestMatch
from tests.broker.harness import Client, serving
from tests.broker.test_group_partitions import fetch

GROUP = "billing"
ORDERS = TopicPartition("orders", 0)
STORY_S = 60

pytestmark = pytest.mark.interop


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path, topics=[("orders", 2)]) as server:
        yield server


@pytest.fixture
async def control(server: Server) -> AsyncIterator[ControlPlane]:
    control = ControlPlane(server)
    yield control
    control.close()


@pytest.fixture
async def consumers(server: Server) -> AsyncIterator[list[Any]]:
    """Two members that share the topic."""
    made = [
        AIOKafkaConsumer(
            "orders",
            bootstrap_servers=f"127.0.0.1:{server.endpoints[0].port}",
            group_id=GROUP,
            client_id=name,
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
            retry_backoff_ms=50,
        )
        for name in ("alice", "bob")
    ]
    for consumer in made:
        await consumer.start()
    async with asyncio.timeout(STORY_S):
        while {len(consumer.assignment()) for consumer in made} != {1}:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.05)
    yield made
    for consumer in made:
        await consumer.stop()


def owner_of(consumers: list[Any]) -> Any:
    """Who has the first partition."""
    return next(consumer for consumer in consumers if ORDERS in consumer.assignment())


async def committed(server: Server) -> int:
    async with Client(server) as client:
        answer = await client.call(fetch(GROUP), 5)
        return int(answer.topics[0].partitions[0].committed_offset)


async def test_a_commit_with_a_lost_answer_is_repeated(
    server: Server, control: ControlPlane, consumers: list[Any]
) -> None:
    """The client commits the same once more on a new connection, and the application sees no error."""
    control.faults.install_fault(
        FaultRule(use="lost-commit-answer", name="lost", match=RequestMatch(group=GROUP))
    )
    async with asyncio.timeout(STORY_S):
        await owner_of(consumers).commit({ORDERS: 41})
        status = await control.faults.wait_for_hits("lost", 1, 1000)
    assert (status.matched, status.hit) == (2, 1)
    assert await committed(server) == 41


async def test_a_rebalance_that_a_held_join_keeps_open(
    server: Server, control: ControlPlane, consumers: list[Any]
) -> None:
    """One member's JoinGroup is held; the group waits for it, and forms when it is released."""
    rule = FaultRule(
        name="slow",
        match=RequestMatch(api="JoinGroup", client_id="bob", state="PreparingRebalance"),
        do=ActionSpec(at="request", hold=True),
    )
    control.faults.install_fault(rule)
    carol = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=f"127.0.0.1:{server.endpoints[0].port}",
        group_id=GROUP,
        client_id="carol",
        heartbeat_interval_ms=100,
    )
    starting = asyncio.ensure_future(carol.start())
    async with asyncio.timeout(STORY_S):
        await control.faults.wait_for_hits("slow", 1, STORY_S * 1000)
        partition = server.runtime.find_partition(GROUP)
        assert partition.machine is not None
        view = partition.machine.view_group(GROUP, server.group_clock.now())
        assert view is not None
        assert view.state == "PreparingRebalance"
        assert any(
            "holds the JoinGroup of bob" in one.sentence for one in control.faults.find_held_requests(view)
        )
        control.faults.release_fault("slow")
        await starting
        await carol.stop()


async def test_the_coordinator_moves_under_commits(
    server: Server, control: ControlPlane, consumers: list[Any]
) -> None:
    """No acknowledged commit is lost, and the members return with their partitions or after a rebalance."""
    acknowledged = 0
    async with asyncio.timeout(STORY_S):
        for number in range(5):
            moving = asyncio.ensure_future(
                control.failover.failover_group(GROUP, 20 * number, 20 * number, 5000)
            )
            while not moving.done():
                owner = next((c for c in consumers if ORDERS in c.assignment()), None)
                if owner is not None:
                    offset = acknowledged + 1
                    try:
                        await owner.commit({ORDERS: offset})
                    except Exception:  # noqa: BLE001 - whatever the client makes of it: it was not acknowledged
                        await asyncio.sleep(0.01)
                    else:
                        acknowledged = offset
            answer = await moving
            assert answer.group is not None
            assert acknowledged <= await committed(server) <= acknowledged + 1
    assert acknowledged > 5
