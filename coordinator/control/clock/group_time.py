"""The clock of a group, and the table that assigns clocks to groups.

A clock is the time of the process plus an offset, or an instant while it is frozen; it never runs backwards.
A group uses its own clock, else the default clock, else the time of the process. The table also records the
last sign of life of each member in process time, which a frozen clock cannot tell. It outlives the interceptors
of shards.
"""

from collections.abc import Collection
from typing import Final

from coordinator.core.outcome import Now


class GroupTime:
    """One clock. It never runs backwards: after a freeze it continues from the time at which it stopped.

    The arguments `process` are times of the engine, the base of this clock.
    """

    def __init__(self, starts_at: Now, process: Now) -> None:
        """Create a clock that shows `starts_at` at the time `process` of the engine."""
        self.expires_disconnected = False
        """Whether disconnected members expire while the clock is frozen."""
        self._ahead_ms = _subtract(starts_at, process)
        self._frozen_now: Now | None = None

    @property
    def is_frozen(self) -> bool:
        """Whether the clock is stopped."""
        return self._frozen_now is not None

    def group_now(self, process: Now) -> Now:
        """Return the time of the clock."""
        if self._frozen_now is not None:
            return self._frozen_now
        ahead_ms = self._ahead_ms
        return Now(process.monotonic_ms + ahead_ms.monotonic_ms, process.wall_ms + ahead_ms.wall_ms)

    def freeze(self, process: Now) -> None:
        """Stop the clock from now on."""
        self._frozen_now = self.group_now(process)

    def unfreeze(self, process: Now) -> None:
        """Start the clock from now on."""
        if self._frozen_now is not None:
            self._ahead_ms = _subtract(self._frozen_now, process)
            self._frozen_now = None
        self.expires_disconnected = False

    def advance_to(self, monotonic_ms: int) -> None:
        """Set a frozen clock ahead to a monotonic time of its own, in milliseconds. An earlier time has no
        effect."""
        assert self._frozen_now is not None, "a running clock cannot be set"
        by_ms = max(0, monotonic_ms - self._frozen_now.monotonic_ms)
        self._frozen_now = Now(self._frozen_now.monotonic_ms + by_ms, self._frozen_now.wall_ms + by_ms)

    def to_process_ms(self, deadline_ms: int, process: Now) -> int | None:
        """Return the monotonic time of the process at which this clock reaches `deadline_ms`; None if it never
        does."""
        if self._frozen_now is None:
            return deadline_ms - self._ahead_ms.monotonic_ms
        return process.monotonic_ms if deadline_ms <= self._frozen_now.monotonic_ms else None


def _subtract(one: Now, other: Now) -> Now:
    return Now(one.monotonic_ms - other.monotonic_ms, one.wall_ms - other.wall_ms)


MAX_HEARD: Final = 100_000
"""The maximum number of members with a remembered time of their last request."""
HEARD_SLACK: Final = 16
"""The number of members to remember beyond twice the members of a group, before the table is pruned."""


class GroupTimeTable:
    """The clocks of groups. The table outlives the interceptors of shards."""

    def __init__(self) -> None:
        self.by_group: dict[str, GroupTime] = {}
        self.default: GroupTime | None = None
        self._heard_ms: dict[str, dict[str, int]] = {}
        self._heard_count = 0

    def __bool__(self) -> bool:
        return bool(self.by_group) or self.default is not None

    def find_time(self, group_id: str) -> GroupTime | None:
        """Return the clock of a group, or None if it uses the time of the process."""
        return self.by_group.get(group_id, self.default)

    def group_now(self, group_id: str, process: Now) -> Now:
        """Return the present time of a group."""
        time = self.find_time(group_id)
        return process if time is None else time.group_now(process)

    def get_time(self, group_id: str | None) -> GroupTime | None:
        """Return the own clock of a group, or the default clock for None; None without such a clock."""
        return self.default if group_id is None else self.by_group.get(group_id)

    def add_time(self, group_id: str | None, process: Now) -> GroupTime:
        """Create the clock of a group, or the default clock for None, with the time that it replaces."""
        time = GroupTime(process if group_id is None else self.group_now(group_id, process), process)
        if group_id is None:
            self.default = time
        else:
            self.by_group[group_id] = time
        return time

    def remove_time(self, group_id: str | None) -> None:
        """Remove the clock of a group, or the default clock for None."""
        if group_id is None:
            self.default = None
        else:
            del self.by_group[group_id]

    # The monotonic process times of the last requests of members, because a frozen clock does not have them.

    def record_heard(self, group_id: str, member_id: str, process_ms: int) -> None:
        """Record the time of a request of a member, in monotonic milliseconds of the process."""
        heard_ms = self._heard_ms.setdefault(group_id, {})
        if member_id not in heard_ms:
            if self._heard_count >= MAX_HEARD:
                return
            self._heard_count += 1
        heard_ms[member_id] = process_ms

    def prune_heard(self, group_id: str, *there: Collection[str]) -> None:
        """Forget members that are not in `there`, if the table has many more members than the group."""
        if len(self._heard_ms.get(group_id, ())) > 2 * sum(map(len, there)) + HEARD_SLACK:
            self.keep_only_members(group_id, set().union(*there))

    def find_heard_ms(self, group_id: str, member_id: str) -> int | None:
        """Return the process time of a member's last request in milliseconds, or None without one since the clock
        was created."""
        return self._heard_ms.get(group_id, {}).get(member_id)

    def keep_only_members(self, group_id: str, member_ids: set[str]) -> None:
        """Forget all members of a group except the given ones."""
        heard_ms = self._heard_ms.get(group_id, {})
        for member_id in [member_id for member_id in heard_ms if member_id not in member_ids]:
            del heard_ms[member_id]
            self._heard_count -= 1
        if not heard_ms:
            self._heard_ms.pop(group_id, None)
