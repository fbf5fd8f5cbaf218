"""Faults that act when something happens in a group."""

import asyncio

from protocol.error_codes import ErrorCode
from tests.broker.harness import Client, heartbeat_request, join_alone, join_request
from tests.broker.test_group_partitions import active, fetch
from tests.control.faults.lab import Lab
from tests.control.faults.requests import GROUP


async def test_when_generation_two_forms_the_coordinator_moves(lab: Lab) -> None:
    name = lab.fault(
        on={"event": "GroupStabilized", "group": "bill*", "generation": ">=2"},
        do={"failover": {"loading": 1}},
    )
    epoch = lab.server.runtime.partitions[0].epoch
    async with Client(lab.server) as client:
        member_id, _ = await join_alone(client, GROUP)
        assert lab.status(name).hit == 0
        await client.call(join_request(GROUP, member_id), 3)
        status = await lab.hit(name)
        assert status.last is not None
        assert (status.last.group_id, status.last.what) == (GROUP, "failover on GroupStabilized")
        await active(lab.server)
        assert lab.server.runtime.partitions[0].epoch == epoch + 2


async def test_a_member_that_joins_is_disconnected(lab: Lab) -> None:
    lab.fault(on={"event": "MemberJoined", "client_id": "bob"}, do={"disconnect": "bob"})
    async with Client(lab.server, "alice") as alice, Client(lab.server, "bob") as bob:
        member_id, generation_id = await join_alone(alice, GROUP)
        await alice.call(heartbeat_request(GROUP, member_id, generation_id), 3)
        bob.send(join_request(GROUP), 3)
        assert await bob.closed()
        response = await alice.call(heartbeat_request(GROUP, member_id, generation_id), 3)
        assert response.error_code == ErrorCode.REBALANCE_IN_PROGRESS


async def test_a_hold_is_released_when_something_happens(lab: Lab) -> None:
    held = lab.fault({"api": "OffsetFetch"}, name="held", do={"at": "request", "hold": True})
    lab.fault(on={"event": "AssignmentApplied", "group": GROUP}, do={"release": held})
    async with Client(lab.server) as client, Client(lab.server) as waiting:
        waiting.send(fetch(), 5)
        await lab.hit(held)
        await join_alone(client, GROUP)
        assert (await waiting.receive()).error_code == 0


async def test_a_clock_is_held_and_a_session_ended_when_something_happens(lab: Lab) -> None:
    """An unknown member is logged and causes no harm."""
    lab.fault(on={"event": "GroupStabilized"}, do={"freeze": True})
    expiring = lab.fault(on={"event": "AssignmentApplied"}, do={"expire": ["nobody", "alice"]})
    async with Client(lab.server, "alice") as client:
        member_id, generation_id = await join_alone(client, GROUP)
        await lab.hit(expiring)
        assert lab.control.clocks.is_frozen(GROUP)
        heartbeat = heartbeat_request(GROUP, member_id, generation_id)
        async with asyncio.timeout(60):
            while (await client.call(heartbeat, 3)).error_code != ErrorCode.UNKNOWN_MEMBER_ID:
                pass
