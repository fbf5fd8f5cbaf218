"""The assertions detect a single planted fault in the engine before it does harm.

Each fault is a realistic mistake. An assertion that detects none of them is useless.
"""

from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

import pytest

from storage.batch import BatchHeader, assign_offsets, encode_batch, rewrite_batch
from storage.compaction import compaction
from storage.compaction.compaction import CleanedSegment, LogToClean, find_log_to_clean
from storage.compaction.compaction_filter import CompactionFilter, KeyOffsetMap
from storage.data_directory import DataDirectory
from storage.durability import LogDurability, SyncPlan
from storage.files import Files
from storage.inspection.log_reader import find_logs
from storage.inspection.segment_scan import Piece, SegmentScan
from storage.journal.journal_frame import JournalEntry
from storage.leader_epochs import EpochStart, LeaderEpochs
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.log_segments import LogSegments, walk_segments
from storage.metadata_files import MetaProperties
from storage.offset_checkpoint import write_offsets
from storage.record import Record
from storage.recovery.recovery import RecoveredLog, TailScan, _recover_segments, recover_log
from storage.repair.repair import LogRepair, RepairedSegment, format_leader_epochs
from storage.repair.repair_in_place import _InPlaceRepair, repair_in_place
from storage.retention import count_below, count_deletable
from storage.segment import LogSegment
from storage.segment_index import OffsetIndex, SegmentIndexes, TimeIndex
from storage.state_file import StatePoint
from storage.storage_errors import LogContradicted
from storage.stored_batch import StoredBatch
from storage.topic_partition import TopicPartition
from tests.runtime.states import written_state
from tests.storage.compaction.compacting import compact
from tests.storage.faulty_files import FaultyFile, FaultyFiles

META = MetaProperties("cluster", 1, "directory")
NAME = TopicPartition("log", 0)
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, cleanup_policy="compact,delete")
RECORD = Record(-1, 1000, b"key", b"value")
KEEPS_ALL = LogConfig(segment_bytes=700, index_interval_bytes=150, retention_ms=-1)
KEEPS_LITTLE = LogConfig(segment_bytes=700, index_interval_bytes=150, retention_bytes=1)


def put(log: PartitionLog, count: int) -> None:
    """Batches of two records; each key but one comes again soon."""
    for number in range(count):
        offset = log.log_end_offset
        keys = [b"once" if not offset else b"a-%d" % (number % 3), b"b-%d" % (number % 5)]
        log.append(encode_batch([Record(-1, 1000 + offset, key, b"value-%d" % offset) for key in keys]))


def live() -> None:
    """Everything that happens to a log in two lives, the first of which ends in a crash."""
    files = FaultyFiles()
    directory = DataDirectory.open(files, "/data", META)
    log = directory.open_log(NAME, CONFIG)
    put(log, 30)
    log.sync()
    compact(log)
    log.config = KEEPS_ALL
    log.delete_records_before(log.segments[1].base_offset + 1)
    log.truncate_to(log.segments[-2].base_offset + 3)
    for offset in range(log.log_start_offset, log.log_end_offset):
        assert log.read(offset, 1, up_to=log.log_end_offset)
    put(log, 20)
    log.sync()
    directory.write_checkpoints({NAME: log})
    files = files.crash()
    directory = DataDirectory.open(files, "/data", META)
    log = directory.open_log(NAME, KEEPS_LITTLE)
    directory.write_checkpoints({NAME: log})
    log.apply_retention(0, up_to=log.segments[2].base_offset)
    put(log, 10)
    directory.close({NAME: log})
    repair(files, log)


def repair(files: FaultyFiles, log: PartitionLog) -> None:
    """Damages the second segment of a closed log, and saves the rest."""
    path = log.segments[1].path
    files.names[path].data[70] ^= 1
    (found,) = find_logs(files, log.directory)
    repair_in_place(files, found, lambda log: LogRepair(files, log))


Fault = Callable[[pytest.MonkeyPatch], None]


def skips_an_unsynced_segment(patch: pytest.MonkeyPatch) -> None:
    sound = LogSegments.find_unsynced
    patch.setattr(LogSegments, "find_unsynced", lambda self: sound(self)[1:])


def begins_a_segment_elsewhere(patch: pytest.MonkeyPatch) -> None:
    sound = LogSegment.create.__func__  # type: ignore[attr-defined]

    def create(cls: type[LogSegment], files: Files, directory: str, base_offset: int) -> LogSegment:
        made: LogSegment = sound(cls, files, directory, base_offset + (1 if base_offset else 0))
        return made

    patch.setattr(LogSegment, "create", classmethod(create))


def places_a_batch_at_another_offset(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "storage.log.assign_offsets",
        lambda batch, base_offset, *rest: assign_offsets(batch, base_offset + 1, *rest),
    )


def loses_count_of_offsets(patch: pytest.MonkeyPatch) -> None:
    sound = LogSegment.append

    def append(self: LogSegment, *batch: Any) -> None:
        next_offset = self.next_offset
        sound(self, *batch)
        self.next_offset = next_offset

    patch.setattr(LogSegment, "append", append)


