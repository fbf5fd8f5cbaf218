"""Clocks of consumer groups: sessions and the time to give partitions up pass when they are moved, and members that
live are waited for.
"""

import pytest

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.problem import Problem, ProblemKind
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from tests.broker.harness import Client
from tests.control.clock.living_member import GROUP, there

SESSION_MS = 45_000
REVOCATION_MS = 20_000
ASSIGNMENT_INTERVAL_MS = 10_000


async def beat(client: Client, member_id: str, epoch: int, *owned: int, topic_id: bytes = b"") -> int:
    """A heartbeat; the epoch that it is answered. `owned` of 0: it joins with nothing."""
    parts = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=list(owned))]
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=REVOCATION_MS,
        subscribed_topic_names=["orders"] if epoch == 0 else None,
        topic_partitions=parts if owned else [] if epoch == 0 else None,
    )
    answer: ConsumerGroupHeartbeatResponse = await client.call(request, 1)
    assert answer.error_code == ErrorCode.NONE, answer
    return answer.member_epoch


async def test_a_silent_member_is_fenced_and_a_living_one_is_not(
    server: Server, control: ControlPlane
) -> None:
    async with Client(server, "alice") as one, Client(server, "bob") as other:
        await beat(one, "a", 0)
        await beat(other, "b", 0)
        advanced = await control.clock_commands.advance_clock(
            GROUP, SESSION_MS, silent=["bob"], settle_ms=5000, description="advance", actor=None
        )
        (fired,) = advanced.fired
        assert (fired.timer, fired.member) == ("session", "bob")
        assert "ConsumerMemberFenced bob" in fired.events
        assert there(control) == {"alice"}


async def test_an_expired_member_is_no_member(server: Server, control: ControlPlane) -> None:
    async with Client(server, "alice") as one, Client(server, "bob") as other:
        await beat(one, "a", 0)
        epoch = await beat(other, "b", 0)
        expired = await control.member_commands.expire_member(GROUP, "alice", None)
        assert expired.expired == "a"
        assert expired.rebalance is not None
        assert expired.rebalance > epoch
        assert there(control) == {"bob"}


async def test_a_live_member_that_does_not_revoke_stops_the_clock(
    server: Server, control: ControlPlane
) -> None:
    orders = server.data_plane.catalogue.find_topic("orders")
    assert orders is not None
    async with Client(server, "alice") as one, Client(server, "bob") as other:
        epoch = await beat(one, "a", 0)
        await beat(other, "b", 0)
        await control.clock_commands.advance_clock(
            GROUP, ASSIGNMENT_INTERVAL_MS, silent=[], settle_ms=5000, description="advance", actor=None
        )
        await beat(one, "a", epoch, 0, 1, 2, topic_id=orders.topic_id)
        await control.clocks.set_clock(GROUP, frozen=True, expires_disconnected=False)
        with pytest.raises(Problem) as raised:
            await control.clock_commands.advance_clock(
                GROUP, SESSION_MS, silent=[], settle_ms=50, description="advance", actor=None
            )
        assert raised.value.kind is ProblemKind.CLOCK_STOPPED
        assert "alice" in raised.value.detail
        assert "given up its partitions" in raised.value.detail
        state = control.clocks.describe_clock(GROUP)
        assert state.next is not None
        assert (state.next.timer, state.next.member) == ("revocation", "alice")
