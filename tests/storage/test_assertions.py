"""The assertions are checked: an engine with one fault each, which they must find before it costs anything.

Each fault is one that a real mistake could bring in. An assertion that finds none of them is no assertion.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from storage.batch import BatchHeader, encode_batch, rewrite_batch
from storage.checkpoint import write_offsets
from storage.compaction import compaction
from storage.compaction.cleanable import Cleanable, cleanable
from storage.compaction.cleaned_segment import CleanedSegment
from storage.compaction.survivors import Survivors
from storage.data_directory import DataDirectory
from storage.errors import LogContradicted
from storage.files import Files
from storage.index import OffsetIndex, TimeIndex
from storage.inspection.directory_reader import find_logs
from storage.inspection.segment_scan import Piece, SegmentScan
from storage.journal.frame import Entry
from storage.leader_epochs import EpochStart, LeaderEpochs
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.log_segments import LogSegments
from storage.meta_properties import MetaProperties
from storage.record import Record
from storage.recovery.recovery import Recovered, recover
from storage.recovery.tail_scan import TailScan
from storage.repair.repair import Repair, RepairedSegment, epochs_text
from storage.repair.repair_in_place import repair_in_place
from storage.retention import count_below, count_deletable
from storage.segment import Segment
from storage.state_file import StatePoint
from storage.stored_batch import StoredBatch
from storage.sync_plan import SyncPlan
from storage.topic_partition import TopicPartition
from storage.walk import walk_segments
from tests.engine.states import written_state
from tests.storage.compacting import compact
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
    repair_in_place(files, found, lambda log: Repair(files, log))


Fault = Callable[[pytest.MonkeyPatch], None]


def skips_an_unsynced_segment(patch: pytest.MonkeyPatch) -> None:
    sound = LogSegments.unsynced
    patch.setattr(LogSegments, "unsynced", lambda self: sound(self)[1:])


def begins_a_segment_elsewhere(patch: pytest.MonkeyPatch) -> None:
    sound = Segment.create.__func__  # type: ignore[attr-defined]

    def create(cls: type[Segment], files: Files, directory: str, base_offset: int) -> Segment:
        made: Segment = sound(cls, files, directory, base_offset + (1 if base_offset else 0))
        return made

    patch.setattr(Segment, "create", classmethod(create))


def loses_count_of_offsets(patch: pytest.MonkeyPatch) -> None:
    sound = Segment.append

    def append(self: Segment, *batch: Any) -> None:
        next_offset = self.next_offset
        sound(self, *batch)
        self.next_offset = next_offset

    patch.setattr(Segment, "append", append)


def loses_count_of_bytes(patch: pytest.MonkeyPatch) -> None:
    sound = Segment.append

    def append(self: Segment, *batch: Any) -> None:
        sound(self, *batch)
        self.size -= 1

    patch.setattr(Segment, "append", append)


def leaves_what_was_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FaultyFile, "truncate", lambda self, size: None)


def keeps_index_entries_of_what_was_cut(patch: pytest.MonkeyPatch) -> None:
    def rebuild_indexes(self: Segment, index_interval_bytes: int) -> None:
        for batch in self.walk():
            self.next_offset = batch.header.next_offset

    patch.setattr(Segment, "rebuild_indexes", rebuild_indexes)


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
    def all_of_it(log: PartitionLog, cleaned_to: int, up_to: int, now_ms: int) -> Cleanable:
        return cleanable(log, cleaned_to, up_to, now_ms)._replace(end_offset=log.log_end_offset)

    patch.setattr("tests.storage.compacting.cleanable", all_of_it)


def reads_backwards(patch: pytest.MonkeyPatch) -> None:
    def walk(segments: Any, from_offset: int, end_offset: int, interval_bytes: int) -> Iterator[StoredBatch]:
        return reversed(list(walk_segments(segments, from_offset, end_offset, interval_bytes)))

    patch.setattr("storage.compaction.compaction.walk_segments", walk)


def passes_over_a_batch(patch: pytest.MonkeyPatch) -> None:
    sound = compaction._with_last

    def with_last(batches: Iterator[StoredBatch]) -> Iterator[tuple[StoredBatch, bool]]:
        next(batches)
        return sound(batches)

    patch.setattr(compaction, "_with_last", with_last)


def moves_offsets(patch: pytest.MonkeyPatch) -> None:
    def rewrite(header: BatchHeader, *kept: Any) -> bytes:
        return rewrite_batch(header._replace(last_offset_delta=header.last_offset_delta - 1), *kept)

    patch.setattr("storage.compaction.survivors.rewrite_batch", rewrite)


def drops_the_end_of_a_segment(patch: pytest.MonkeyPatch) -> None:
    sound = Survivors.of

    def of(self: Survivors, batch: StoredBatch, *, keeps_range: bool) -> bytes | None:
        return None if keeps_range else sound(self, batch, keeps_range=False)

    patch.setattr(Survivors, "of", of)


def names_a_segment_otherwise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compaction, "CleanedSegment", lambda log, base: CleanedSegment(log, base + 1))


def writes_half_of_a_segment(patch: pytest.MonkeyPatch) -> None:
    def write(self: CleanedSegment) -> None:
        self._file.write(bytes(self._buffer[: len(self._buffer) // 2]))
        self._buffer.clear()

    patch.setattr(CleanedSegment, "_write", write)


def ends_the_log_too_early(patch: pytest.MonkeyPatch) -> None:
    sound = TailScan.run

    def run(self: TailScan) -> None:
        sound(self)
        self.log_end_offset -= 1

    patch.setattr(TailScan, "run", run)


def forgets_where_the_log_begins(patch: pytest.MonkeyPatch) -> None:
    def from_zero(
        files: Files,
        directory: str,
        config: LogConfig,
        recovery_point: int,
        start: int,
        was_clean: bool,
        entries: Sequence[Entry],
    ) -> Recovered:
        return recover(files, directory, config, recovery_point, 0, was_clean, entries)

    patch.setattr("storage.log.recover", from_zero)


def closes_without_a_sync(patch: pytest.MonkeyPatch) -> None:
    sound = PartitionLog.close
    patch.setattr(PartitionLog, "close", lambda self: sound(self, clean=False))


def passes_over_what_it_should_save(patch: pytest.MonkeyPatch) -> None:
    sound = SegmentScan.pieces

    def pieces(self: SegmentScan) -> Iterator[Piece]:
        for number, piece in enumerate(sound(self)):
            if number != 1:
                yield piece

    patch.setattr(SegmentScan, "pieces", pieces)


def never_gets_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentScan, "_next_sound", lambda self, position: position)


def saves_only_the_first_segment(patch: pytest.MonkeyPatch) -> None:
    sound = Repair.segments

    def segments(self: Repair, directory: str) -> Iterator[RepairedSegment]:
        yield next(sound(self, directory))

    patch.setattr(Repair, "segments", segments)


def loses_count_of_what_it_saves(patch: pytest.MonkeyPatch) -> None:
    sound = Repair._keep

    def keep(self: Repair, *batch: Any) -> None:
        sound(self, *batch)
        self.result.log_end_offset += 1000

    patch.setattr(Repair, "_keep", keep)


def copies_half_of_what_it_replaces(patch: pytest.MonkeyPatch) -> None:
    sound = FaultyFile.write

    def write(self: FaultyFile, data: bytes) -> None:
        sound(self, data[: len(data) // 2] if ".damaged" in self.path else data)

    patch.setattr(FaultyFile, "write", write)


FAULTS: list[tuple[Fault, str]] = [
    (skips_an_unsynced_segment, "log_segments.py, add"),
    (begins_a_segment_elsewhere, "segment.py, append"),
    (loses_count_of_offsets, "log.py, _roll"),
    (loses_count_of_bytes, "segment.py, seal"),
    (leaves_what_was_cut, "segment.py, truncate"),
    (keeps_index_entries_of_what_was_cut, "segment.py, cut_at"),
    (forgets_the_greatest_time, "segment_indexes.py, write"),
    (looks_up_too_far, "segment.py, position_of"),
    (promises_too_much, "durability.py, complete"),
    (deletes_one_segment_too_many, "log.py, _delete_first"),
    (deletes_what_nobody_could_read, "log.py, apply_retention"),
    (compacts_what_is_not_sealed, "compaction.py, _map"),
    (reads_backwards, "key_offsets.py, take"),
    (passes_over_a_batch, "survivors.py, finish"),
    (moves_offsets, "compaction.py, _fill"),
    (drops_the_end_of_a_segment, "compaction.py, _fill"),
    (names_a_segment_otherwise, "cleaned_segment.py, add"),
    (writes_half_of_a_segment, "cleaned_segment.py, take_the_place_of"),
    (ends_the_log_too_early, "recovery.py, _recover"),
    (forgets_where_the_log_begins, "data_directory.py, _note"),
    (closes_without_a_sync, "data_directory.py, close"),
    (passes_over_what_it_should_save, "repair.py, _segment"),
    (never_gets_on, "segment_scan.py, pieces"),
    (saves_only_the_first_segment, "repair_in_place.py, run"),
    (loses_count_of_what_it_saves, "repair.py, _segment"),
    (copies_half_of_what_it_replaces, "repair_in_place.py, _copy_aside"),
]


def finding(patch: pytest.MonkeyPatch, fault: Fault) -> str:
    """File and function of the assertion that did not hold."""
    fault(patch)
    problem: BaseException
    try:
        live()
    except LogContradicted as error:
        problem = error.__cause__ or error
    except AssertionError as error:
        problem = error
    else:
        return "nothing"
    place = problem.__traceback__
    assert place is not None
    while place.tb_next is not None:
        place = place.tb_next
    code = place.tb_frame.f_code
    return f"{Path(code.co_filename).name}, {code.co_name}"


@pytest.mark.parametrize(("fault", "place"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_is_found(fault: Fault, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert finding(monkeypatch, fault) == place


def test_an_engine_without_a_fault_is_not_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert finding(monkeypatch, lambda patch: None) == "nothing"


@pytest.mark.parametrize(
    "write",
    [
        lambda files, log: write_offsets(files, "/points", {NAME: -1}),
        lambda files, log: write_offsets(files, "/points", {TopicPartition("two words", 0): 1}),
        lambda files, log: LeaderEpochs([EpochStart(2, 0), EpochStart(1, 5)]),
        lambda files, log: epochs_text([EpochStart(2, 0), EpochStart(2, 5)]),
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
