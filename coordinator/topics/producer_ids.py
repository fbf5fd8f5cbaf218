"""Ids for idempotent producers, each of which is used only once.

A block of ids is reserved on the disk before the first of them is used. A crash loses the rest of the block,
which does no harm. Source: Kafka's `ProducerIdManager`.
"""

from collections.abc import Callable
from typing import Final

from coordinator.topics.catalogue import Catalogue
from coordinator.topics.long_work import LongWork

BLOCK_SIZE: Final = 1000

ReserveProducerIds = Callable[[], int]
"""Reserves a block of ids in a cluster, in any thread. Returns its first id. Raises OSError."""


class ProducerIdManager:
    """Returns new producer ids."""

    def __init__(self, catalogue: Catalogue, reserve_block: ReserveProducerIds | None = None) -> None:
        """Create a manager. `reserve_block` replaces the reservation in the catalogue."""
        self._catalogue = catalogue
        self._next = self._end = catalogue.producer_ids_reserved
        self._reserve_block = reserve_block

    def take_producer_id(self) -> int | None:
        """Return an id that no producer has had, or None if a block must be reserved first."""
        if self._next == self._end:
            return None
        self._next += 1
        return self._next - 1

    async def reserve_producer_id(self, work: LongWork) -> int:
        """Return an id that no producer has had. Reserve a block if necessary: if several requests need one at
        the same time, the first reserves it for all.

        Raises OSError if the reservation fails; no id is lost then.
        """
        work.begin_changes()
        while (producer_id := self.take_producer_id()) is None:
            if self._reserve_block is None:
                end = await self._catalogue.reserve_producer_ids(work, self._end, BLOCK_SIZE)
                # Another request may have used all ids of this block and reserved the next one.
                self._end = max(end, self._end)
            else:
                first = await work.call_in_thread(self._reserve_cluster_block)
                if first is not None:
                    self._next, self._end = first, first + BLOCK_SIZE
        return producer_id

    def _reserve_cluster_block(self) -> int | None:
        """Reserve a block of the cluster and return its first id. Return None if another request has reserved
        one meanwhile."""
        assert self._reserve_block is not None
        return self._reserve_block() if self._next == self._end else None
