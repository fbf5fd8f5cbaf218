"""How many partitions the process has descriptors for.

The log of a partition keeps one file open, that of its active segment. What the process may have open in all is
a limit of the system's. A part of it is kept for everything else: the partitions of internal topics, which come
first, and what `open.files.reserved` says for connections, listeners and the small files that are written now
and then. What is left is for the partitions of topics. A change that would need more is refused before it is
made, and a start that finds more opens what it can.
"""

import errno
from typing import Final

from coordinator.topics.refusal import Refusal
from protocol.errors import ErrorCode

_REMEDY: Final = "Raise it (ulimit -n, LimitNOFILE=, docker run --ulimit nofile=), or delete topics"


class TooManyPartitions(Refusal):
    """There are no descriptors for so many."""


class NoFileLeft(OSError):
    """A partition is offline because there is no descriptor for its log."""


class OpenFiles:
    """The partitions of topics, counted: those that there are, and those whose logs are open."""

    __slots__ = ("_limit", "most", "open", "promised")

    def __init__(self, limit: int, reserved: int) -> None:
        """In: files that the process may have open; of these, kept for what is no partition (at most half)."""
        self._limit = limit
        self.most = limit - min(reserved, limit // 2)
        """Partitions of topics that there may be."""
        self.promised = 0
        """Those that there are, or that are being made."""
        self.open = 0

    def keep_for_coordinators(self, partitions: int) -> None:
        """An internal topic has so many partitions, or is about to: their logs are open as well."""
        self.most = max(0, self.most - partitions)

    def promise(self, partitions: int) -> None:
        """Counts new partitions. Raises TooManyPartitions."""
        if self.promised + partitions > self.most:
            raise TooManyPartitions(
                ErrorCode.POLICY_VIOLATION,
                f"{partitions} more partitions would be {self.promised + partitions}, and this broker has file "
                f"descriptors for {self.most}, because its limit of open files is {self._limit}. {_REMEDY}",
            )
        self.promised += partitions

    def take(self) -> None:
        """Counts a log that is about to be opened. Raises NoFileLeft."""
        if self.open >= self.most:
            raise NoFileLeft(
                errno.EMFILE,
                f"there are file descriptors for {self.most} partitions, because the limit of open files is "
                f"{self._limit}. {_REMEDY}",
            )
        self.count()

    def count(self) -> None:
        """Counts a log that is open."""
        self.open += 1

    def give_back(self) -> None:
        """A log is closed, or could not be opened after all."""
        self.open -= 1

    def gone(self, partitions: int) -> None:
        """Partitions are there no more."""
        self.promised -= partitions
