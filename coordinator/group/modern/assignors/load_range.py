"""Who has least and who has most of the subscribers of a topic, while partitions are handed out or moved.

Source: Kafka's `UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer`.
"""

from collections.abc import Iterable, Sequence


class LoadRanges:
    """Members sorted by how many partitions they have, and two ranges of them: at the lower end those that share
    the smallest load, at the upper end those that share the largest. Each member of a range gets (or gives) one,
    then the load of the range is one more (or less), and the members that have just that many join it.

    In: how many partitions each member has, by its number; the numbers of the members, one at least. Loads are
    read as they are when a range reaches a member: up to then nothing of this topic was moved to it or from it.
    """

    __slots__ = (
        "_least_end",
        "_least_load",
        "_members",
        "_most_end",
        "_most_load",
        "_most_start",
        "_next_least",
        "_next_most",
        "_sizes",
    )

    def __init__(self, sizes: Sequence[int], members: Iterable[int]) -> None:
        self._sizes = sizes
        self._members = sorted(members, key=lambda number: (sizes[number], number))
        self._least_end = self._next_least = 0
        self._least_load = sizes[self._members[0]] - 1
        self._most_start = self._most_end = len(self._members)
        self._next_most = self._most_end - 1
        self._most_load = sizes[self._members[-1]] + 1

    def next_least_loaded(self) -> int:
        """The number of the member that is to get the next partition."""
        if self._next_least >= self._least_end:
            self._least_load += 1
            while self._least_end < len(self._members) and self._load_at(self._least_end) == self._least_load:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._members[self._next_least - 1]

    def next_most_loaded(self) -> int | None:
        """The number of the member that is to give the next partition; None: all are passed over."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_load = self._load_at(self._most_start - 1)
            else:
                self._most_load -= 1
            while self._most_start > 0 and self._load_at(self._most_start - 1) == self._most_load:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._members[self._next_most + 1]

    def pass_over_most_loaded(self) -> None:
        """The member that came last has none to give: it leaves the range."""
        last, members = self._most_end - 1, self._members
        here = self._next_most + 1
        members[here], members[last] = members[last], members[here]
        self._most_end = last

    def are_even(self) -> bool:
        """Whether the loads of both ranges differ by one at most."""
        return self._most_load - self._least_load <= 1

    def _load_at(self, place: int) -> int:
        return self._sizes[self._members[place]]
