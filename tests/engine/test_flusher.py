"""Logs of several owners, synced by one thread."""

import asyncio

from coordinator.engine.durability import Synced
from coordinator.engine.flusher import Flusher
from storage.errors import StorageError
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from storage.syncer import Syncer
from tests.storage.faulty_files import FaultyFiles


def log_with_one_record(files: FaultyFiles, name: str) -> PartitionLog:
    log = PartitionLog.open(files, f"/{name}-0", LogConfig())
    log.append_records([Record(-1, 0, b"key", b"value")], 0)
    return log


async def test_only_the_owner_of_a_log_is_told_that_it_was_synced() -> None:
    files = FaultyFiles()
    flusher = Flusher(asyncio.get_running_loop(), Syncer())
    told: list[tuple[str, PartitionLog]] = []

    def owner(name: str) -> Synced:
        def synced(log: PartitionLog, error: StorageError | None) -> None:
            assert error is None
            told.append((name, log))

        return synced

    first, second, gone = (log_with_one_record(files, name) for name in ("first", "second", "gone"))
    third_owner = owner("third")
    for log, synced in ((first, owner("one")), (second, owner("two")), (gone, third_owner)):
        flusher.need(log, synced)
    flusher.kick()
    flusher.forget(third_owner)
    await flusher.drain([first, second, gone])
    assert sorted(told, key=str) == sorted([("one", first), ("two", second)], key=str)
    assert gone.durable_offset == gone.log_end_offset
    flusher.close()
