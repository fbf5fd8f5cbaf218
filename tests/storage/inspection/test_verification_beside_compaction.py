"""A log is verified while its daemon compacts it or appends to it: nothing of that is wrong."""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import pytest

from storage.compaction.compaction import Compaction, find_log_to_clean
from storage.compaction.compaction_filter import CompactionTerms
from storage.inspection.log_reader import find_logs
from storage.inspection.verification import LogVerification
from storage.log import PartitionLog
from tests.storage.faulty_files import FaultyFiles
from tests.storage.transactional_log import DIRECTORY, HOUR_MS, TransactionalLog


class Watched:
    """Files of another process, which makes progress before each access."""

    def __init__(self, files: FaultyFiles, before: Callable[[], None]) -> None:
        self._files = files
        self._before = before

    def __getattr__(self, name: str) -> Any:
        self._before()
        return getattr(self._files, name)


def aborted_and_superseded() -> TransactionalLog:
    """Return a log of many segments with transactions that are aborted in a later segment."""
    transactions = TransactionalLog(FaultyFiles())
    for number in range(10):
        transactions.data(number % 2, key=f"key-{number % 3}")
        transactions.plain(f"plain-{number % 2}")
        transactions.plain(f"plain-{number % 3}")
        transactions.end(number % 2, is_committed=number % 4 == 3)
    for key in range(3):
        transactions.plain(f"key-{key}")
    for _ in range(8):
        transactions.plain("fill")
    return transactions


def compacting(log: PartitionLog, passes: int) -> Iterator[None]:
    """Compact a log repeatedly in steps; the delay for deleted files has passed at each pass."""
    for number in range(passes):
        now_ms = number * 2 * HOUR_MS
        todo = find_log_to_clean(log, 0, log.log_end_offset, now_ms)
        terms = CompactionTerms(now_ms, log.config.delete_retention_ms, lambda _: False)
        for step in Compaction(log, todo, terms, 1000).iterate_steps():
            if step is not None:
                step()
            yield


@pytest.mark.parametrize("passes_before", [0, 1])
@pytest.mark.parametrize(("steps", "looks"), [(1, 1), (1, 3), (1, 5), (1000, 1)])
def test_nothing_is_wrong_whenever_the_daemon_compacts(passes_before: int, steps: int, looks: int) -> None:
    """Verify while the daemon compacts.

    `passes_before` earlier compactions, then `steps` in `looks` file accesses.
    """
    for first in range(1 + passes_before, 50, 2):
        transactions = aborted_and_superseded()
        files = transactions.log.files
        assert isinstance(files, FaultyFiles)
        transactions.log.sync()
        deque(compacting(transactions.log, passes_before), maxlen=0)
        daemon = compacting(transactions.log, 3)
        looked = count(-first)

        def compact_a_little(looked: Iterator[int] = looked, daemon: Iterator[None] = daemon) -> None:
            look = next(looked)
            if look >= 0 and look % looks == 0:
                deque(islice(daemon, steps), maxlen=0)

        watched: Any = Watched(files, compact_a_little)
        (log,) = find_logs(files, DIRECTORY)
        assert list(LogVerification(watched, log).find_problems()) == [], first
        deque(daemon, maxlen=0)
        (log,) = find_logs(files, DIRECTORY)
        assert list(LogVerification(files, log).find_problems()) == [], first


def test_nothing_is_wrong_when_the_daemon_rolls_a_segment_meanwhile() -> None:
    """Each new segment has a snapshot of producers, which is of records that the verification may not have read."""
    for first in range(50):
        ours = aborted_and_superseded()
        files = ours.log.files
        assert isinstance(files, FaultyFiles)
        looked = count(-first)

        def append_once(looked: Iterator[int] = looked, ours: TransactionalLog = ours) -> None:
            if next(looked) == 0:
                for number in range(20):
                    ours.plain(f"more-{number}")

        watched: Any = Watched(files, append_once)
        (log,) = find_logs(files, DIRECTORY)
        assert list(LogVerification(watched, log).find_problems()) == [], first
