"""Waits with a stock client: they end when the group is ready, and otherwise name the member in the way."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.control.control_plane import ControlPlane
from coordinator.control.diagnosis.wait_conditions import GroupConditions
from coordinator.control.problem import Problem
from tests.broker.harness import serving
from tests.interop.broker import Broker
from tests.interop.conftest import command_of
from tests.interop.driver import DRIVERS
from tests.interop.group import Group
from tests.interop.member import Board

pytestmark = pytest.mark.interop

CONFLUENT = next(driver for driver in DRIVERS if driver.name == "confluent")
SESSION_TIMEOUT_MS = 120_000
"""No test waits for the end of a session."""
READY_MS = 60_000
LATE_MS = 4_000
"""More than the heartbeat interval of Kafka's clients, 3 s: a member that is silent for so long is late."""


class Trial:
    """A server in this process with members of a group outside of it."""

    def __init__(self, control: ControlPlane, group: Group) -> None:
        self.group = group
        self._waits = control.waits

    async def ready(self, *topics: str, members: int) -> None:
        """Waits until the group has so many and they own all of some topics."""
        conditions = GroupConditions(state="Stable", members=members, owned=list(topics))
        await self._waits.wait_for_conditions(self.group.name, conditions, READY_MS)

    async def rebalance(self) -> None:
        """Wait until the group is rebalancing: a new member has joined it."""
        conditions = GroupConditions(state="PreparingRebalance")
        await self._waits.wait_for_conditions(self.group.name, conditions, READY_MS)

    async def not_ready(self, conditions: GroupConditions, within_ms: int = 1_000) -> str:
        """Return the reason why the group does not meet conditions within some milliseconds."""
        with pytest.raises(Problem) as raised:
            await self._waits.wait_for_conditions(self.group.name, conditions, within_ms)
        return raised.value.detail


@pytest.fixture
async def trial(tmp_path: Path, board: Board) -> AsyncIterator[Trial]:
    command = command_of(CONFLUENT)
    async with serving(tmp_path, topics=(("orders", 6), ("payments", 3))) as server:
        control = ControlPlane(server)
        broker = Broker(f"127.0.0.1:{server.endpoints[0].port}", None)
        group = Group(broker, CONFLUENT, command, "billing", board)
        group.session_timeout_ms = group.rebalance_timeout_ms = SESSION_TIMEOUT_MS
        yield Trial(control, group)
        for member in board.members:
            member.dispose()
        control.close()


async def test_a_group_is_ready(trial: Trial) -> None:
    for name in ("alice", "bob", "carol"):
        trial.group.join("orders", instance_id=name)
    await trial.ready("orders", members=3)


async def test_a_member_that_was_killed(trial: Trial) -> None:
    trial.group.join("orders", instance_id="alice")
    bob = trial.group.join("orders", instance_id="bob")
    await trial.ready("orders", members=2)
    bob.kill()
    trial.group.join("orders", instance_id="carol")
    await trial.rebalance()
    said = await trial.not_ready(GroupConditions(state="Stable", members=3))
    assert "the JoinGroup of bob (static bob, last heard" in said
    assert "bob is disconnected, closed" in said


async def test_a_member_that_was_stopped(trial: Trial) -> None:
    trial.group.join("orders", instance_id="alice")
    bob = trial.group.join("orders", instance_id="bob")
    await trial.ready("orders", members=2)
    bob.stop()
    trial.group.join("orders", instance_id="carol")
    await trial.rebalance()
    said = await trial.not_ready(GroupConditions(state="Stable", members=3), within_ms=LATE_MS)
    assert "bob (static bob, last heard" in said
    assert "bob is connected, but sent no heartbeat" in said


async def test_a_member_that_reads_something_else(trial: Trial) -> None:
    trial.group.join("payments", instance_id="alice")
    await trial.ready("payments", members=1)
    said = await trial.not_ready(GroupConditions(owned=["orders"]), within_ms=100)
    assert "(rdkafka: payments)" in said


async def test_a_callback_that_does_not_return(trial: Trial) -> None:
    """The client's own thread sends heartbeats meanwhile, by default for five minutes."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    is_blocked, may_return, is_over = threading.Event(), threading.Event(), threading.Event()

    def revoked(*_: object) -> None:
        is_blocked.set()
        may_return.wait(60)

    def consume() -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": trial.group.broker.bootstrap,
                "group.id": trial.group.name,
                "client.id": "bob",
                "heartbeat.interval.ms": 300,
            }
        )
        consumer.subscribe(["orders"], on_revoke=revoked)
        while not is_over.is_set():
            consumer.poll(0.1)
        consumer.close()

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    try:
        await trial.ready("orders", members=1)
        trial.group.join("orders", instance_id="carol")
        assert await asyncio.to_thread(is_blocked.wait, 60)
        said = await trial.not_ready(GroupConditions(state="Stable", members=2))
        assert "asked bob to rejoin" in said
        assert "busy in its poll loop or a callback" in said
        may_return.set()
        await trial.ready("orders", members=2)
    finally:
        may_return.set()
        is_over.set()
        await asyncio.to_thread(thread.join, 60)
