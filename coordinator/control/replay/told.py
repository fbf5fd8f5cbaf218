"""The ledger of a recording: why the group rebalanced, as the ledger of a daemon tells it.

What only connections know (when a member was heard last, whether it has hung up) is in no recording, and left out.
"""

from typing import Final

from coordinator.control.acts import Acts
from coordinator.control.ledger.entry import LedgerEntry
from coordinator.control.ledger.ledger import Ledger
from coordinator.control.replay.player import Played, Player
from coordinator.control.replay.what_if import Added
from coordinator.machine.outcome import Now, Outcome
from coordinator.server.log_lines import SILENT

_BYTES: Final = 64 * 1024 * 1024
_NS_PER_MS: Final = 1_000_000
_MOST: Final = 1_000_000
_PARTITION: Final = 0


class _NoConnections:
    def silent_ms(self, connection_id: int) -> int | None:
        return None

    def connection_closed_ms_ago(self, connection_id: int) -> int | None:
        return None


class Told:
    """Listens to what a player plays."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._now = Now(0, 0)
        self._next = 0
        self._turn = 0
        self._ledger = Ledger(
            Acts(),
            _NoConnections(),
            self._count_partitions,
            lambda _: self._now,
            _BYTES,
            real_ns=lambda: self._now.monotonic_ms * _NS_PER_MS,
            turn=lambda: self._turn,
            topics=lambda: player.shard.topics,
        )

    def hear(self, step: Played | Added) -> None:
        """Something was played."""
        if isinstance(step, Played) and step.line.kind in ("load", "unload"):
            self._ledger.unloaded(_PARTITION)
        if step.outcome is not None:
            self._take(step.outcome, step.now)

    def entries(self) -> list[LedgerEntry]:
        """What it has to say, oldest first, with what is open at the end."""
        return self._ledger.entries(limit=_MOST)

    def _count_partitions(self, topic: str) -> int | None:
        found = self._player.shard.topics.by_name.get(topic)
        return None if found is None else found.partitions

    def _take(self, outcome: Outcome, now: Now) -> None:
        self._now, self._turn = now, self._next
        for event in outcome.events:
            if event.group_id == self._player.group_id:
                if type(event) not in SILENT:
                    self._ledger.observe(_PARTITION, event, self._next, now)
                self._next += 1
