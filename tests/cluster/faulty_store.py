"""A store over the model of the map, some of whose answers are lost, and some requests."""

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
    """What a `PartitionLogStore` asks of a `KeyValueStore`. Transactions that were asked for are kept, and
    may be sent again."""

    def __init__(self, map_: ModelMap, random: Random, faults: float) -> None:
        """In: how many of a hundred calls have no answer, as a share."""
        self.map = map_
        self.asked: list[StoreTransaction] = []
        self.dies_in = -1
        """After how many calls nothing is asked any more, as if the process were gone; -1: never."""
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
    """The process is gone."""
