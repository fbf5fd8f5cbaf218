"""What goes wrong with the disk under a partition: told when it begins, when it changes, and when it is over.

Clients ask again and again while a disk is full, and every commit fails alike: a line for each would bury all
else.
"""

import logging

from coordinator import clock


class OngoingFailures:
    """What fails, by name."""

    __slots__ = ("_log", "_open")

    def __init__(self, logger: str) -> None:
        """In: the name under which it is told that something is in order again."""
        self._log = logging.getLogger(logger)
        self._open: dict[str, tuple[int, int, object]] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._open)

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def failed(self, name: str, error: Exception) -> bool:
        """Counts a failure; whether it is news, and therefore to be told."""
        count, since_ns, kind = self._open.get(name, (0, clock.monotonic_ns(), None))
        self._open[name] = (count + 1, since_ns, _kind(error))
        return kind != _kind(error)

    def is_over(self, name: str) -> None:
        """A write went through: tells so, if it had failed before."""
        failure = self._open.pop(name, None)
        if failure is not None:
            count, since_ns, _ = failure
            seconds = (clock.monotonic_ns() - since_ns) / 1e9
            self._log.info("%s is in order again after %.1f s and %d failures", name, seconds, count)


def _kind(error: Exception) -> object:
    """What makes two failures alike: not the position in the file."""
    return type(error), getattr(error.__cause__ or error, "errno", None)
