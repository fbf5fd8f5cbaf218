"""What was done on purpose shortly before now: an entry that opens names it, unless another of its group has."""

from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from coordinator.control.acts import Act
from coordinator.control.ledger.entry import AlsoActed
from coordinator.control.ledger.names import shown, shown_or_none

ACTS_REMEMBERED: Final = 100
SHORTLY_MS: Final = 5_000
"""What was done on purpose so long before a rebalance began is told with it, unless an earlier one has told it."""
FAULT: Final = "fault"


class Noting(Protocol):
    """An entry that is open."""

    group_id: str

    @property
    def is_settled(self) -> bool:
        """Whether only a fault can still be in the way of a member."""

    def note_act(self, act: AlsoActed) -> None:
        """Something was done on purpose."""


class RecentActs:
    """See the top of this file. Times are the process's."""

    def __init__(self) -> None:
        self._acts: deque[tuple[int, Act, set[str]]] = deque(maxlen=ACTS_REMEMBERED)
        """What was done, when, and the groups that have an entry which names it."""

    def note_in(self, entries: Iterable[Noting], act: Act) -> set[str]:
        """Tells the open entries that it is about. Out: their groups."""
        named_by = set()
        for entry in entries:
            is_in_it = not entry.is_settled or act.kind == FAULT
            if act.group_id in (None, entry.group_id) and is_in_it:
                entry.note_act(also_acted(act))
                named_by.add(entry.group_id)
        return named_by

    def add(self, act: Act, named_by: set[str], real_ns: int) -> None:
        """Remembers it, with the groups that name it."""
        self._acts.append((real_ns, act, named_by))

    def tell(self, entry: Noting, real_ns: int) -> None:
        """An entry has just been opened."""
        while self._acts and real_ns - self._acts[0][0] > SHORTLY_MS * 1_000_000:
            self._acts.popleft()
        for _, act, named_by in self._acts:
            if act.group_id in (None, entry.group_id) and entry.group_id not in named_by:
                entry.note_act(also_acted(act))
                named_by.add(entry.group_id)


def also_acted(act: Act) -> AlsoActed:
    """As an entry has it."""
    return AlsoActed(kind=act.kind, what=shown(act.what), by=shown_or_none(act.by))
