"""Makes the directory of a log from pieces of it that somebody else keeps.

The directory is a copy: what is in it was durable elsewhere before. It is opened like any other one, which checks
every byte of it.
"""

from collections.abc import Iterable

from storage.batch import read_header
from storage.errors import CorruptBatch, LogDamaged
from storage.files import Files, doom_directory, remove_directory
from storage.leader_epochs import EpochStart, LeaderEpochs
from storage.segment import LOG_SUFFIX, segment_name


def fill(
    files: Files, directory: str, pieces: Iterable[tuple[int, bytes]], epoch: int, end_at_least: int = 0
) -> int:
    """Writes a log anew; where it ends. Blocks.

    In: a directory, which is replaced if it is there; the segment that each piece belongs to, by its first offset,
    and whole record batches, in the order of their offsets; the leader epoch that goes on at the end, or begins
    there: no batch has a later one; where the log ended when its last records were deleted. Nothing is synced.
    Raises LogDamaged for batches that do not follow one another, OSError.
    """
    if files.exists(directory):
        remove_directory(files, doom_directory(files, directory))
    files.mkdir(directory)
    starts: list[EpochStart] = []
    segment = end_offset = 0
    file = None
    try:
        for base_offset, data in pieces:
            if file is None or base_offset != segment:
                if file is not None:
                    file.close()
                if base_offset < end_offset:
                    raise LogDamaged(directory, f"a segment begins at {base_offset} within another one")
                segment, end_offset = base_offset, max(end_offset, base_offset)
                file = files.open_append(f"{directory}/{segment_name(base_offset)}{LOG_SUFFIX}")
            end_offset = _check(directory, data, end_offset, starts)
            file.write(data)
        if end_offset < end_at_least:
            if file is not None:
                file.close()
            end_offset = end_at_least
            file = files.open_append(f"{directory}/{segment_name(end_offset)}{LOG_SUFFIX}")
    finally:
        if file is not None:
            file.close()
    if starts and starts[-1].epoch > epoch:
        raise LogDamaged(directory, f"batches of leader epoch {starts[-1].epoch} are there before {epoch}")
    if not starts or starts[-1].epoch < epoch:
        starts.append(EpochStart(epoch, end_offset))
    LeaderEpochs(starts).write(files, directory)
    return end_offset


def _check(directory: str, data: bytes, end_offset: int, starts: list[EpochStart]) -> int:
    """Where whole batches end that follow `end_offset`. In: where epochs began before, which is added to."""
    position = 0
    while position < len(data):
        try:
            header = read_header(data, position)
        except CorruptBatch as error:
            raise LogDamaged(directory, error.reason, position) from error
        position += header.size_bytes
        if position > len(data):
            raise LogDamaged(directory, f"the batch at offset {header.base_offset} is cut short")
        if header.base_offset < end_offset:
            raise LogDamaged(directory, f"a batch begins at {header.base_offset}, before {end_offset}")
        leader_epoch = max(0, header.partition_leader_epoch)
        if not starts or leader_epoch > starts[-1].epoch:
            starts.append(EpochStart(leader_epoch, header.base_offset))
        end_offset = header.next_offset
    return end_offset
