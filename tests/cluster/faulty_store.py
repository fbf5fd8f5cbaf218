"""An engine over the model of the map, some of whose answers are lost, and some requests."""

from random import Random

from coordinator.cluster.engine.engine import Outcome, Page, Read, Transaction, Unavailable
from tests.cluster.model_map import ModelMap


class FaultyEngine:
    """What a store asks of an `Engine`. Transactions that were asked for are kept, and may be sent again."""

    def __init__(self, map_: ModelMap, random: Random, faults: float) -> None:
        """In: how many of a hundred calls have no answer, as a share."""
        self.map = map_
        self.asked: list[Transaction] = []
        self.dies_in = -1
        """After how many calls nothing is asked any more, as if the process were gone; -1: never."""
        self._random = random
        self._faults = faults

    async def transact(self, transaction: Transaction) -> Outcome:
        self._live()
        self.asked.append(transaction)
        if self._random.random() < self._faults:
            raise Unavailable("the request was lost")
        outcome = self.map.transact(transaction)
        if self._random.random() < self._faults:
            raise Unavailable("the answer was lost")
        return outcome

    async def read(self, read: Read) -> Page:
        self._live()
        if self._random.random() < self._faults:
            raise Unavailable("the answer was lost")
        return self.map.read(read)

    def _live(self) -> None:
        if self.dies_in == 0:
            raise Dead
        self.dies_in -= 1


class Dead(BaseException):
    """The process is gone."""
