"""Group time: what machines are told with every request, timer and load, and what they count deadlines in.

It is the process's time (`coordinator/clock.py`) unless somebody gives the engine another clock, which may stand
still or be ahead. Whatever has another end that keeps its own time stays with the process: sockets, parked fetches,
syncs, the timestamps of records, how long something took.

One engine has one clock. A machine whose keys have times of their own, such as a group that is held while others
go on, gets them from whoever stands in front of it (`Partition.put_in_front`): that one hands another `Now` to the
calls that are about such a key, and keeps back, or moves, the timers in what comes out. One call may be about many
keys (listing, expiring offsets, loading), so that a clock that is asked by key could not serve it.
"""

from collections.abc import Callable
from typing import Protocol

from coordinator import clock
from coordinator.machine.outcome import Now


class GroupClock(Protocol):
    """See the top of this file. Its time never runs backwards."""

    on_moved: list[Callable[[], None]]
    """Called, each, whenever this clock goes on otherwise than before: held, let go, moved ahead."""

    def at_request(self) -> Now:
        """The time of the request at hand: when its bytes were read."""

    def now(self) -> Now:
        """The time now, for what nobody asked for: timers, loads, messages."""

    def to_group_ms(self, process_ms: int) -> int:
        """The monotonic group time, in milliseconds, at a monotonic time of the process that has just been read."""

    def delay_ms_until(self, deadline_ms: int) -> int | None:
        """How long from now on the process has to wait for a monotonic group time, in milliseconds: 0 when it is
        there, None when it will not come before the clock is moved."""


class ProcessTime:
    """Group time that is the process's."""

    __slots__ = ("_arrival", "on_moved")

    def __init__(self, arrival: clock.Arrival) -> None:
        """In: the instant at which the bytes at hand were read."""
        self._arrival = arrival
        self.on_moved: list[Callable[[], None]] = []

    def at_request(self) -> Now:
        """See `GroupClock`."""
        return self._arrival.now

    def now(self) -> Now:
        """See `GroupClock`."""
        return clock.now()

    def to_group_ms(self, process_ms: int) -> int:
        """See `GroupClock`."""
        return process_ms

    def delay_ms_until(self, deadline_ms: int) -> int:
        """See `GroupClock`."""
        return max(0, deadline_ms - clock.monotonic_ms())
