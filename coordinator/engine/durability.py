"""Who makes durable what partitions have appended: the local disk (`Flusher`), or an engine (`Replication`)."""

from collections.abc import Callable
from typing import Protocol

from storage.errors import StorageError
from storage.log import PartitionLog

Synced = Callable[[PartitionLog, StorageError | None], None]
"""Takes a log, and why it is not durable, if so."""


class Durability(Protocol):
    """All methods belong to the event loop's thread."""

    def need(self, log: PartitionLog, synced: Synced) -> None:
        """Asks for what is in `log` now to be made durable, or where that is the case, for proof that whoever asks
        owns it; `kick` starts it. `synced` is called when that is done, or cannot be; a log has one owner."""

    def kick(self) -> None:
        """Starts what is needed."""

    def forget(self, synced: Synced) -> None:
        """Whoever was to be told that way is gone."""
