"""The entries that are over, encoded and packed, within a bound: what is kept is what is counted, and costs the
collector nothing.

When there is no room, the oldest entry of the group that has most (in bytes) goes first; the last two of each group
stay. Where even those are too much, the group that has been quiet for longest loses its own.
"""

from bisect import bisect_right
from collections import OrderedDict, deque
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, Self
from zlib import compress, decompress

ENTRY_OVERHEAD: Final = 200
"""What Python needs beside the bytes of an entry,"""
GROUP_OVERHEAD: Final = 800
"""and beside those of a group's name."""
KEPT: Final = 2
"""So many of each group stay."""
_SPARE: Final = 64
_FAST: Final = 1


class Stored(NamedTuple):
    """An entry. What it says of each member of a large group is much the same: packed it takes a tenth."""

    seq: int
    group_id: str
    packed: bytes

    @classmethod
    def of(cls, seq: int, group_id: str, data: bytes) -> Self:
        """In: the entry as JSON."""
        return cls(seq, group_id, compress(data, _FAST))

    @property
    def data(self) -> bytes:
        """It as JSON."""
        return decompress(self.packed)


class _Group:
    __slots__ = ("bytes", "entries")

    def __init__(self) -> None:
        self.entries: deque[Stored] = deque()
        self.bytes = 0


class LedgerStore:
    """See the top of this file."""

    def __init__(self, most_bytes: int) -> None:
        self.bytes = 0
        self.count = 0
        self.forgotten = 0
        """How many had to go."""
        self._most_bytes = most_bytes
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        """The one that was quiet for longest first."""
        self._largest: list[tuple[int, str]] = []
        """A heap of groups that have entries to spare, by their bytes, negative; some are not so any more."""

    def add(self, entry: Stored) -> None:
        """Keeps an entry, newer than all others."""
        group = self._groups.get(entry.group_id)
        if group is None:
            group = self._groups[entry.group_id] = _Group()
            self.bytes += GROUP_OVERHEAD + len(entry.group_id)
        self._groups.move_to_end(entry.group_id)
        size = len(entry.packed) + ENTRY_OVERHEAD
        group.entries.append(entry)
        group.bytes += size
        self.bytes += size
        self.count += 1
        self._note(entry.group_id, group)
        self._keep_bound()

    def last_of(self, group_id: str) -> Stored | None:
        """The newest of a group."""
        group = self._groups.get(group_id)
        return None if group is None else group.entries[-1]

    def amend(self, entry: Stored) -> None:
        """Puts this in the place of the newest of its group."""
        group = self._groups[entry.group_id]
        more = len(entry.packed) - len(group.entries[-1].packed)
        group.entries[-1] = entry
        group.bytes += more
        self.bytes += more
        self._note(entry.group_id, group)
        self._keep_bound()

    def of_group(self, group_id: str, after: int = -1) -> list[Stored]:
        """Those of a group with a higher number, oldest first."""
        group = self._groups.get(group_id)
        return [] if group is None else _after(list(group.entries), after)

    def of_all(self, after: int = -1) -> list[Stored]:
        """The same of all groups."""
        found = [entry for group in self._groups.values() for entry in group.entries if entry.seq > after]
        return sorted(found)

    def _keep_bound(self) -> None:
        while self.bytes > self._most_bytes and self.count > 1:
            self._forget_one()

    def _note(self, group_id: str, group: _Group) -> None:
        if len(group.entries) > KEPT:
            heappush(self._largest, (-group.bytes, group_id))
            if len(self._largest) > 4 * len(self._groups) + _SPARE:
                self._largest = [
                    (-one.bytes, name) for name, one in self._groups.items() if len(one.entries) > KEPT
                ]
                heapify(self._largest)

    def _forget_one(self) -> None:
        while self._largest:
            size, group_id = heappop(self._largest)
            group = self._groups.get(group_id)
            if group is not None and group.bytes == -size and len(group.entries) > KEPT:
                self._forget_oldest(group_id, group)
                self._note(group_id, group)
                return
        group_id, group = next(iter(self._groups.items()))
        self._forget_oldest(group_id, group)

    def _forget_oldest(self, group_id: str, group: _Group) -> None:
        size = len(group.entries.popleft().packed) + ENTRY_OVERHEAD
        group.bytes -= size
        self.bytes -= size
        self.count -= 1
        self.forgotten += 1
        if not group.entries:
            del self._groups[group_id]
            self.bytes -= GROUP_OVERHEAD + len(group_id)


def _after(entries: list[Stored], after: int) -> list[Stored]:
    return entries[bisect_right(entries, after, key=lambda entry: entry.seq) :]
