"""What a log finds on disk, and which of it is the log.

Two questions, answered in one pass. *Where does the log end?* At the end of the last whole, checksummed
batch. *May what follows be cut?* Only when it lies at or past the recovery point, the offset up to which
everything was once synced: there a torn write is what a crash leaves behind, and nobody was promised those
bytes. Before the recovery point the same finding is damage, and raises: cutting there would lose what was
acknowledged.

After a clean stop only the batches past the last index entry are read. After anything else, every segment
from the one that holds the recovery point is scanned with checksums and its indexes are built anew.

What is read may still be only in the page cache, and the log's next sync need not change that: after an fsync that
failed, perhaps in the process before, the page cache may call bytes clean that the disk never took. So what lies
past the recovery point is written once more, each byte over itself; only then does a sync say where it is.

A hole between two segments counts as the end of the log too, except where compaction makes holes. Of a log that is
in the journal compaction makes them before the recovery point alone: behind it a segment may be torn, and the next
one not.

What the journal has past the end is appended then, so that nothing is missing that was acknowledged.

Source: Kafka's `LogLoader` and `LogSegment.recover`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from storage.errors import LogDamaged
from storage.files import Files
from storage.journal.frame import Entry
from storage.journal.replay import replay
from storage.log_config import LogConfig
from storage.recovery.report import RecoveryReport
from storage.recovery.swap import finish_swaps
from storage.recovery.tail_scan import TailScan
from storage.segment import LOG_SUFFIX, Segment


class Recovered(NamedTuple):
    """The segments of a log in order, the last of them ready for appending, and how they were found."""

    segments: list[Segment]
    report: RecoveryReport


def find_segments(files: Files, directory: str) -> list[Segment]:
    """The segments in a directory by base offset; whatever else lies there is not looked at."""
    segments = []
    for name in files.listdir(directory):
        stem, suffix = name[: -len(LOG_SUFFIX)], name[-len(LOG_SUFFIX) :]
        if suffix == LOG_SUFFIX and len(stem) == 20 and stem.isascii() and stem.isdigit():
            segments.append(Segment(files, directory, int(stem), files.size(f"{directory}/{name}")))
    return segments


def recover(
    files: Files,
    directory: str,
    config: LogConfig,
    recovery_point: int,
    log_start_offset: int,
    was_clean: bool,
    entries: Sequence[Entry] = (),
) -> Recovered:
    """Opens what is in `directory`: what a crash interrupted is finished first, a torn tail cut. A directory that
    is empty gets its first segment.

    In: the offset before which everything was synced; the log start offset on record; whether the last stop
    was clean; what the journal has of the log, by offset. Raises LogDamaged, OSError.
    """
    was_clean = not finish_swaps(files, directory) and was_clean
    segments = find_segments(files, directory)
    is_new = not segments
    if is_new:
        if recovery_point > log_start_offset:
            raise LogDamaged(directory, f"no segment is left of a log synced up to offset {recovery_point}")
        first = min([log_start_offset, *(entry.base_offset for entry in entries)])
        segments = [Segment.create(files, directory, first)]
    try:
        scan = TailScan(files, directory, segments, config, recovery_point, bool(entries))
        scan.is_new = is_new
        return _recover(scan, log_start_offset, was_clean, entries)
    except BaseException:
        for segment in segments:
            segment.close()
        raise


def _recover(scan: TailScan, log_start_offset: int, was_clean: bool, entries: Sequence[Entry]) -> Recovered:
    segments = scan.segments
    if not (was_clean and scan.resume_clean()):
        was_clean = False
        scan.run()
    replayed_bytes = replay(scan.files, scan.directory, segments, entries, scan.config)
    was_clean = was_clean and not replayed_bytes
    log_end_offset = segments[-1].next_offset if replayed_bytes else scan.log_end_offset
    if log_end_offset < log_start_offset:
        # Records were deleted up to an offset that the crash took back: nothing of the log is live.
        for segment in segments:
            segment.delete()
        segments[:] = [Segment.create(scan.files, scan.directory, log_start_offset)]
        log_end_offset = log_start_offset
    start = max(log_start_offset, segments[0].base_offset)
    durable_offset = log_end_offset if was_clean else min(max(scan.recovery_point, start), log_end_offset)
    assert scan.recovery_point <= durable_offset <= log_end_offset, (scan.directory, log_end_offset)
    report = RecoveryReport(
        scan.directory,
        was_clean,
        scan.recovery_point,
        start,
        log_end_offset,
        durable_offset,
        scan.scanned_bytes,
        *scan.cut,
        scan.put_off,
        replayed_bytes,
    )
    return Recovered(segments, report)
