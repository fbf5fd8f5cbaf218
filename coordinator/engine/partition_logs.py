"""The logs of the partitions of one internal topic: opened in the thread of the load queue, opened anew after a
failure, and let go once compaction has let go of them too.

What is opened is read then, if somebody still waits for it. Where each machine is to have a leader epoch of its
own, that is begun here, in the thread.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from coordinator.engine.leader_epoch import begin_leader_epoch
from coordinator.engine.load_queue import Opening
from coordinator.engine.machine import InternalTopic
from coordinator.engine.partition import Partition, PartitionState
from coordinator.engine.refused_partitions import RETRY_S
from coordinator.engine.shared import Shared
from coordinator.names import LogFlush
from storage.errors import LogPoisoned
from storage.log import PartitionLog

UNPIN_RETRY_S: Final = 0.01

Load = Callable[[Partition[Any], int, Opening], Iterator[object]]
"""Takes a partition, its tenure when the log was wanted, and the log: reads it, step by step."""


class PartitionLogs:
    """All methods belong to the event loop's thread."""

    def __init__(self, topic: InternalTopic[Any], shared: Shared, load: Load, load_durable: Load) -> None:
        """In: what reads a log that was opened; what reads of one that has failed only what is durable, and then
        has it opened anew."""
        self._topic = topic
        self._shared = shared
        self._load = load
        self._load_durable = load_durable
        self._is_stopped = False
        self._unsound: dict[int, PartitionLog] = {}
        """Logs that are being opened anew, by partition; nobody else looks at them."""
        self._reopening: set[tuple[int, int]] = set()
        """Partitions, with their tenure, whose log is in the thread that opens."""
        self._pinned: dict[int, PartitionLog] = {}
        """Logs of partitions that were given up while compaction was at work on them, until it is not any more."""

    def stop(self) -> None:
        """Nothing is opened any more."""
        self._is_stopped = True

    def open_in(self, partition: Partition[Any], after_s: float) -> None:
        """Has a partition's log opened and read, in some time."""
        if after_s:
            self._shared.loop.call_later(after_s, self._open_unpinned, partition, partition.tenure)
        else:
            self._open_unpinned(partition, partition.tenure)

    def _open_unpinned(self, partition: Partition[Any], tenure: int) -> None:
        """Opens a partition whose last log compaction may not have let go of yet."""
        if not partition.is_loading(tenure) or self._is_stopped:
            return
        if partition.number in self._pinned:
            self._shared.loop.call_later(UNPIN_RETRY_S, self._open_unpinned, partition, tenure)
        else:
            self._open(partition)

    def _open(self, partition: Partition[Any]) -> None:
        open_log = partial(self._for_good, partial(self._topic.open_log, partition.number), None)
        self._shared.queue.add(open_log, partial(self._load, partition, partition.tenure))

    def _for_good(self, open_log: Callable[[], PartitionLog], known: PartitionLog | None) -> PartitionLog:
        """A log whose machine may write to it, in the thread. In: what opens it, and the log that may be what it
        gives. Raises StorageError, OSError."""
        log = open_log()
        if self._topic.begins_epochs:
            try:
                begin_leader_epoch(log)
            except BaseException:
                if log is not known:
                    log.close(clean=False)
                raise
        return log

    def open_again(self, partition: Partition[Any]) -> None:
        """Reads what the disk holds; the log itself is opened anew only where it is not sure what that is."""
        log = partition.log or self._unsound.get(partition.number)
        if log is None:
            self._open(partition)
            return
        load = partial(self._load, partition, partition.tenure)
        if log.is_pinned:
            # Its compaction notices soon. Until then it may be about to replace files.
            log.poison(LogPoisoned(log.directory, "is about to be read again"))
            self._shared.loop.call_later(UNPIN_RETRY_S, self._try, partition, partition.tenure)
            return
        itself = partial(_itself, log)
        if log.failure is None and not log.is_closed:
            self._shared.queue.add(partial(self._for_good, itself, log), load)
            return
        partition.log = None
        self._unsound[partition.number] = log
        if log.is_closed or self._topic.flush is not LogFlush.ALWAYS:
            self.reopen(partition, log)
        else:
            self._shared.queue.add(itself, partial(self._load_durable, partition, partition.tenure))

    def reopen(self, partition: Partition[Any], log: PartitionLog) -> None:
        """Has a log that has failed opened anew and read."""
        tenure = partition.tenure
        if (partition.number, tenure) not in self._reopening:
            self._reopening.add((partition.number, tenure))
            reopen = partial(self._for_good, log.reopen, None)
            self._shared.queue.add(reopen, partial(self._load, partition, tenure))

    def try_later(self, partition: Partition[Any]) -> None:
        """Has the log of a partition that the disk refused read again in a while, if that is wanted then."""
        self._shared.loop.call_later(RETRY_S, self._try, partition, partition.tenure)

    def _try(self, partition: Partition[Any], tenure: int) -> None:
        if not self._is_stopped and self.is_wanted(partition, tenure):
            self.open_again(partition)

    @staticmethod
    def is_wanted(partition: Partition[Any], tenure: int) -> bool:
        """Whether a log that is opened is wanted; a partition that shows what is durable goes on with it."""
        shows = partition.state is PartitionState.READ_ONLY and partition.log is None
        return partition.is_loading(tenure) or (shows and partition.tenure == tenure)

    def opened(self, partition: Partition[Any], tenure: int) -> None:
        """What a partition wanted opened in this tenure was, or could not be."""
        self._reopening.discard((partition.number, tenure))

    def is_sound(self, partition: Partition[Any]) -> None:
        """A partition has its log again."""
        self._unsound.pop(partition.number, None)

    def let_go(self, partition: Partition[Any]) -> PartitionLog | None:
        """Closes the log of a partition that has no machine, as soon as compaction has let go of it too. Out: the
        log, if there was one."""
        log, partition.log = partition.log, None
        log = self._unsound.pop(partition.number, None) or log
        if log is None:
            return None
        if log.is_pinned:
            # Its compaction notices soon. Until then it may be about to replace files.
            log.poison(LogPoisoned(log.directory, "is being given up"))
            self._pinned[partition.number] = log
            self._shared.loop.call_later(UNPIN_RETRY_S, self._close_unpinned, partition.number, log)
        elif not log.is_closed:
            log.close(clean=False)
        return log

    def _close_unpinned(self, number: int, log: PartitionLog) -> None:
        if log.is_pinned and not self._is_stopped:
            self._shared.loop.call_later(UNPIN_RETRY_S, self._close_unpinned, number, log)
            return
        del self._pinned[number]
        if not log.is_closed:
            log.close(clean=False)


def _itself(log: PartitionLog) -> PartitionLog:
    return log
