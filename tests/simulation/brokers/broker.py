"""One of several brokers: it coordinates while it owns the partition, and has no state of it otherwise."""

from collections.abc import Callable
from typing import Any, Final

from coordinator.group.group_config import GroupConfig
from coordinator.group.group_shard import GroupShard
from tests.simulation.checks import Checks, demand
from tests.simulation.disk import Disk
from tests.simulation.network import Connection, Request
from tests.simulation.shell import NotCoordinator, Shell
from tests.simulation.world import World

MOST_WAITERS: Final = 1_000_000_000
"""The size of the range of waiter numbers of one broker."""


class SharedLog(Disk):
    """The partition's log, which its owners write one after the other, each in its own epoch."""

    epoch = 0

    def append_in(self, epoch: int) -> None:
        """Check the epoch of an owner that is about to write."""
        demand(epoch >= self.epoch, f"epoch {epoch} is written after epoch {self.epoch}")
        self.epoch = epoch


class Broker(Shell):
    """A broker with its own shell; all brokers share the log."""

    def __init__(
        self,
        world: World,
        config: GroupConfig,
        shard: Callable[..., GroupShard],
        checks: Checks,
        node_id: int,
        log: SharedLog,
        refused: Callable[[Connection], None],
    ) -> None:
        """Create a broker. `refused` is called with each connection that gets NOT_COORDINATOR."""
        self.node_id = node_id
        self.is_owner = False
        self.epoch = 0
        super().__init__(world, config, shard, checks)
        self.disk = self.log = log
        self._waiters = node_id * MOST_WAITERS
        self._refused = refused

    def take(self, epoch: int) -> None:
        """Become the owner of the partition, and load it."""
        self.is_owner, self.epoch = True, epoch
        self.world.after(self.world.random.randint(1, 500), self._load)

    def release(self, why: str) -> None:
        """Lose the partition to another broker: fail blocked requests and discard all state."""
        self.is_owner = False
        self.reload(why)

    def disconnect(self) -> None:
        """Stop the broker: close its connections."""
        for connection in list(self._connections):
            connection.close()

    def _load(self) -> None:
        if self.is_owner:
            super()._load()

    def _handle(self, connection: Connection, request: Request) -> None:
        if self.is_owner:
            super()._handle(connection, request)
        else:
            connection.answer(request, NotCoordinator())
            self._refused(connection)

    def _follow(self, cause: Any, waiter: int, outcome: Any) -> None:
        if outcome.records or outcome.marker is not None:
            self.log.append_in(self.epoch)
        super()._follow(cause, waiter, outcome)
