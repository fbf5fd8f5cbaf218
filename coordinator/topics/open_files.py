"""How many partitions the process has descriptors for.

The log of a partition keeps one file open, that of its active segment. What the process may have open in all is
a limit of the system's. A part of it is kept for everything else: the partitions of internal topics, which come
first, and what `open.files.reserved` says for connections, listeners and the small files that are written now
and then. What is left is for the partitions of topics. A change that would need more is refused before it is
made, and a start that finds more opens what it can.
"""

import errno
from typing import Final

from coordinator.topics.api_error import ApiError
from protocol.error_codes import ErrorCode

_REMEDY: Final = "Raise it (ulimit -n, LimitNOFILE=, docker run --ulimit nofile=), or delete topics"


class TooManyPartitions(ApiError):
    """There are no descriptors for so many."""


class NoFileDescriptorLeft(OSError):
    """A partition is offline because there is no descriptor for its log."""


class OpenFileLimit:
    """The partitions of topics, counted: those that there are, and those whose logs are open."""

    __slots__ = ("_limit", "max_partitions", "open", "reserved")

    def __init__(self, limit: int, reserved: int) -> None:
        """In: files that the process may have open; of these, kept for what is no partition (at most half)."""
        self._limit = limit
        self.max_partitions = limit - min(reserved, limit // 2)
        """Partitions of topics that there may be."""
        self.reserved = 0
        """Those that there are, or that are being made."""
        self.open = 0

    def reserve_for_coordinators(self, partitions: int) -> None:
        """An internal topic has so many partitions, or is about to: their logs are open as well."""
        self.max_partitions = max(0, self.max_partitions - partitions)

    def reserve_partitions(self, partitions: int) -> None:
        """Counts new partitions. Raises TooManyPartitions."""
        if self.reserved + partitions > self.max_partitions:
            raise TooManyPartitions(
                ErrorCode.POLICY_VIOLATION,
                f"{partitions} more partitions would be {self.reserved + partitions}, and this broker has file "
                f"descriptors for {self.max_partitions}, because its limit of open files is {self._limit}. "
                f"{_REMEDY}",
            )
        self.reserved += partitions

    def acquire_file(self) -> None:
        """Counts a log that is about to be opened. Raises NoFileDescriptorLeft."""
        if self.open >= self.max_partitions:
            raise NoFileDescriptorLeft(
                errno.EMFILE,
                f"there are file descriptors for {self.max_partitions} partitions, because the limit of "
                f"open files is "
                f"{self._limit}. {_REMEDY}",
            )
        self.count_open_file()

    def count_open_file(self) -> None:
        """Counts a log that is open."""
        self.open += 1

    def release_file(self) -> None:
        """A log is closed, or could not be opened after all."""
        self.open -= 1

    def release_partitions(self, partitions: int) -> None:
        """Partitions are there no more."""
        self.reserved -= partitions
