"""A look at many transactional ids, a few at a time."""

from collections.abc import Iterable, Sequence
from typing import Final

LOOKED_AT_ONCE: Final = 200
"""So many per firing of a timer: others wait for the loop no longer than an append lasts."""


class Sweep:
    """What is left of one. `is_armed`: its timer will fire, for the next part or for the next sweep."""

    __slots__ = ("_left", "is_armed")

    def __init__(self) -> None:
        self._left: list[str] = []
        self.is_armed = False

    def __bool__(self) -> bool:
        """Whether it is under way."""
        return bool(self._left)

    def begin(self, transactional_ids: Iterable[str]) -> None:
        """Look at these, in this order."""
        self._left = list(transactional_ids)
        self._left.reverse()

    def take(self) -> list[str]:
        """The next ones."""
        taken = self._left[-LOOKED_AT_ONCE:]
        del self._left[-LOOKED_AT_ONCE:]
        taken.reverse()
        return taken

    def put_back(self, transactional_ids: Sequence[str]) -> None:
        """Some that were taken had no turn: they are the next ones again."""
        self._left += reversed(transactional_ids)
