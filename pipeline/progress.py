"""How far a running ingest is."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_WAIT_S: Final = 0.25


class Progress(NamedTuple):
    """What was done since the start of the run, and what is left."""

    records: int
    bytes: int
    bytes_left: int
    elapsed_s: float

    @property
    def left_s(self) -> float | None:
        """The time that the rest will take, None while nobody can know."""
        return self.elapsed_s * self.bytes_left / self.bytes if self.bytes else None


class Step(NamedTuple):
    """A piece of work that begins."""

    number: int
    """From 1."""
    of: int
    name: str


OnProgress = Callable[[Progress], None]


def follow_progress(
    query: "StreamingQuery",
    records: Mapping[int, int],
    stop: threading.Event,
    on_progress: OnProgress | None,
) -> Progress:
    """Waits until a query ends or `stop` is set, which stops it, telling of every batch.

    In: the records of each batch that is done, as they become known. Raises StreamingQueryException when the
    query failed.
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
