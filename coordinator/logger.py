"""The log of the daemon: standard error, one line an event, in the form of Kafka's own log."""

import logging
import sys
from typing import Final

_LINE: Final = "[%(asctime)s] %(levelname)s [%(name)s] %(message)s"


def start_log(level: str = "INFO") -> None:
    """Sends everything from `level` up to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_LINE))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    # Nobody reads which thread or process of one wrote a line.
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False
    logging.raiseExceptions = False
