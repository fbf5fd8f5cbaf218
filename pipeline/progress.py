"""The progress of a running ingest."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_WAIT_S: Final = 0.25


class Progress(NamedTuple):
    """The completed work since the start of the run, and the remaining work."""

    records: int
    bytes: int
    bytes_left: int
    elapsed_s: float

    @property
    def left_s(self) -> float | None:
        """Return the estimated remaining seconds; None while unknown."""
        return self.elapsed_s * self.bytes_left / self.bytes if self.bytes else None


class Step(NamedTuple):
    """A step that begins."""

    number: int
    """Counts from 1."""
    of: int
    name: str


OnProgress = Callable[[Progress], None]


def follow_progress(
    query: "StreamingQuery",
    records: Mapping[int, int],
    stop: threading.Event,
    on_progress: OnProgress | None,
) -> Progress:
    """Wait until a query ends, and report every batch. Stop the query when `stop` is set.

    `records` has the number of records of each completed batch, as it becomes known.

    Raises:
        StreamingQueryException: the query failed.
    """
    began_s = time.monotonic()
    seen: set[int] = set()
    total = Progress(0, 0, 0, 0.0)
    is_running = True
    while is_running:
        is_running = not query.awaitTermination(_WAIT_S)  # type: ignore[arg-type]  # fractions work
        if stop.is_set():
            query.stop()
            is_running = False
        for raw in query.recentProgress:
            if raw["batchId"] in seen or not raw["sources"]:
                continue
            seen.add(raw["batchId"])
            count = total.records + records.get(raw["batchId"], 0)
            total = _add(total._replace(records=count), raw, time.monotonic() - began_s)
            if on_progress is not None:
                on_progress(total)
    return total


def _add(total: Progress, raw: Any, elapsed_s: float) -> Progress:
    source = raw["sources"][0]
    start, end = (_offset(source[name]) for name in ("startOffset", "endOffset"))
    read = end.get("bytes_read", 0) - start.get("bytes_read", 0)
    return Progress(total.records, total.bytes + read, end.get("bytes_left", 0), elapsed_s)


def _offset(text: Any) -> dict[str, Any]:
    found = json.loads(text) if isinstance(text, str) else text
    return found or {}
