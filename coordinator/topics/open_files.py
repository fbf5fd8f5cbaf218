"""Limit the file descriptors that partitions use.

Each partition keeps one file open, its active segment. The system limits the open files of the process. Part of
that limit is reserved: for the partitions of internal topics, which take precedence, and, by `open.files.reserved`,
for connections, listeners and short-lived small files. The rest is for the partitions of topics. A change that
needs more is refused before it is applied. At start, groupd opens as many logs as the limit allows.
"""

import errno
from typing import Final

from coordinator.topics.api_error import ApiError
from protocol.error_codes import ErrorCode

_REMEDY: Final = "Raise it (ulimit -n, LimitNOFILE=, docker run --ulimit nofile=), or delete topics"


class TooManyPartitions(ApiError):
    """Too few file descriptors are left for the requested partitions."""


class NoFileDescriptorLeft(OSError):
    """A partition is offline because no file descriptor is left for its log."""


class OpenFileLimit:
    """Counts the existing partitions of topics and those with an open log."""

    __slots__ = ("_limit", "max_partitions", "open", "reserved")

    def __init__(self, limit: int, reserved: int) -> None:
        """Create the limit.

        Args:
            limit: the maximum number of open files of the process.
            reserved: the number of files reserved for other uses; at most half of `limit` applies.
        """
        self._limit = limit
        self.max_partitions = limit - min(reserved, limit // 2)
        """The maximum number of partitions of topics."""
        self.reserved = 0
        """The number of partitions that exist or are being created."""
        self.open = 0

    def reserve_for_coordinators(self, partitions: int) -> None:
        """Reserve descriptors for the partitions of an internal topic, since their logs are open as well."""
        self.max_partitions = max(0, self.max_partitions - partitions)

    def reserve_partitions(self, partitions: int) -> None:
        """Count new partitions.

        Raises:
            TooManyPartitions: the limit does not allow them.
        """
        if self.reserved + partitions > self.max_partitions:
            raise TooManyPartitions(
                ErrorCode.POLICY_VIOLATION,
                f"{partitions} more partitions would be {self.reserved + partitions}, but this broker has file "
                f"descriptors for only {self.max_partitions}, because its limit of open files is {self._limit}. "
                f"{_REMEDY}",
            )
        self.reserved += partitions

    def acquire_file(self) -> None:
        """Count a log before it is opened.

        Raises:
            NoFileDescriptorLeft: the limit is reached.
        """
        if self.open >= self.max_partitions:
            raise NoFileDescriptorLeft(
                errno.EMFILE,
                f"there are file descriptors for {self.max_partitions} partitions, because the limit of "
                f"open files is "
                f"{self._limit}. {_REMEDY}",
            )
        self.count_open_file()

    def count_open_file(self) -> None:
        """Count a log that is already open."""
        self.open += 1

    def release_file(self) -> None:
        """Uncount a log that was closed or failed to open."""
        self.open -= 1

    def release_partitions(self, partitions: int) -> None:
        """Remove deleted partitions from the count."""
        self.reserved -= partitions