def loses_count_of_bytes(patch: pytest.MonkeyPatch) -> None:
    sound = LogSegment.append

    def append(self: LogSegment, *batch: Any) -> None:
        sound(self, *batch)
        self.size -= 1

    patch.setattr(LogSegment, "append", append)


def leaves_what_was_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FaultyFile, "truncate", lambda self, size: None)


def keeps_index_entries_of_what_was_cut(patch: pytest.MonkeyPatch) -> None:
    def rebuild_indexes(self: LogSegment, index_interval_bytes: int) -> None:
        for batch in self.walk():
            self.next_offset = batch.header.next_offset

    patch.setattr(LogSegment, "rebuild_indexes", rebuild_indexes)


def forgets_the_greatest_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TimeIndex, "maybe_append", lambda self, timestamp_ms, offset: None)


def looks_up_too_far(patch: pytest.MonkeyPatch) -> None:
    sound = OffsetIndex.lookup
    patch.setattr(OffsetIndex, "lookup", lambda self, offset: sound(self, offset) + 10_000)


def promises_too_much(patch: pytest.MonkeyPatch) -> None:
    def plan(files: Files, segments: Any, sealed: Any, directories: Any, end_offset: int) -> SyncPlan:
        return SyncPlan(files, segments, sealed, directories, end_offset + 1)

    patch.setattr("storage.durability.SyncPlan", plan)


def deletes_one_segment_too_many(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("storage.log.count_below", lambda segments, offset: count_below(segments, offset) + 1)


def deletes_what_nobody_could_read(patch: pytest.MonkeyPatch) -> None:
    def count(segments: Any, config: LogConfig, now_ms: int, start: int, end: int, up_to: int) -> int:
        return count_deletable(segments, config, now_ms, start, end, up_to=end)

    patch.setattr("storage.log.count_deletable", count)


def compacts_what_is_not_sealed(patch: pytest.MonkeyPatch) -> None:
    def all_of_it(log: PartitionLog, cleaned_to: int, up_to: int, now_ms: int) -> LogToClean:
        return find_log_to_clean(log, cleaned_to, up_to, now_ms)._replace(end_offset=log.log_end_offset)

    patch.setattr("tests.storage.compaction.compacting.find_log_to_clean", all_of_it)


def reads_backwards(patch: pytest.MonkeyPatch) -> None:
    def walk(segments: Any, from_offset: int, end_offset: int, interval_bytes: int) -> Iterator[StoredBatch]:
        return reversed(list(walk_segments(segments, from_offset, end_offset, interval_bytes)))

    patch.setattr("storage.compaction.compaction.walk_segments", walk)


def passes_over_a_batch(patch: pytest.MonkeyPatch) -> None:
    sound = compaction._mark_last

    def with_last(batches: Iterator[StoredBatch]) -> Iterator[tuple[StoredBatch, bool]]:
        next(batches)
        return sound(batches)

    patch.setattr(compaction, "_mark_last", with_last)


def moves_offsets(patch: pytest.MonkeyPatch) -> None:
    def rewrite(header: BatchHeader, *kept: Any) -> bytes:
        return rewrite_batch(header._replace(last_offset_delta=header.last_offset_delta - 1), *kept)

    patch.setattr("storage.compaction.compaction_filter.rewrite_batch", rewrite)


def drops_the_end_of_a_segment(patch: pytest.MonkeyPatch) -> None:
    sound = CompactionFilter.filter_batch

    def of(self: CompactionFilter, batch: StoredBatch, *, keeps_range: bool) -> bytes | None:
        return None if keeps_range else sound(self, batch, keeps_range=False)

    patch.setattr(CompactionFilter, "filter_batch", of)


def names_a_segment_otherwise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compaction, "CleanedSegment", lambda log, base: CleanedSegment(log, base + 1))


