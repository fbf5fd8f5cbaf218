"""Numbers for idempotent producers, never given out twice.

A block of numbers is reserved on the disk before the first of it is given out; after a crash the rest of
the block is lost, which costs nothing. Source: Kafka's `ProducerIdManager`.
"""

from typing import Final

from coordinator.topics.catalogue import Catalogue

BLOCK: Final = 1000


class ProducerIds:
    """Gives out producer ids."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._next = catalogue.producer_ids_reserved

    def take(self) -> int:
        """A producer id that no one has had. Raises OSError when the disk refuses; no id is lost then."""
        if self._next == self._catalogue.producer_ids_reserved:
            self._catalogue.producer_ids_reserved += BLOCK
            try:
                self._catalogue.save()
            except OSError:
                self._catalogue.producer_ids_reserved -= BLOCK
                raise
        producer_id = self._next
        self._next += 1
        return producer_id
