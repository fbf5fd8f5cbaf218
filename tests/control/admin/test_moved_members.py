"""After a coordinator has moved, members that live are not taken for dead, and members that died are."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from msgspec.structs import replace

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.problem import Problem, ProblemKind
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.broker.harness import Client, heartbeat_request, join_alone, settings, start
from tests.control.clock.living_member import until

GROUP = "billing"
SESSION_MS = 45_000


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """Three brokers in one process, the first of which coordinates the group."""
    server = await start(replace(settings(None, topics=[("orders", 1)]), brokers=3))
    partition = server.runtime.find_partition(GROUP).name
    if server.membership.ownership.find_owner(partition) != 1:
        server.membership.move_partition(partition, 1)
    await until(lambda: server.runtime.find_partition(GROUP).machine is not None)
    yield server
    await server.close()


@pytest.fixture
async def control(server: Server) -> AsyncIterator[ControlPlane]:
    control = ControlPlane(server)
    yield control
    control.close()


class Member:
    """The client of a member, with a connection that it keeps for metadata and one to its coordinator."""

    def __init__(self, server: Server, stack: AsyncExitStack, name: str, *, protocol: str) -> None:
        self._server, self._stack, self._name, self._protocol = server, stack, name, protocol
        self._member_id, self._epoch = f"{name}-id", 0

    async def connect(self, node_id: int) -> Client:
        """Open a connection to a broker, and send a request over it that does not say for which member."""
        [endpoint] = self._server.brokers.listeners[node_id].endpoints
        client = await self._stack.enter_async_context(Client(client_id=self._name, port=endpoint.port))
        await client.call(ApiVersionsRequest(), 0)
        return client

    async def join(self) -> None:
        """Join over a connection to broker 1."""
        self.metadata, self.coordinator = await self.connect(1), await self.connect(1)
        if self._protocol == "classic":
            self._member_id, self._epoch = await join_alone(self.coordinator, GROUP)
            return
        joined = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._member_id,
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        self._epoch = (await self.coordinator.call(joined, 1)).member_epoch
        await self.beat()

    async def beat(self) -> None:
        """Send a heartbeat to the coordinator."""
        if self._protocol == "classic":
            answer = await self.coordinator.call(heartbeat_request(GROUP, self._member_id, self._epoch), 3)
        else:
            beat = ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id=self._member_id, member_epoch=self._epoch, rebalance_timeout_ms=-1
            )
            answer = await self.coordinator.call(beat, 1)
        assert answer.error_code == ErrorCode.NONE


def findings(control: ControlPlane) -> list[str]:
    """Return the kinds of the findings about members."""
    return [finding.kind for finding in control.waits.explain_group(GROUP).findings if finding.members]


def is_connected(control: ControlPlane) -> bool:
    [member] = control.groups.get_group(GROUP).members
    return control.groups.describe_member(GROUP, member.name.member_id).is_connected


async def advance(control: ControlPlane, settle_ms: int = 0) -> list[str]:
    """The clients that an advance by a session takes for dead."""
    advanced = await control.clock_commands.advance_clock(
        GROUP, SESSION_MS, silent=None, settle_ms=settle_ms, description="advance 45s", actor=None
    )
    return advanced.silent


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_that_lives_is_not_taken_for_dead(
    server: Server, control: ControlPlane, protocol: str
) -> None:
    async with AsyncExitStack() as stack:
        alice = Member(server, stack, "alice", protocol=protocol)
        await alice.join()
        for to in (2, 3):
            await control.failover.failover_group(GROUP, 0, 0, 0, to=to)
            # A client that finds its new coordinator leaves the old one, and sends its heartbeat when that is due.
            alice.coordinator.writer.close()
            await alice.coordinator.closed()
            assert is_connected(control)
            assert findings(control) == []
            alice.coordinator = await alice.connect(to)
            assert is_connected(control)
            assert findings(control) == []
            with pytest.raises(Problem) as stopped:
                await advance(control)
            assert stopped.value.kind is ProblemKind.CLOCK_STOPPED
            await alice.beat()
            assert await advance(control) == []
            await control.clocks.remove(GROUP)
            assert is_connected(control)
            assert len(control.groups.get_group(GROUP).members) == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("is_heard", [True, False], ids=["heard", "not heard"])
async def test_a_member_that_dies_is_gone(
    server: Server, control: ControlPlane, protocol: str, *, is_heard: bool
) -> None:
    async with AsyncExitStack() as stack:
        alice = Member(server, stack, "alice", protocol=protocol)
        await alice.join()
        await control.failover.failover_group(GROUP, 0, 0, 0, to=2)
        alice.coordinator.writer.close()
        alice.coordinator = await alice.connect(2)
        if is_heard:
            await alice.beat()
            # The connection of its heartbeats counts, not any other one of its client.
            alice.coordinator.writer.close()
            await until(lambda: not is_connected(control))
            assert findings(control) == ["gone"]
        alice.coordinator.writer.close()
        alice.metadata.writer.close()
        await until(lambda: not is_connected(control))
        assert await advance(control) == ["alice"]
        assert control.groups.find_group(GROUP) is None or not control.groups.get_group(GROUP).members
