"""Replaces several segments by one in a compaction, so that a crash leaves the old segments or the new one.

    <base>.log.cleaned     being written, and without value
    <base>.log.swap        complete and synced: it replaces every segment that begins in its range
    <base>.log             the old segments are removed, and the new one has its name

An index of aborted transactions moves along: `.txnindex.swap` is written before the log has the name `.swap`,
and is renamed after the log. So it belongs to a replaced segment if no `.cleaned` file is left.

The range of the new segment includes the last batch of the old ones, even if only its header is left. So the
batches of a `.swap` file tell which segments it replaces.

Kafka uses the same names and the same order: either program can complete a swap of the other. A broker also leaves
`.deleted` files, which groupd removes.

Source: Kafka's `LogLoader.removeTempFilesAndCollectSwapFiles` and `UnifiedLog.replaceSegments`.
"""

from typing import Final

from storage.files import Files
from storage.segment import LOG_SUFFIX, LogSegment, format_segment_name
from storage.segment_index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.storage_errors import CorruptBatch, LogDamaged
from storage.transaction_index import TRANSACTION_INDEX_SUFFIX

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
DELETED_SUFFIX: Final = ".deleted"

_OFFSET_DIGITS: Final = 20
_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


def finish_swaps(files: Files, directory: str) -> bool:
    """Complete or undo an interrupted replacement of segments. Return whether there was one.

    Raises OSError, and LogDamaged for a `.swap` file that cannot be read to its end.
    """
    names = files.listdir(directory)
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    of_aborted = [name for name in names if name.endswith(TRANSACTION_INDEX_SUFFIX + SWAP_SUFFIX)]
    # Several segments that replace one are renamed from the last to the first. While one of them is still
    # being written, the later ones do not count.
    # written, those after it do not count yet.
    unwritten = min((name[:_OFFSET_DIGITS] for name in cleaned), default="~")
    uncounted = [name for name in [*of_aborted, *swaps] if name[:_OFFSET_DIGITS] >= unwritten]
    for name in uncounted:
        files.unlink(f"{directory}/{name}")
    if uncounted:
        # They would become valid when the `.cleaned` files are removed.
        files.fsync_directory(directory)
    leftovers = [*cleaned, *(name for name in names if name.endswith(DELETED_SUFFIX))]
    # These indexes are rebuilt from the batches.
    leftovers += [
        name for name in names if name.endswith((INDEX_SUFFIX + SWAP_SUFFIX, TIME_INDEX_SUFFIX + SWAP_SUFFIX))
    ]
    for name in leftovers:
        files.unlink(f"{directory}/{name}")
    for name in sorted(set(swaps) - set(uncounted)):
        _finish_swap(files, directory, name)
    in_place = sorted(set(of_aborted) - set(uncounted))
    if in_place and swaps:
        files.fsync_directory(directory)
    for name in in_place:
        files.replace(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    is_changed = bool(leftovers or swaps or of_aborted)
    if is_changed:
        files.fsync_directory(directory)
    return is_changed


def _finish_swap(files: Files, directory: str, name: str) -> None:
    base_offset = int(name[:_OFFSET_DIGITS])
    end_offset = _find_end_offset(files, directory, name)
    for other in files.listdir(directory):
        stem, suffix = other[:_OFFSET_DIGITS], other[_OFFSET_DIGITS:]
        is_replaced = stem.isdigit() and base_offset <= int(stem) < max(end_offset, base_offset + 1)
        # The rename itself replaces the log of the same name.
        if is_replaced and suffix in _SUFFIXES and not (suffix == LOG_SUFFIX and int(stem) == base_offset):
            files.unlink(f"{directory}/{other}")
    # The removals must be durable before the name of the new segment is.
    files.fsync_directory(directory)
    files.replace(f"{directory}/{name}", f"{directory}/{format_segment_name(base_offset)}{LOG_SUFFIX}")


def _find_end_offset(files: Files, directory: str, name: str) -> int:
    path = f"{directory}/{name}"
    swap = LogSegment(files, directory, int(name[:_OFFSET_DIGITS]), files.size(path))
    swap.adopt_file(files.open_read(path))
    try:
        for batch in swap.walk(check=True):
            # A too high offset would remove segments that nothing replaces.
            swap.check_offsets(batch.header, batch.position)
            swap.next_offset = batch.header.next_offset
    except CorruptBatch as error:
        raise LogDamaged(path, error.reason, error.position) from error
    finally:
        swap.close()
    return swap.next_offset
