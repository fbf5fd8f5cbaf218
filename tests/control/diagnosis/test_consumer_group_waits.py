"""Waits and explanations of consumer groups (KIP-848): owners, pending revocations, and members that wait for
them."""

from collections.abc import AsyncIterator

import pytest

from coordinator.control.admin.group_models import GroupDescription
from coordinator.control.admin.group_operations import build_group_description
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from tests.broker.harness import Client
from tests.control.diagnosis.staged_group import GROUP, Stage, staged

REBALANCE_MS = 60_000
ASSIGNMENT_INTERVAL_MS = 10_000


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    interval = {"group.consumer.assignment.interval.ms": str(ASSIGNMENT_INTERVAL_MS)}
    async with staged(properties=interval) as stage:
        yield stage


class Modern:
    """A member over a connection of its own; it confirms nothing by itself. `owned` are partitions of orders."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.name, self.epoch, self.owned = name, 0, list[int]()
        self._stage = stage
        self._client: Client | None = None

    async def beat(self, *, confirms: list[int] | None = None, topic: str = "orders") -> None:
        """Send a heartbeat and adopt the response. The first one joins."""
        if self._client is None:
            self._client = (await self._stage.consumer(self.name)).client
        is_first = self.epoch == 0
        found = self._stage.server.data_plane.catalogue.find_topic("orders")
        assert found is not None
        owned = None
        if is_first or confirms is not None:
            part = ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=found.topic_id, partitions=confirms or []
            )
            owned = [part] if confirms else []
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=f"{self.name}-id",
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS if is_first else -1,
            subscribed_topic_names=[topic] if is_first else None,
            topic_partitions=owned,
        )
        answer: ConsumerGroupHeartbeatResponse = await self._client.call(request, 1)
        assert answer.error_code == ErrorCode.NONE, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = [number for part in answer.assignment.topic_partitions for number in part.partitions]


async def handing_over(stage: Stage) -> tuple[Modern, Modern]:
    """alice has all six partitions and must revoke half of them, for which bob waits."""
    alice, bob = Modern(stage, "alice"), Modern(stage, "bob")
    await alice.beat()
    await alice.beat(confirms=alice.owned)
    await bob.beat()
    assert "Assigning" in stage.explain().detail
    stage.held.advance(ASSIGNMENT_INTERVAL_MS)
    await alice.beat()
    await bob.beat()
    return alice, bob


def described(stage: Stage) -> GroupDescription:
    view = stage.view()
    assert view is not None
    return build_group_description(
        view, stage.connections.take_snapshot(view), stage.server.topic_images.get_current(), 0
    )


async def test_a_group_at_rest(stage: Stage) -> None:
    alice = Modern(stage, "alice")
    await alice.beat()
    await stage.check(
        state="Stable", members=1, clients=["alice"], owned=["orders"], owner={"orders-5": "alice"}
    )
    stage.held.advance(4_000)
    await stage.check(quiet="4s")
    assert stage.explain().detail == (
        f"billing is Stable since 4.0 s with 1 member (alice) in epoch {alice.epoch}."
    )
    assert not stage.explain().findings
    group = described(stage)
    assert (group.type, group.state, group.unowned) == ("consumer", "Stable", {})
    assert (group.generation_id, group.assignment_epoch) == (alice.epoch, alice.epoch)
    assert group.members[0].assignment == {"orders": [0, 1, 2, 3, 4, 5]}
    assert group.members[0].subscription == ["orders"]


async def test_pending_revocations_and_their_waiters_are_named(stage: Stage) -> None:
    alice, bob = await handing_over(stage)
    stage.held.advance(2_000)
    explained = stage.explain()
    assert explained.state == "Reconciling"
    assert "alice must still give up orders-" in explained.detail
    assert "in 58 s it would be fenced" in explained.detail
    assert "bob waits for orders-" in explained.detail
    assert " of alice." in explained.detail
    group = {member.client_id: member for member in described(stage).members}
    held, receiver = group["alice"].consumer, group["bob"].consumer
    assert held is not None
    assert receiver is not None
    assert held.revoking == receiver.target
    assert held.revokes_left_ms == 58_000
    assert sorted([*held.revoking["orders"], *held.target["orders"]]) == [0, 1, 2, 3, 4, 5]
    problem = await stage.unmet(state="Stable")
    assert "bob waits for orders-" in problem.detail
    await stage.unmet(quiet="1ms")

    await alice.beat(confirms=alice.owned)
    await bob.beat()
    await stage.check(state="Stable", members=2, owned=["orders"], owner={f"orders-{bob.owned[0]}": "bob"})


async def test_idle_members_and_missing_topics_are_named(stage: Stage) -> None:
    members = [Modern(stage, f"m{number}") for number in range(7)]
    for _ in range(4):
        stage.held.advance(ASSIGNMENT_INTERVAL_MS)
        for member in members:
            await member.beat(confirms=member.owned if member.epoch else None)
    await stage.check(state="Stable", members=7)
    assert "7 members share the 6 partitions of orders" in stage.found("idle")
    assert all(finding.kind != "left_out" for finding in stage.explain().findings)
    await Modern(stage, "lost").beat(topic="order")
    assert "lost subscribes to order, which does not exist" in stage.found("no_such_topic")
