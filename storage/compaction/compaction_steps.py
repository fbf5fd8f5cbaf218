"""The steps of a compaction pass, and the work that is too long for one of them on the owner's thread.

A pass waits for each function that it hands to another thread. Such a function changes only objects of the pass.
"""

from collections.abc import Callable, Generator
from typing import Final, TypeVar

from storage.compression import NONE
from storage.storage_errors import CorruptBatch
from storage.stored_batch import StoredBatch

LONG_RECORDS: Final = 200
"""Records, or keys, of more work than fits into a step of a millisecond or two."""

CompactionStep = Callable[[], None] | None
"""None: that was a piece of work. A function: to be called in another thread before the pass goes on."""

T = TypeVar("T")

StepsTo = Generator[CompactionStep, None, T]
"""Steps that return a result."""
CompactionSteps = StepsTo[None]


def is_long(batch: StoredBatch) -> bool:
    """Whether the records of a batch may take long to decode: there are many, or a few bytes may unpack to
    megabytes."""
    return batch.header.records_count > LONG_RECORDS or batch.header.codec != NONE


def call(function: Callable[[], T], *, is_long: bool) -> StepsTo[T]:
    """Call a function, in another thread if it takes long. Raises the errors of the function.

    The other thread gets a function that raises no CorruptBatch: of errors only an OSError returns to the pass.
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
