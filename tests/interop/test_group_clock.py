"""A stock client that was stopped for longer than its session comes back although the clock stands still."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from coordinator.broker.group_event_log import EventRank
from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.faults.fault_rule import ActionSpec, FaultRule, RequestMatch
from coordinator.group.group_event_types import GroupEvent, MemberExpired, MembersEvicted
from tests.control.serving import controlled
from tests.interop.broker import Broker
from tests.interop.conftest import command_of
from tests.interop.driver import DRIVERS, Driver
from tests.interop.group import Group, partitions_of
from tests.interop.member import Board

pytestmark = pytest.mark.interop

PARTITIONS = 6
REBALANCE_MS = 60_000
NAMED = {driver.name: driver for driver in DRIVERS}
T = TypeVar("T")


class Clocked:
    """A server and its clocks, in a thread with an event loop."""

    def __init__(self, server: Server, control: ControlPlane, loop: asyncio.AbstractEventLoop) -> None:
        self.control = control
        self.bootstrap = f"127.0.0.1:{server.endpoints[0].port}"
        self.lost: list[str] = []
        """The client ids of members that expired or were evicted."""
        self._loop = loop
        server.group_events.subscribe(EventRank.COMMANDS, self._take)

    def _take(self, _: int, event: GroupEvent, __: int, ___: object) -> None:
        if isinstance(event, MemberExpired):
            self.lost.append(event.member.member_id)
        elif isinstance(event, MembersEvicted):
            self.lost.extend(name.member_id for name in event.members)

    def do(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a call in the event loop and return its result."""
        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(60)

    def freeze(self, group: str, *, gone: bool) -> None:
        """Holds the clock of a group."""
        self.do(lambda: self.control.clocks.set_clock(group, frozen=True, expires_disconnected=gone))

    @contextmanager
    def held_heartbeats(self, client_id: str) -> Iterator[None]:
        """Hold the heartbeats of a client, and later requests on the same connections, until the context ends.

        The context begins when the first has arrived: the client has then read the answers to all earlier ones.
        """
        faults, name = self.control.faults, f"{client_id}-unheard"
        match = RequestMatch(api="Heartbeat", client_id=client_id)

        async def hold() -> None:
            faults.install_fault(
                FaultRule(name=name, match=match, times=None, do=ActionSpec(at="request", hold=True))
            )
            await faults.wait_for_hits(name, 1, 60_000)

        async def release() -> None:
            faults.remove_fault(name)

        self.do(hold)
        try:
            yield
        finally:
            self.do(release)

    def members(self, group: str) -> int:
        """How many the group has."""

        async def count() -> int:
            view = self.control.clocks.find_group(group)
            return 0 if view is None else len(view.members)

        return self.do(count)


@pytest.fixture
def clocked() -> Iterator[Clocked]:
    began: list[Clocked] = []
    is_up, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with controlled() as (server, control):
            began.append(Clocked(server, control, asyncio.get_running_loop()))
            is_up.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert is_up.wait(60)
    yield began[0]
    began[0]._loop.call_soon_threadsafe(stop.set)
    thread.join(60)


def group_of(clocked: Clocked, name: str, driver: Driver, board: Board, session_ms: int) -> Group:
    group = Group(Broker(clocked.bootstrap, None), driver, command_of(driver), name, board)
    group.session_timeout_ms, group.rebalance_timeout_ms = session_ms, REBALANCE_MS
    return group


def test_a_suspended_client_rejoins_a_frozen_group(
    clocked: Clocked, topic: str, group_name: str, board: Board
) -> None:
    """librdkafka counts its own session, forgets its member id and joins anew: its old id is let go.

    It does so only if no answer to a heartbeat arrives first: in its assignment callback, and with an answer in its
    socket, it keeps its session. So the broker holds the heartbeats of bob until bob has lost its session.
    """
    session_ms = 3000
    group = group_of(clocked, group_name, NAMED["confluent"], board, session_ms)
    group.broker.create_topic(topic, PARTITIONS)
    everything = partitions_of(topic, PARTITIONS)
    alice, bob = group.join(topic), group.join(topic, client_id="bob")
    group.converge([alice, bob], everything)
    clocked.freeze(group_name, gone=True)
    with clocked.held_heartbeats("bob"):
        bob.stop()
        threading.Event().wait(session_ms / 1000)  # its own timers run in reality
        assert clocked.members(group_name) == 2
        bob.resume()
        board.wait("bob to lose its session", lambda: bool(bob.of("lost")))
    group.converge([alice, bob], everything)
    assert clocked.members(group_name) == 2
    assert len(clocked.lost) == 1
