"""The steps of a compaction pass, and the calls that take too long for a step on the owner's thread.

A pass waits for each function that it hands to another thread. Such a function changes only objects of the
pass.
"""

from collections.abc import Callable, Generator
from typing import Final, TypeVar

from storage.compression import NONE
from storage.storage_errors import CorruptBatch
from storage.stored_batch import StoredBatch

LONG_RECORDS: Final = 200
"""Processing more records, or keys, takes longer than a step should (a millisecond or two)."""

CompactionStep = Callable[[], None] | None
"""A step of a pass. None: a piece of work is done. A function: the caller must run it in another thread before
the next step."""

T = TypeVar("T")

StepsTo = Generator[CompactionStep, None, T]
"""Steps that return a result."""
CompactionSteps = StepsTo[None]


def is_long(batch: StoredBatch) -> bool:
    """Return whether decoding the records of a batch may take long: it has many records, or its few bytes may
    decompress to megabytes."""
    return batch.header.records_count > LONG_RECORDS or batch.header.codec != NONE


def call(function: Callable[[], T], *, is_long: bool) -> StepsTo[T]:
    """Call a function, in another thread if it takes long. Raises the errors of the function.

    The function for the other thread catches CorruptBatch, and the pass raises it afterwards. The caller
    throws only an OSError into the pass.
    """
    if not is_long:
        return function()
    results: list[T | CorruptBatch] = []

    def keep_result() -> None:
        try:
            results.append(function())
        except CorruptBatch as error:
            results.append(error)

    yield keep_result
    (result,) = results
    if isinstance(result, CorruptBatch):
        raise result
    return result
