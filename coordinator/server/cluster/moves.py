"""Partitions that are moved on purpose: to another daemon, whom a pin tells, or away from here and back.

A pin may say for how long the daemon that takes the partition is to say that it loads. It does so once: it takes
that out of the pin as it gains the partition.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from coordinator.cluster.append import Partition
from coordinator.cluster.engine.engine import Engine, EngineError, Put, Transaction, WrittenAt
from coordinator.cluster.in_process import NotPossible
from coordinator.cluster.keys import Keys
from coordinator.cluster.member.member import Member
from coordinator.cluster.store.store import repeated
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("Cluster")


class Moves:
    """All methods belong to the event loop's thread."""

    def __init__(
        self,
        engine: Engine,
        keys: Keys,
        member: Callable[[], Member],
        why_not: Callable[[TopicPartition, int], str | None],
        in_background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """In: who knows why a broker cannot own a partition; who is told what takes a while."""
        self._engine = engine
        self._keys = keys
        self._member = member
        self._why_not = why_not
        self._in_background = in_background
        self._holds: dict[Partition, float] = {}
        """For how many seconds at least partitions are to be loading that are taken anew here."""

    def move(self, partition: TopicPartition, to: int, hold_loading_s: float, owner: int | None) -> bool:
        """Asks that a daemon own a partition; whether it does not yet. In: the owner, as far as is known. Raises
        NotPossible."""
        if to not in self._member().table.brokers:
            raise NotPossible(f"there is no broker {to}, or it does not live")
        why_not = self._why_not(partition, to)
        if why_not is not None:
            raise NotPossible(why_not)
        self.pin(partition, to, 0 if owner == to else hold_loading_s)
        return owner != to

    def pin(self, partition: TopicPartition, to: int, hold_loading_s: float = 0) -> None:
        """Has a daemon that lives own a partition, and keep it while it does."""
        self._in_background(self._pin(Partition(*partition), to, round(hold_loading_s * 1000)))

    async def _pin(self, partition: Partition, to: int, hold_ms: int) -> None:
        try:
            await repeated(lambda: self._member().move(partition, to, hold_ms))
        except EngineError as error:
            _LOG.error("%s-%d could not be moved to broker %d: %s", *partition, to, error)

    def retake(self, partition: TopicPartition, hold_loading_s: float) -> None:
        """Has this daemon take anew what it owns and has given up, if it still owns it."""
        where, member = Partition(*partition), self._member()
        if where in member.owned:
            self._holds[where] = hold_loading_s
            member.doubt(where)

    def hold_s(self, partition: Partition) -> float:
        """For how long a partition is to be loading at least that this daemon has gained just now."""
        if partition in self._holds:
            return self._holds.pop(partition)
        member = self._member()
        hold_ms, written_at = member.table.holds.get(partition, (0, 0))
        if not hold_ms or member.table.pins.get(partition) != member.node_id:
            return 0
        self._in_background(self._spend(partition, written_at))
        return hold_ms / 1000

    async def _spend(self, partition: Partition, written_at: int) -> None:
        pin = self._keys.pin(*partition)
        plain = Put(pin, b"%d" % self._member().node_id)
        try:
            await repeated(
                lambda: self._engine.transact(Transaction((WrittenAt(pin, written_at),), (plain,)))
            )
        except EngineError as error:
            _LOG.warning("%s-%d may say once more that it loads: %s", *partition, error)
