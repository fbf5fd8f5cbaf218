"""Which of the current offsets came from transactions, as far as it is known.

A record tells it, the value in it does not: of loaded offsets it is unknown until the next commit, and of offsets
that clients without membership committed as well. So this is soft, and beside the durable half. There is an entry
for each offset that was committed in a transaction since the load, at most.
"""

from collections.abc import Collection, Iterable
from typing import Final

from coordinator.group.offsets.offset_map import Place
from protocol.records import OffsetCommitValue

_NOWHERE: Final[Collection[tuple[str, int]]] = ()


class CommitKinds:
    """Of the groups of one shard; of those that were told to mix them nothing is kept but that."""

    __slots__ = ("_told", "_unknown_until_ms", "transactional")

    def __init__(self) -> None:
        self._unknown_until_ms: dict[str, int] = {}
        """By group: the wall time up to which nothing is known of how its offsets were committed."""
        self.transactional: dict[str, set[tuple[str, int]]] = {}
        """Topics and partitions of groups whose current offset came from a transaction. To be read, not written."""
        self._told: set[str] = set()

    def loaded(self, group_id: str, wall_ms: int) -> None:
        """Nothing is known of what a group committed before this time."""
        self._unknown_until_ms[group_id] = wall_ms

    def committed_externally(self, group_id: str, places: Iterable[Place], wall_ms: int) -> None:
        """Note that a client without membership set offsets, such as a tool that resets those of a stopped
        application. That is neither of the two ways in which the application commits."""
        self._unknown_until_ms[group_id] = wall_ms
        if group_id in self.transactional:
            for place in places:
                self.removed(place)

    def committed(self, places: Iterable[Place]) -> None:
        """A transaction was committed, and these are its offsets."""
        for group_id, topic, partition in places:
            if group_id not in self._told:
                self.transactional.setdefault(group_id, set()).add((topic, partition))

    def removed(self, place: Place) -> None:
        """There is no offset any more."""
        group_id, topic, partition = place
        places = self.transactional.get(group_id)
        if places is not None:
            places.discard((topic, partition))
            if not places:
                del self.transactional[group_id]

    def forget(self, group_id: str) -> None:
        """The group is gone."""
        self._unknown_until_ms.pop(group_id, None)
        self.transactional.pop(group_id, None)
        self._told.discard(group_id)

    def told(self, group_id: str) -> None:
        """It is known of a group that it mixes them."""
        self._told.add(group_id)
        self.transactional.pop(group_id, None)

    def is_told(self, group_id: str) -> bool:
        """Whether it is."""
        return group_id in self._told

    def transactional_of(self, group_id: str) -> Collection[tuple[str, int]]:
        """Topics and partitions of a group whose current offset came from a transaction."""
        return self.transactional.get(group_id, _NOWHERE)

    def is_plain(self, place: Place, current: OffsetCommitValue, now_ms: int) -> bool:
        """Whether a current offset is known to have been committed outside of transactions. In: the wall time."""
        group_id, topic, partition = place
        if (topic, partition) in self.transactional_of(group_id):
            return False
        unknown_until_ms = self._unknown_until_ms.get(group_id)
        return unknown_until_ms is None or unknown_until_ms < current.commit_timestamp <= now_ms
