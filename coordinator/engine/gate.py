"""Answers that wait until the log is durable up to where it ended when they were made.

Positions never fall, so the gate is a queue: what the disk has reached is released from its head, in order.
"""

from collections import deque


class Gate:
    """The held answers of one partition."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: deque[tuple[int, int, object]] = deque()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, position: int, waiter: int, response: object) -> None:
        """Keeps an answer until `position` (an end offset) is durable."""
        assert not self._held or position >= self._held[-1][0], (position, self._held[-1])
        self._held.append((position, waiter, response))

    def release(self, durable_offset: int) -> list[tuple[int, object]]:
        """Takes out the answers, as (waiter, response), that wait for nothing past `durable_offset`."""
        held = self._held
        released: list[tuple[int, object]] = []
        while held and held[0][0] <= durable_offset:
            _, waiter, response = held.popleft()
            released.append((waiter, response))
        return released

    def clear(self) -> None:
        """Forgets all of them; their waiters are answered otherwise."""
        self._held.clear()
