"""The segment that compaction writes, until it stands in the place of others. Its names: `recovery/swap.py`."""

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Final

from storage.batch import read_header
from storage.errors import AppendFailed
from storage.log import PartitionLog
from storage.os_error import reason_of
from storage.recovery.swap import CLEANED_SUFFIX, SWAP_SUFFIX
from storage.segment import Segment
from storage.transaction_index import AbortedTransaction, encode_index, index_path

BUFFER_BYTES: Final = 256 * 1024


class CleanedSegment:
    """One new segment of a log. `add` batches, `sync`, then `take_the_place_of` the old ones, or `abandon`."""

    def __init__(self, log: PartitionLog, base_offset: int) -> None:
        self.size = 0
        self._log = log
        self._files = log.files
        self._segment = Segment(log.files, log.directory, base_offset, 0)
        self._segment.start_indexes()
        self._cleaned_path = self._segment.path + CLEANED_SUFFIX
        self._swap_path = self._segment.path + SWAP_SUFFIX
        self._aborted_path = index_path(log.directory, base_offset)
        if self._files.exists(self._cleaned_path):
            self._files.unlink(self._cleaned_path)
        self._file = self._files.open_append(self._cleaned_path)
        self._buffer = bytearray()
        self._is_in_place = False

    def add(self, data: bytes) -> None:
        """Takes the next batch. Raises OSError."""
        header = read_header(data)
        assert header.base_offset >= self.next_offset, (self._cleaned_path, self.next_offset)
        interval_bytes = self._log.config.index_interval_bytes
        self._segment.note(self.size, len(data), header.last_offset, header.max_timestamp_ms, interval_bytes)
        self.size += len(data)
        self._buffer += data
        if len(self._buffer) >= BUFFER_BYTES:
            self._write()

    @property
    def next_offset(self) -> int:
        """Where the next batch begins at the least."""
        return self._segment.next_offset

    def _write(self) -> None:
        self._file.write(bytes(self._buffer))
        self._buffer.clear()

    def sync(self) -> None:
        """Makes all of it durable; blocks, safe in another thread if nothing else is done here. Raises OSError."""
        self._write()
        self._file.fdatasync()

    def abandon(self) -> None:
        """Removes the file, unless it has become part of the log. Never raises OSError."""
        if self._is_in_place:
            return
        self._file.close()
        with suppress(OSError):
            if self._files.exists(self._aborted_path + SWAP_SUFFIX):
                # Without the others, it would be taken for the index of a segment that is in place.
                self._files.unlink(self._aborted_path + SWAP_SUFFIX)
                self._log.sync_directory()
            for path in filter(self._files.exists, (self._cleaned_path, self._swap_path)):
                self._files.unlink(path)

    def take_the_place_of(
        self,
        old: Sequence[Segment],
        end_offset: int,
        cleaned_to: int,
        aborted: Sequence[AbortedTransaction],
    ) -> Generator[Callable[[], None], None, None]:
        """Does so, in an order that a crash cannot spoil; each function is to be called in another thread.

        In: where what follows them begins; below which offset every record was met; the aborted transactions that
        its index is to name.
        Raises OSError before anything has changed; later failures poison the log and raise AppendFailed.
        """
        files, directory = self._files, self._log.directory
        sync_directory = self._log.sync_directory
        segment = self._segment
        assert self._file.size() == self.size, (self._cleaned_path, self.size)
        if aborted:
            files.write_atomically(self._aborted_path + SWAP_SUFFIX, encode_index(aborted))
        files.replace(self._cleaned_path, self._swap_path)
        yield sync_directory
        self._log.require_open()
        segment.adopt(self._file)
        segment.size = self.size
        self._is_in_place = True
        self._log.put_in_place(old, segment, cleaned_to)
        if self._log.follower is not None:
            self._log.follower.was_compacted(segment.base_offset, end_offset, aborted)
        try:
            for number, replaced in enumerate(old):
                # The new file takes the name of the first one.
                replaced.delete(keeps_log=number == 0)
            yield sync_directory
            self._log.require_open()
            files.replace(self._swap_path, segment.path)
            if aborted:
                yield sync_directory
                self._log.require_open()
                files.replace(self._aborted_path + SWAP_SUFFIX, self._aborted_path)
            segment.write_indexes()
            yield segment.sync_indexes
            yield sync_directory
        except OSError as error:
            failure = AppendFailed(
                directory, f"cannot put a compacted segment in place: {reason_of(error, directory)}"
            )
            raise self._log.poison(failure) from error
