"""The files beside the segments of a log about its producers: snapshots, and indexes of aborted transactions.

What does not fit the log that was found goes: a snapshot of what lies past its end or before its start, one that no
segment begins with (but for the latest, which a clean stop has left), an index whose segment is gone. Where one
segment has taken the place of others and left their indexes, as groupd once did, its own gets what they say.

Source: Kafka's `ProducerStateManager.removeStraySnapshots`, `truncateAndReload`, `LogLoader`.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from storage.errors import DamagedFile
from storage.files import Files
from storage.producers.producer_entry import ProducerEntry
from storage.producers.producer_state import ProducerState
from storage.producers.snapshot import decode_snapshot, encode_snapshot, snapshot_offsets, snapshot_path
from storage.transaction_index import (
    AbortedTransaction,
    AbortedTransactions,
    decode_index,
    encode_index,
    index_offsets,
    index_path,
)


class ProducerFiles:
    """Of one log. `tidy` comes first."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.snapshots: list[int] = []
        """The offsets of those that were found and kept, ascending."""

    def tidy(self, bases: Sequence[int], start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Looks at what is there and removes what cannot be of this log. In: where its segments begin, and the log
        begins and ends. Out: the aborted transactions that the indexes name, as far as those are sound: the first
        one that is not goes, and so does every snapshot that would pass over its segment. Raises OSError."""
        names = self._files.listdir(self._directory)
        self.snapshots = snapshot_offsets(names)
        strays = [offset for offset in self.snapshots if offset not in bases]
        if strays and strays[-1] > bases[-1]:
            strays.pop()
        untrue = [offset for offset in self.snapshots if not start_offset < offset <= end_offset]
        self._remove_snapshots({*strays, *untrue})
        found: list[AbortedTransaction] = []
        replaced: list[str] = []
        is_removed = bool(untrue) and untrue[-1] > end_offset
        for base in sorted(index_offsets(names)):
            path = index_path(self._directory, base)
            if base not in bases and not bases[0] < base < bases[-1]:
                self._files.unlink(path)
                is_removed = True
                continue
            if base not in bases:
                replaced.append(path)
            try:
                found += decode_index(self._files.read(path), path)
            except DamagedFile:
                # What it said is found again in the batches.
                self._files.unlink(path)
                self._remove_snapshots([offset for offset in self.snapshots if offset > base])
        if replaced:
            aborted = AbortedTransactions(found)
            for base, following in pairwise([*bases, end_offset]):
                self.correct_index(base, aborted.ended_within(base, following))
            for path in filter(self._files.exists, replaced):
                self._files.unlink(path)
        if is_removed:
            # Where the log grows past them, they would be taken for files of what it will hold then.
            self._files.fsync_directory(self._directory)
        return found

    def _remove_snapshots(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._files.unlink(snapshot_path(self._directory, offset))
            self.snapshots.remove(offset)

    def latest_snapshot(self, limit: int) -> tuple[int, Iterable[tuple[int, ProducerEntry]]]:
        """The latest one of at most that offset, and the producers in it; 0 and none where there is none that is
        sound. Others that come before it in the search go. Raises OSError."""
        for offset in [offset for offset in reversed(self.snapshots) if offset <= limit]:
            path = snapshot_path(self._directory, offset)
            try:
                return offset, decode_snapshot(self._files.read(path), path)
            except DamagedFile:
                self._remove_snapshots([offset])
        return 0, ()

    def write_snapshot(self, offset: int, state: ProducerState) -> None:
        """Of what lies before an offset. Raises OSError."""
        self._files.write(snapshot_path(self._directory, offset), encode_snapshot(state))

    def correct_index(self, base_offset: int, aborted: Sequence[AbortedTransaction]) -> None:
        """Has the index of a segment name what its batches tell, durably where it did not. Raises OSError."""
        path = index_path(self._directory, base_offset)
        due = encode_index(aborted)
        if self._files.exists(path):
            if not due:
                self._files.unlink(path)
            elif self._files.read(path) != due:
                self._files.write_atomically(path, due)
        elif due:
            self._files.write_atomically(path, due)
