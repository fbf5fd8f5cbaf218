"""A store over the model map that loses some requests and some responses."""

from random import Random

from coordinator.cluster.key_value_store import (
    KeyPage,
    ReadRange,
    StoreTransaction,
    StoreUnavailable,
    TransactionResult,
)
from tests.cluster.model_map import ModelMap


class FaultyStore:
    """The part of `KeyValueStore` that a `PartitionLogStore` uses.

    It keeps transactions and may repeat them later.
    """

    def __init__(self, map_: ModelMap, random: Random, faults: float) -> None:
        """Create a store. `faults` is the share of calls without a response (0 to 1)."""
        self.map = map_
        self.asked: list[StoreTransaction] = []
        self.dies_in = -1
        """The number of calls after which the store stops responding, as if the process were gone; -1 for never."""
        self._random = random
        self._faults = faults

    async def transact(self, transaction: StoreTransaction) -> TransactionResult:
        self._live()
        self.asked.append(transaction)
        if self._random.random() < self._faults:
            raise StoreUnavailable("the request was lost")
        outcome = self.map.transact(transaction)
        if self._random.random() < self._faults:
            raise StoreUnavailable("the answer was lost")
        return outcome

    async def read(self, read: ReadRange) -> KeyPage:
        self._live()
        if self._random.random() < self._faults:
            raise StoreUnavailable("the answer was lost")
        return self.map.read(read)

    def _live(self) -> None:
        if self.dies_in == 0:
            raise Dead
        self.dies_in -= 1


class Dead(BaseException):
    """End the process."""
