"""Which group goes by which clock: its own, else the one that is the default for all, else the process's."""

from collections.abc import Collection
from typing import Final

from coordinator.control.clock.group_time import GroupTime
from coordinator.machine.outcome import Now

MAX_HEARD: Final = 100_000
"""Members that are remembered with when they were heard."""
SPARE: Final = 16
"""So many more than twice the members of a group are remembered at most."""


class GroupTimes:
    """See the top of this file. It outlives what stands in front of shards."""

    def __init__(self) -> None:
        self.own: dict[str, GroupTime] = {}
        self.default: GroupTime | None = None
        self._heard_ms: dict[str, dict[str, int]] = {}
        self._heard = 0

    def __bool__(self) -> bool:
        return bool(self.own) or self.default is not None

    def of(self, group_id: str) -> GroupTime | None:
        """The clock of a group; None: it is the process's."""
        return self.own.get(group_id, self.default)

    def at(self, group_id: str, process: Now) -> Now:
        """What time it is for a group."""
        time = self.of(group_id)
        return process if time is None else time.at(process)

    # When members were heard: a clock that stands still cannot tell

    def hear(self, group_id: str, member_id: str, process_ms: int) -> None:
        """A member gave a sign of life, at a monotonic time of the process."""
        heard = self._heard_ms.setdefault(group_id, {})
        if member_id not in heard:
            if self._heard >= MAX_HEARD:
                return
            self._heard += 1
        heard[member_id] = process_ms

    def forget_gone(self, group_id: str, *there: Collection[str]) -> None:
        """Forgets those that are not there any more, from time to time."""
        if len(self._heard_ms.get(group_id, ())) > 2 * sum(map(len, there)) + SPARE:
            self.forget_others(group_id, set().union(*there))

    def heard_ms(self, group_id: str, member_id: str) -> int | None:
        """When a member was heard last; None when it was not since its group has a clock."""
        return self._heard_ms.get(group_id, {}).get(member_id)

    def forget_others(self, group_id: str, member_ids: set[str]) -> None:
        """Nobody else is a member."""
        heard = self._heard_ms.get(group_id, {})
        for member_id in [member_id for member_id in heard if member_id not in member_ids]:
            del heard[member_id]
            self._heard -= 1
        if not heard:
            self._heard_ms.pop(group_id, None)
