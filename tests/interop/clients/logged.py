"""The log of a client library for each cell, where its user only learns that the connection failed."""

import logging
from collections import defaultdict
from collections.abc import Callable
from queue import SimpleQueue

from tests.interop.clients.visits import Cell


class NotLetIn(Exception):
    """The broker rejected the client. The text is the log of the client library."""


class Logged(logging.Handler):
    """Hands on the warnings and errors of a library, and prints them all the same."""

    def __init__(self, library: str, cell_of: Callable[[logging.LogRecord], str]) -> None:
        """Collect the records of a library's logger. `cell_of` returns the name of the cell of a record."""
        super().__init__(logging.WARNING)
        self._cell_of = cell_of
        self._said: defaultdict[str, SimpleQueue[str]] = defaultdict(SimpleQueue)
        logging.basicConfig(level=logging.WARNING)
        logging.getLogger(library).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Takes a record."""
        self._said[self._cell_of(record)].put(record.getMessage())

    def of(self, cell: Cell) -> SimpleQueue[str]:
        """Return the queue of log lines of a cell."""
        return self._said[cell["name"]]
