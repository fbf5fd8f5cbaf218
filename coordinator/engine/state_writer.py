"""Writes a state file (`storage/state_file.py`) batch by batch, as they are made: it is never whole in memory."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from coordinator.async_files import AsyncFiles
from storage.batch import read_header
from storage.log import PartitionLog
from storage.state_file import StatePoint, is_state, state_head, state_path


async def write_state(
    files: AsyncFiles,
    log: PartitionLog,
    point: StatePoint,
    contents: str,
    records_count: int,
    batches: Iterable[bytes],
    goes_on: Callable[[], Awaitable[bool]],
) -> bool:
    """Writes what `log` comes to at `point`, and removes the states that it replaces; whether it did.

    In: what the records mean, how many there are, and the batches that hold them; what is awaited after each batch
    and says whether the state is wanted still. Touches no more of the log than the name of its directory.
    Raises OSError; the log then has the state it had, or both.
    """
    path = state_path(log, point.end_offset)
    head = state_head(point, contents, records_count)
    written = 0
    async with files.new_file(path) as file:
        await file.write(head)
        for batch in batches:
            await file.write(batch)
            written += read_header(batch).records_count
            if not await goes_on():
                return False
        assert written == records_count, (path, written, records_count)
        await file.sync()
        if not await goes_on():
            return False
        try:
            await file.put_in_place()
        except FileNotFoundError:
            # Compaction has gone past it and has removed what there was of it.
            return False
    for name in await files.listdir(log.directory):
        other = f"{log.directory}/{name}"
        if is_state(name) and other != path:
            with suppress(FileNotFoundError):
                await files.unlink(other)
    return True
