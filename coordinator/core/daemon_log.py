"""The log of the daemon: its setup, and limits for lines that repeat. Lines go to standard error, one for
each event, in the form of Kafka's own log.

`AddressLineLimit` admits 20 lines for each peer address in a period of 10 s and sums up the rest in one line,
so that a flood of connections does not fill the disk. `LogLineLimit` admits each line once a minute and
counts the repeats, as for a client that retries a refused request. `OngoingFailures` tracks failures of the
operating system, such as a full disk: one line when a failure begins, one a minute while it lasts, and one
when it ends. Failures for the same reason share lines, since a full disk fails every commit in every
partition.
"""

import logging
import sys
from collections.abc import Hashable
from typing import Any, Final

from coordinator.core import clock
from coordinator.core.message_text import escape_unprintable
from storage.storage_errors import format_error_reason

_LINE_FORMAT: Final = "[%(asctime)s] %(levelname)s [%(name)s] %(message)s"


class PrintableFormatter(logging.Formatter):
    """Escapes the unprintable characters of lines and tracebacks, so that they cannot control a reader's terminal.
    The code that logs client text already escapes and shortens it; this is the second guard.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is of logging
        return escape_unprintable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is of logging
        return "\n".join(map(escape_unprintable, super().formatException(ei).split("\n")))


def start_log(level: str = "INFO") -> None:
    """Log all lines from `level` up to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter(_LINE_FORMAT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    # Thread and process ids are useless in the log of one process.
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False
    logging.raiseExceptions = False


_LOG: Final = logging.getLogger("SocketServer")

LINES_PER_PERIOD: Final = 20
ADDRESS_PERIOD_MS: Final = 10_000
MAX_ADDRESSES: Final = 1_000
"""The number of addresses with a count of their own. All others share one."""
_OTHER_ADDRESSES: Final = "/other addresses"


class AddressLineLimit:
    """Counts of one period, by address. A periodic job of the server ends each period by `log_summary`."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def admit_line(self, address: str) -> bool:
        """Return whether to log a line about this peer; count it in any case."""
        if address not in self._counts and len(self._counts) >= MAX_ADDRESSES:
            address = _OTHER_ADDRESSES
        count = self._counts[address] = self._counts.get(address, 0) + 1
        return count <= LINES_PER_PERIOD

    def log_summary(self) -> None:
        """End the period and log a summary of the suppressed lines."""
        for address, count in self._counts.items():
            if count > LINES_PER_PERIOD:
                unlogged = count - LINES_PER_PERIOD
                _LOG.warning("%d more connections from %s were closed or rejected", unlogged, address[1:])
        self._counts.clear()


FAILURE_PERIOD_MS: Final = 60_000


class OngoingFailures:
    """The operations that currently fail, by name, with the limits for their log lines."""

    __slots__ = ("_last_lines", "_log", "_open", "count")

    def __init__(self, logger: str) -> None:
        """Create it without failures. `logger` is the name of the logger for recoveries."""
        self.count = 0
        """The number of failures since the start."""
        self._log = logging.getLogger(logger)
        self._open: dict[str, tuple[int, int, bool, str]] = {}
        """The failing operations by name: number of failures, start (monotonic milliseconds), whether a line was
        logged, and the reason."""
        self._last_lines: dict[object, tuple[int, int]] = {}
        """The time of the last line (monotonic milliseconds) and the number of failures since then, by kind of
        failure."""

    def __bool__(self) -> bool:
        """Return whether any operation currently fails."""
        return bool(self._open)

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def find_reason(self, name: str) -> str:
        """Return the reason of the last failure of a failing operation."""
        return self._open[name][3]

    def record_failure(self, name: str, error: Exception) -> int:
        """Record a failure. Return the number of failures of its kind since the last line, this one included, if a
        line is due; else 0.
        """
        repeats = self.count_failure(error)
        count, since_ms, had_line, _ = self._open.get(name, (0, clock.monotonic_ms(), False, ""))
        self._open[name] = (count + 1, since_ms, had_line or repeats > 0, format_error_reason(error))
        return repeats

    def count_failure(self, error: Exception) -> int:
        """Count a failure that no later success ends. Return the number of failures of its kind since the last line
        if a line is due, else 0.
        """
        self.count += 1
        kind, now_ms = _classify_failure(error), clock.monotonic_ms()
        logged_ms, unlogged = self._last_lines.get(kind, (now_ms - FAILURE_PERIOD_MS, 0))
        if now_ms - logged_ms < FAILURE_PERIOD_MS:
            self._last_lines[kind] = (logged_ms, unlogged + 1)
            return 0
        self._last_lines[kind] = (now_ms, 0)
        return unlogged + 1

    def record_recovery(self, name: str) -> None:
        """Record that an operation works again; log it if its failure was logged."""
        failure = self._open.pop(name, None)
        if failure is not None and failure[2]:
            count, since_ms, _, _ = failure
            seconds = (clock.monotonic_ms() - since_ms) / 1000
            self._log.info("%s recovered after %.1f s and %d failures", name, seconds, count)


def format_repeats(count: int) -> str:
    """Return the suffix of a line that stands for several failures, empty for one."""
    return f" ({count} times since the last line)" if count > 1 else ""


def _classify_failure(error: Exception) -> object:
    """Return a key that is equal for similar failures. It ignores the written data and the position in the file."""
    refused = error if isinstance(error, OSError) else error.__cause__
    number = getattr(refused, "errno", None)
    return type(error) if number is None else number


LINE_PERIOD_MS: Final = 60_000
MAX_KEYS: Final = 500
"""The maximum number of distinct keys in a period. All others share a count."""
_OTHER_KEYS: Final = 0


class LogLineLimit:
    """The keys of lines of the last minute. Keys come from clients, so only their hashes are kept."""

    __slots__ = ("_last_lines",)

    def __init__(self) -> None:
        self._last_lines: dict[int, tuple[int, int]] = {}
        """By key hash: the time of the line (monotonic milliseconds) and the number of suppressed repeats, oldest
        line first.
        """

    def admit(self, *key: Hashable) -> int:
        """Return how often `key` came since its last line, this time included, if a line is due; else 0."""
        now_ms = clock.monotonic_ms()
        name = hash(key)
        if (
            name not in self._last_lines
            and len(self._last_lines) >= MAX_KEYS
            and not self._forget_oldest(now_ms)
        ):
            name = _OTHER_KEYS
        logged_ms, unlogged = self._last_lines.get(name, (now_ms - LINE_PERIOD_MS, 0))
        if now_ms - logged_ms < LINE_PERIOD_MS:
            self._last_lines[name] = (logged_ms, unlogged + 1)
            return 0
        self._last_lines.pop(name, None)
        self._last_lines[name] = (now_ms, 0)
        return unlogged + 1

    def _forget_oldest(self, now_ms: int) -> bool:
        """Remove the oldest entry if its line is due again anyway; return whether it was removed."""
        oldest = next(iter(self._last_lines))
        if now_ms - self._last_lines[oldest][0] < LINE_PERIOD_MS:
            return False
        del self._last_lines[oldest]
        return True
