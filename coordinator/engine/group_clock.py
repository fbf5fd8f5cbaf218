"""The time of the machines: what sessions, rebalances, retention and commit timestamps go by.

It is handed to machines by argument, and to nothing else: sockets, parked fetches and syncs go by the machine's own
clock (`coordinator/clock.py`), whatever the time of groups is.
"""

from coordinator import clock
from coordinator.machine.outcome import Now


class GroupClock:
    """Real time."""

    __slots__ = ("_turn",)

    def __init__(self, turn: clock.Turn) -> None:
        """In: the instant at which the bytes at hand were read."""
        self._turn = turn

    def at_request(self) -> Now:
        """The time of the request at hand: when its bytes were read."""
        return self._turn.now

    def now(self) -> Now:
        """The time now, for what nobody asked for: timers, loads, topics that go."""
        return clock.now()