def writes_half_of_a_segment(patch: pytest.MonkeyPatch) -> None:
    def write(self: CleanedSegment) -> None:
        self._file.write(bytes(self._buffer[: len(self._buffer) // 2]))
        self._buffer.clear()

    patch.setattr(CleanedSegment, "_flush", write)


def ends_the_log_too_early(patch: pytest.MonkeyPatch) -> None:
    sound = TailScan.scan_segments

    def run(self: TailScan) -> None:
        sound(self)
        self.log_end_offset -= 1

    patch.setattr(TailScan, "scan_segments", run)


def forgets_where_the_log_begins(patch: pytest.MonkeyPatch) -> None:
    def from_zero(
        files: Files,
        directory: str,
        config: LogConfig,
        recovery_point: int,
        start: int,
        was_clean: bool,
        entries: Sequence[JournalEntry],
    ) -> RecoveredLog:
        return recover_log(files, directory, config, recovery_point, 0, was_clean, entries)

    patch.setattr("storage.log.recover_log", from_zero)


def closes_without_a_sync(patch: pytest.MonkeyPatch) -> None:
    sound = PartitionLog.close
    patch.setattr(PartitionLog, "close", lambda self: sound(self, clean=False))


def passes_over_what_it_should_save(patch: pytest.MonkeyPatch) -> None:
    sound = SegmentScan.scan_pieces

    def pieces(self: SegmentScan) -> Iterator[Piece]:
        for number, piece in enumerate(sound(self)):
            if number != 1:
                yield piece

    patch.setattr(SegmentScan, "scan_pieces", pieces)


def never_gets_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentScan, "_find_next_sound", lambda self, position: position)


def saves_only_the_first_segment(patch: pytest.MonkeyPatch) -> None:
    sound = LogRepair.repair_segments

    def segments(self: LogRepair, directory: str) -> Iterator[RepairedSegment]:
        yield next(sound(self, directory))

    patch.setattr(LogRepair, "repair_segments", segments)


def loses_count_of_what_it_saves(patch: pytest.MonkeyPatch) -> None:
    sound = LogRepair._append_batch

    def keep(self: LogRepair, *batch: Any) -> None:
        sound(self, *batch)
        self.result.log_end_offset += 1000

    patch.setattr(LogRepair, "_append_batch", keep)


def copies_half_of_what_it_replaces(patch: pytest.MonkeyPatch) -> None:
    sound = FaultyFile.write

    def write(self: FaultyFile, data: bytes) -> None:
        sound(self, data[: len(data) // 2] if ".damaged" in self.path else data)

    patch.setattr(FaultyFile, "write", write)


FAULTS: list[tuple[Fault, Callable[..., object]]] = [
    (skips_an_unsynced_segment, LogSegments.add_active),
    (begins_a_segment_elsewhere, LogSegment.append),
    (places_a_batch_at_another_offset, PartitionLog.append_encoded),
    (loses_count_of_offsets, PartitionLog._roll),
    (loses_count_of_bytes, LogSegment.seal),
    (leaves_what_was_cut, LogSegment.truncate),
    (keeps_index_entries_of_what_was_cut, LogSegment.truncate_to_offset),
    (forgets_the_greatest_time, SegmentIndexes.write),
    (looks_up_too_far, LogSegment.find_loaded_position),
    (promises_too_much, LogDurability.complete_sync),
    (deletes_one_segment_too_many, PartitionLog._delete_segments),
    (deletes_what_nobody_could_read, PartitionLog.apply_retention),
    (compacts_what_is_not_sealed, compaction.Compaction._map_keys),
    (reads_backwards, KeyOffsetMap.add_batch),
    (passes_over_a_batch, CompactionFilter.finish),
    (moves_offsets, compaction.Compaction._write_surviving_batches),
    (drops_the_end_of_a_segment, compaction.Compaction._write_surviving_batches),
    (names_a_segment_otherwise, CleanedSegment.append_batch),
    (writes_half_of_a_segment, CleanedSegment.replace_segments),
    (ends_the_log_too_early, _recover_segments),
    (forgets_where_the_log_begins, DataDirectory._note_offsets),
    (closes_without_a_sync, DataDirectory.close),
    (passes_over_what_it_should_save, LogRepair._repair_segment),
    (never_gets_on, SegmentScan.scan_pieces),
    (saves_only_the_first_segment, _InPlaceRepair.run_repair),
    (loses_count_of_what_it_saves, LogRepair._repair_segment),
    (copies_half_of_what_it_replaces, _InPlaceRepair._copy_aside),
]


def finding(patch: pytest.MonkeyPatch, fault: Fault) -> CodeType | None:
    """Return the code of the function with the failed assertion."""
    fault(patch)
    problem: BaseException
    try:
        live()
    except LogContradicted as error:
        problem = error.__cause__ or error
    except AssertionError as error:
        problem = error
    else:
        return None
    place = problem.__traceback__
    assert place is not None
    while place.tb_next is not None:
        place = place.tb_next
    return place.tb_frame.f_code


@pytest.mark.parametrize(("fault", "place"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_is_found(
    fault: Fault, place: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert finding(monkeypatch, fault) is place.__code__


def test_an_engine_without_a_fault_is_not_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert finding(monkeypatch, lambda patch: None) is None


@pytest.mark.parametrize(
    "write",
    [
        lambda files, log: write_offsets(files, "/points", {NAME: -1}),
        lambda files, log: write_offsets(files, "/points", {TopicPartition("two words", 0): 1}),
        lambda files, log: LeaderEpochs([EpochStart(2, 0), EpochStart(1, 5)]),
        lambda files, log: format_leader_epochs([EpochStart(2, 0), EpochStart(2, 5)]),
        lambda files, log: written_state(
            files, log, StatePoint(4, 0, 7), "numbers", 2, [encode_batch([RECORD])]
        ),
        lambda files, log: written_state(
            files, log, StatePoint(4, 4, 7), "numbers", 1, [encode_batch([RECORD])]
        ),
    ],
    ids=["offset", "topic", "epochs", "epochs of a repair", "count of a state", "end of a state"],
)
def test_what_could_not_be_read_again_is_not_written(write: Callable[[Files, PartitionLog], object]) -> None:
    files = FaultyFiles()
    log = PartitionLog.open(files, "/data/log-0", CONFIG)
    names = set(files.names)
    with pytest.raises(AssertionError):
        write(files, log)
    assert set(files.names) == names
