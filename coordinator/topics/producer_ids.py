"""Numbers for idempotent producers, never given out twice.

A block of numbers is reserved on the disk before the first of it is given out; after a crash the rest of
the block is lost, which costs nothing. Source: Kafka's `ProducerIdManager`.
"""

from collections.abc import Callable
from typing import Final

from coordinator.topics.catalogue import Catalogue
from coordinator.topics.stepwise_work import StepGenerator, StepMark

BLOCK_SIZE: Final = 1000


class ProducerIdManager:
    """Gives out producer ids."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._next = self._end = catalogue.producer_ids_reserved
        self._is_reserving = False
        self.reserve_block: Callable[[], int | OSError] | None = None
        """Where others give out ids too: reserves a block that nobody else has, in any thread; the first of it."""

    def take_producer_id(self) -> int | None:
        """A producer id that no one has had; None where a block has to be reserved first."""
        if self._next == self._end:
            return None
        self._next += 1
        return self._next - 1

    def reserve_producer_id(self) -> StepGenerator[int]:
        """Take a producer id in steps, which reserve a block where needed. Raises OSError when the disk
        refuses; no id is lost then."""
        yield StepMark.CHANGES
        while (producer_id := self.take_producer_id()) is None:
            if self._is_reserving:
                yield _wait_for_reservation
            else:
                yield from self._reserve_block()
        return producer_id

    def _reserve_block(self) -> StepGenerator[None]:
        self._is_reserving = True
        if self.reserve_block is not None:
            try:
                first: int | OSError = yield self.reserve_block
            finally:
                self._is_reserving = False
            if isinstance(first, OSError):
                raise first
            self._next, self._end = first, first + BLOCK_SIZE
            return
        try:
            self._end = yield from self._catalogue.reserve_producer_ids(BLOCK_SIZE)
        finally:
            self._is_reserving = False


def _wait_for_reservation() -> None:
    """What is done elsewhere is done one after the other: this is done when the block is reserved, or is not."""
