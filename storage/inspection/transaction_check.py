"""Whether the index of aborted transactions beside a segment agrees with the log, and the snapshots of producers.

An index has to name every abort marker of its segment that ended a transaction of which anything is left, and
nothing that is no abort marker: a consumer who is told of such a transaction would leave out what its producer
committed later. Entries of transactions of which nothing is left do no harm. A snapshot has to be whole, and of
what lies before the end of the log.

A daemon may compact the log meanwhile: what was read of a transaction in one segment and an index of another moment
tell nothing of each other.

Source: Kafka's `TransactionIndex.sanityCheck`, `ProducerStateManager`.
"""

from collections.abc import Iterator, Mapping, Sequence

from storage.batch import BatchHeader
from storage.errors import DamagedFile
from storage.files import Files
from storage.inspection.directory_reader import list_names
from storage.os_error import reason_of
from storage.producers.marker import decode_marker
from storage.producers.snapshot import decode_snapshot, snapshot_offsets, snapshot_path
from storage.record import Record
from storage.segment import LOG_SUFFIX
from storage.transaction_index import TRANSACTION_INDEX_SUFFIX, AbortedTransaction, decode_index


class TransactionsCheck:
    """One pass along the segments of a log."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._open: set[int] = set()
        """Producers with a transaction of which a record was met."""
        self._markers: dict[int, int] = {}
        """Producers whose abort markers lie in the segment, by offset."""
        self._due: set[int] = set()
        """Where the markers lie that the index has to name."""
        self._has_bad_bytes = False
        self._ends: dict[str, int | None] = {}
        """The size of each segment so far, as it was read; None where batches were passed over."""

    def batch(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """The next sound batch. Raises CorruptBatch for a marker that is none."""
        if header.producer_id < 0 or not header.is_transactional:
            return
        if not header.is_control:
            if header.records_count:
                self._open.add(header.producer_id)
            return
        marker = decode_marker(header, list(records))
        if marker is None:
            return
        if not marker.is_committed:
            self._markers[header.base_offset] = header.producer_id
            if header.producer_id in self._open:
                self._due.add(header.base_offset)
        self._open.discard(header.producer_id)

    def bad_bytes(self) -> None:
        """Nobody can tell what the index may name."""
        self._has_bad_bytes = True

    def leave(self, path: str, end: int | None, *, is_sealed: bool) -> list[tuple[str, str, bool]]:
        """A segment ends here, at this byte; None where not all of it was read, as another took its place. Out: its
        index, what is wrong with that, and whether opening the log finds it out by itself. Of one that is still
        appended to nothing is due yet; of a log that is not as it was read any more nothing is said.

        Raises OSError.
        """
        markers, due, has_bad_bytes = self._markers, self._due, self._has_bad_bytes
        self._markers, self._due, self._has_bad_bytes = {}, set(), False
        self._ends[path] = end
        stem, suffix, rest = path.rpartition(LOG_SUFFIX)
        if not suffix:
            return []
        index_path = stem + TRANSACTION_INDEX_SUFFIX + rest
        try:
            named = decode_index(self._files.read(index_path), index_path)
        except FileNotFoundError:
            named = []
        except DamagedFile as error:
            return [(index_path, error.reason, True)]
        except OSError as error:
            return [(index_path, reason_of(error, index_path), True)]
        wrong = "" if has_bad_bytes or not is_sealed else _disagreement(named, markers, due)
        return [] if not wrong or self._has_moved_on() else [(index_path, wrong, False)]

    def _has_moved_on(self) -> bool:
        """Whether any segment up to here is another one by now: a transaction may begin segments before its end."""
        try:
            return any(self._files.size(path) != end for path, end in self._ends.items())
        except FileNotFoundError:
            return True


def _disagreement(named: Sequence[AbortedTransaction], markers: Mapping[int, int], due: set[int]) -> str:
    """What an index does not have in common with its segment, "" for nothing. In: what it names; producers of the
    abort markers, by offset; those that it has to name."""
    for aborted in named:
        if markers.get(aborted.last_offset) != aborted.producer_id:
            return f"producer {aborted.producer_id} has no abort marker at offset {aborted.last_offset}"
    missing = sorted(due.difference(aborted.last_offset for aborted in named))
    return f"does not name the transaction that the marker at offset {missing[0]} aborts" if missing else ""


def check_snapshots(files: Files, directory: str, log_end_offset: int) -> Iterator[tuple[str, str]]:
    """Snapshots that are not believed, and why. Raises OSError."""
    for offset in snapshot_offsets(list_names(files, directory)):
        path = snapshot_path(directory, offset)
        try:
            decode_snapshot(files.read(path), path)
        except OSError:
            continue  # removed meanwhile, or what `unusable_files` names
        except DamagedFile as error:
            yield path, error.reason
            continue
        if offset > log_end_offset:
            yield path, f"is of what lies before offset {offset}, but the log ends at {log_end_offset}"
