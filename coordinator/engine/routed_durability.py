"""Has each log made durable where it belongs: by the disk here, or by the engine that has it, of which the log here
is a copy."""

from coordinator.engine.durability import Durability, Synced
from storage.log import PartitionLog


class RoutedDurability:
    """A `Durability`."""

    def __init__(self, disk: Durability, engine: Durability) -> None:
        self._disk = disk
        self._engine = engine

    def need(self, log: PartitionLog, synced: Synced) -> None:
        """See `Durability`."""
        is_copy = log.durability.outgoing is not None
        (self._engine if is_copy else self._disk).need(log, synced)

    def kick(self) -> None:
        """See `Durability`."""
        self._disk.kick()
        self._engine.kick()

    def forget(self, synced: Synced) -> None:
        """See `Durability`."""
        self._disk.forget(synced)
        self._engine.forget(synced)
