"""`coordinator/broker/directory_recovery.py` on disks that forget; `tests/cli/test_log_recover.py` has the
command."""

import pytest

from coordinator.broker.directory_recovery import recover_directory
from protocol.error_codes import ErrorCode
from storage.data_directory import CLEAN_MARKER
from storage.storage_errors import DataDirectoryLocked
from tests.broker.harness import Client, serving
from tests.broker.test_durability import DATA, TWO_PARTITIONS, Commits
from tests.broker.test_group_partitions import committed
from tests.storage.faulty_files import FaultyFiles


async def test_a_directory_whose_name_the_power_has_taken_comes_back() -> None:
    """A commit is acknowledged when the journal has it; the names of a new partition may not be on the disk yet."""
    files, commits = FaultyFiles(), Commits()
    async with serving(DATA, TWO_PARTITIONS, files=files) as server, Client(server) as client:
        assert await commits.one(client) is ErrorCode.NONE
        survivor = files.crash()
    for path in [path for path in survivor.names if "/__consumer_offsets" in path]:
        del survivor.names[path]
        survivor.disk_names.pop(path, None)
    assert not recover_directory(survivor, DATA).failed
    assert survivor.exists(f"{DATA}/{CLEAN_MARKER}")
    async with serving(DATA, TWO_PARTITIONS, files=survivor) as after, Client(after) as client:
        assert await committed(client) == commits.sent


async def test_the_journal_of_a_directory_in_use_is_not_given_up() -> None:
    files, commits = FaultyFiles(), Commits()
    async with serving(DATA, TWO_PARTITIONS, files=files) as server, Client(server) as client:
        assert await commits.one(client) is ErrorCode.NONE
        with pytest.raises(DataDirectoryLocked):
            recover_directory(files, DATA, without_journal=True)
        assert files.listdir(f"{DATA}/journal")
        assert await commits.one(client) is ErrorCode.NONE
        survivor = files.crash()
    async with serving(DATA, TWO_PARTITIONS, files=survivor) as after, Client(after) as client:
        assert await committed(client) == commits.sent
