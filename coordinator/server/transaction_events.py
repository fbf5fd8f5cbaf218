"""What happens to transactions: counted, and written to the log."""

from collections.abc import Sequence
from typing import Any

from coordinator.engine.partition import Partition
from coordinator.machine.outcome import Event, Now
from coordinator.names import TRANSACTION_STATE
from coordinator.server.line_limit import LineLimit
from coordinator.server.metrics import Metrics
from coordinator.server.transaction_lines import log_transaction


class TransactionEvents:
    """An observer of the engine."""

    def __init__(self, metrics: Metrics, line_limit: LineLimit) -> None:
        self._metrics = metrics
        self._line_limit = line_limit

    def observe(self, partition: Partition[Any], events: Sequence[Event], first: int, now: Now) -> None:
        """See `Observer`."""
        if partition.name.topic != TRANSACTION_STATE:
            return
        for event in events:
            self._metrics.transactions[type(event).__name__] += 1
            log_transaction(partition.name, event, self._line_limit)
