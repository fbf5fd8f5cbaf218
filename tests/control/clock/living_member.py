"""A live member: it joins, assigns if it leads, sends heartbeats, and rejoins on request.

It sends the requests itself over a real connection, and keeps the responses."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Self

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupResponse
from tests.broker.harness import Client, heartbeat_request, sync_request

GROUP = "billing"
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 5, 3, 3, 3
SUBSCRIPTION = b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff\0\0\0\0"
STABLE_WITHIN_S = 60


class LivingMember:
    """`is_mute` makes it send nothing over an open connection."""

    def __init__(
        self,
        server: Server,
        group_id: str,
        client_id: str,
        *,
        session_ms: int = 45_000,
        rebalance_ms: int = 300_000,
        heartbeat_s: float = 0.02,
        instance_id: str | None = None,
    ) -> None:
        self.client = Client(server, client_id)
        self.client_id = client_id
        self.member_id = ""
        self.generation_id = -1
        self.ids: list[str] = []
        """Every member id that it was given."""
        self.beats = 0
        """How many of its heartbeats were answered."""
        self.told: list[ErrorCode] = []
        """What its heartbeats were answered, but for NONE."""
        self.is_settled = asyncio.Event()
        """Whether it has the assignment of its generation, as far as it knows."""
        self.is_mute = False
        self._server = server
        self._group_id = group_id
        self._session_ms = session_ms
        self._rebalance_ms = rebalance_ms
        self._heartbeat_s = heartbeat_s
        self._instance_id = instance_id
        self._life: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.client.__aenter__()
        self._life = asyncio.ensure_future(self._live())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.die()

    async def die(self) -> None:
        """End the process with its connection, and wait until the server has noticed."""
        await self._end_life()
        host, port = self.client.writer.get_extra_info("sockname")
        self.client.writer.transport.abort()
        peer = f"{host}:{port}"
        await until(
            lambda: all(connection.client.peer != peer for connection in self._server.connections.open)
        )

    async def reconnect(self) -> None:
        """Break the connection, wait until the server has noticed, and continue with heartbeats over another
        connection."""
        await self.die()
        self.client = Client(self._server, self.client_id)
        await self.client.__aenter__()
        self._life = asyncio.ensure_future(self._go_on())

    async def leave(self) -> None:
        """Send LeaveGroup."""
        await self._end_life()
        await self.client.__aexit__()
        async with Client(port=self.client._port) as other:
            identity = MemberIdentity(member_id=self.member_id, group_instance_id=self._instance_id)
            await other.call(LeaveGroupRequest(group_id=self._group_id, members=[identity]), LEAVE_VERSION)

    async def join_anew(self) -> None:
        """It takes its session for over, and forgets its member id, over the same connection."""
        await self._end_life()
        self.member_id, self.is_mute = "", False
        self.is_settled.clear()
        self._life = asyncio.ensure_future(self._live())

    async def _end_life(self) -> None:
        life, self._life = self._life, None
        while life is not None and not life.done():
            life.cancel()  # again: a wait that was over in the same moment swallows one
            await asyncio.wait([life], timeout=0.05)

    async def settled(self) -> None:
        """Waits until it has an assignment."""
        await asyncio.wait_for(self.is_settled.wait(), STABLE_WITHIN_S)

    async def _go_on(self) -> None:
        await self._beat()
        self.is_settled.clear()
        await self._live()

    async def _live(self) -> None:
        while True:
            if await self._join() and await self._sync():
                self.is_settled.set()
                await self._beat()
                self.is_settled.clear()

    async def _join(self) -> bool:
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )
        joined = await self._asked(request, JOIN_VERSION)
        assert isinstance(joined, JoinGroupResponse)
        if joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        elif joined.member_id and joined.member_id != self.member_id:
            self.member_id = joined.member_id
            self.ids.append(joined.member_id)
        self.generation_id = joined.generation_id
        self._others = [member.member_id for member in joined.members]
        return joined.error_code == ErrorCode.NONE

    async def _sync(self) -> bool:
        assignments = dict.fromkeys(self._others, b"part")
        request = sync_request(self._group_id, self.member_id, self.generation_id, assignments)
        request.group_instance_id = self._instance_id
        synced = await self._asked(request, SYNC_VERSION)
        assert isinstance(synced, SyncGroupResponse)
        if synced.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.told.append(ErrorCode.UNKNOWN_MEMBER_ID)
            self.member_id = ""
        return synced.error_code == ErrorCode.NONE

    async def _beat(self) -> None:
        """Sends heartbeats until one is answered with an error."""
        request = heartbeat_request(self._group_id, self.member_id, self.generation_id)
        request.group_instance_id = self._instance_id
        while True:
            await asyncio.sleep(self._heartbeat_s)
            if self.is_mute:
                continue
            answer = await self._asked(request, HEARTBEAT_VERSION)
            assert isinstance(answer, HeartbeatResponse)
            self.beats += 1
            if answer.error_code != ErrorCode.NONE:
                self.told.append(ErrorCode(answer.error_code))
                if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                    self.member_id = ""
                return

    async def _asked(self, request: object, version: int) -> object:
        """Return the response without a limit of time. A parked response arrives when the group continues."""
        self.client.send(request, version)
        return await self.client.receive(wait_s=None)


async def all_settled(members: Sequence[LivingMember]) -> None:
    """Waits until all are in the same generation, each with its assignment."""

    def are_settled() -> bool:
        generations = {member.generation_id for member in members}
        return all(member.is_settled.is_set() for member in members) and len(generations) <= 1

    await until(are_settled)


async def members_of(stack: AsyncExitStack, server: Server, *names: str) -> list[LivingMember]:
    """A Stable group of these."""
    members = [await stack.enter_async_context(LivingMember(server, GROUP, name)) for name in names]
    await all_settled(members)
    return members


async def until(is_so: Callable[[], bool]) -> None:
    """Waits until something is so."""
    async with asyncio.timeout(STABLE_WITHIN_S):
        while not is_so():
            await _a_moment()


async def _a_moment() -> None:
    await asyncio.sleep(0.002)


def there(control: ControlPlane) -> set[str]:
    """The client ids of the members of the group."""
    view = control.clocks.find_group(GROUP)
    return set() if view is None else {member.name.client_id for member in view.members}
