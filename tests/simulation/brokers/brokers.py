"""Three brokers as clients see them. A client looks up the owner when it connects and after NOT_COORDINATOR.

The brokers are one process: they crash, pause and lose unsynced data together.
"""

from collections.abc import Callable
from typing import Final

from coordinator.group.group_config import GroupConfig
from coordinator.group.group_shard import GroupShard
from tests.simulation.brokers.broker import Broker, SharedLog
from tests.simulation.checks import Checks
from tests.simulation.network import Connection, Request
from tests.simulation.world import World

NODE_IDS: Final = (1, 2, 3)


class Brokers:
    """All brokers, with the interface of a `Shell`."""

    broker: type[Broker] = Broker

    def __init__(
        self, world: World, config: GroupConfig, shard: Callable[..., GroupShard], checks: Checks
    ) -> None:
        self.world = world
        self.disk = SharedLog(world.random)
        self._led_to: dict[Connection, Broker] = {}
        self.all = {
            each: self.broker(world, config, shard, checks, each, self.disk, self._refused)
            for each in NODE_IDS
        }
        self.live = set(NODE_IDS)
        self.owner = self.all[NODE_IDS[0]]
        self.owner.take(1)

    def move(self, to: int, why: str) -> None:
        """Move the partition to another broker. Do nothing if that broker owns it already or is stopped."""
        before, after = self.owner, self.all[to]
        if to in self.live and after is not before and before.up:
            self.world.say("coordinator", f"{why}: from {before.node_id} to {to}")
            self.owner = after
            before.release(why)
            after.take(before.epoch + 1)

    def stop_one(self, node_id: int) -> None:
        """Stop one broker if others remain, and move its partition to one of them."""
        if node_id not in self.live or len(self.live) == 1 or not self.owner.up:
            return
        self.live.discard(node_id)
        self.world.say("coordinator", f"stopped: {node_id}")
        if self.owner.node_id == node_id:
            self.move(min(self.live), "stopped")
        self.all[node_id].disconnect()

    def start_all(self) -> None:
        """Start all stopped brokers."""
        self.live = set(NODE_IDS)

    # The interface of a shell

    def receive(self, connection: Connection, request: Request) -> None:
        """Pass a request to the broker of its connection."""
        if connection not in self._led_to:
            self._led_to[connection] = self.owner
        self._led_to[connection].receive(connection, request)

    def _refused(self, connection: Connection) -> None:
        """Send later requests of this connection to the current owner: its client looks up the coordinator."""
        self._led_to.pop(connection, None)

    def lost(self, connection: Connection) -> None:
        """Handle a closed connection."""
        self._led_to.pop(connection, None)
        for broker in self.all.values():
            broker.lost(connection)

    def crash(self) -> None:
        """Crash the process with all brokers."""
        for broker in self.all.values():
            if broker is not self.owner:
                broker.disconnect()
        self.owner.crash()

    def reload(self, why: str) -> None:
        """Unload the partition at its owner, and load it again."""
        self.owner.reload(why)

    def pause(self, span_ms: int) -> None:
        """Pause all brokers."""
        for broker in self.all.values():
            broker.pause(span_ms)

    # State that all brokers share

    @property
    def wall_offset_ms(self) -> int:
        """Milliseconds by which a fault has set the Unix time forward."""
        return self.owner.wall_offset_ms

    @wall_offset_ms.setter
    def wall_offset_ms(self, offset_ms: int) -> None:
        for broker in self.all.values():
            broker.wall_offset_ms = offset_ms

    @property
    def sync_ms(self) -> tuple[int, int]:
        """The minimum and maximum duration of a sync in milliseconds."""
        return self.owner.sync_ms

    @sync_ms.setter
    def sync_ms(self, span_ms: tuple[int, int]) -> None:
        for broker in self.all.values():
            broker.sync_ms = span_ms

    @property
    def paused_until_ms(self) -> int:
        """The time at which the process resumes."""
        return self.owner.paused_until_ms

    @paused_until_ms.setter
    def paused_until_ms(self, at_ms: int) -> None:
        for broker in self.all.values():
            broker.paused_until_ms = at_ms
