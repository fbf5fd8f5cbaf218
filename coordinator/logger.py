"""The log of the daemon: standard error, one line an event, in the form of Kafka's own log."""

import logging
import sys
from typing import Any, Final

from coordinator.printable_text import escape_unprintable

_LINE: Final = "[%(asctime)s] %(levelname)s [%(name)s] %(message)s"


class PrintableFormatter(logging.Formatter):
    """Escapes the unprintable characters of lines and tracebacks, so that they cannot steer a reader's terminal.

    The code that logs a name of a client escapes and shortens it already; this is the second guard.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is of logging
        return escape_unprintable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is of logging
        return "\n".join(map(escape_unprintable, super().formatException(ei).split("\n")))


def start_log(level: str = "INFO") -> None:
    """Sends everything from `level` up to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter(_LINE))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    # Nobody reads which thread or process of one wrote a line.
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False
    logging.raiseExceptions = False
