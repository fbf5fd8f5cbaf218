"""The time of the machines: what they are told with every request, timer and load.

It is real time today. A clock that can be held or moved needs two more places to ask it: a heartbeat that changes
nothing brings the time at which its bytes were read, and `timers.py` compares deadlines with the process's own
clock (`coordinator/clock.py`), by which sockets, parked fetches and syncs go in any case.
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
