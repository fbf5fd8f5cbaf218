import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from storage.data_directory import DataDirectory
from storage.files import Files, OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.metadata_files import MetaProperties
from storage.storage_errors import (
    DamagedFile,
    DataDirectoryLocked,
    DataDirectoryUnusable,
    LogDamaged,
    SyncFailed,
)
from storage.topic_partition import TopicPartition
from tests.storage.batches import record
from tests.storage.faulty_files import CrashError, FaultyFiles
from tests.storage.numbered_log import contents, expected

META = MetaProperties("Zs7aSCvKTK2HTSEnPuYtHw", 1, "J8aAPcfLQt2bqs1JT_rMgQ")
ORDERS = TopicPartition("orders-eu", 3)
CONFIG = LogConfig()


def opened(files: Files, path: str = "/data") -> DataDirectory:
    return DataDirectory.open(files, path, META)


def with_records(
    directory: DataDirectory, partition: TopicPartition = ORDERS, count: int = 3
) -> PartitionLog:
    log = directory.open_log(partition, CONFIG)
    while log.log_end_offset < count:
        log.append_records([record(log.log_end_offset)])
    return log


def test_a_new_directory_is_marked_in_kafkas_form(tmp_path: Path) -> None:
    directory = opened(OsFiles(), str(tmp_path / "data"))
    lines = (tmp_path / "data" / "meta.properties").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} == {
        "version=1",
        "cluster.id=Zs7aSCvKTK2HTSEnPuYtHw",
        "node.id=1",
        "directory.id=J8aAPcfLQt2bqs1JT_rMgQ",
    }
    assert not directory.was_clean
    assert directory.list_partitions() == []
    directory.close({})


def test_the_ids_found_win() -> None:
    files = FaultyFiles()
    opened(files).close({})
    other = MetaProperties("other", 9, "other")
    assert DataDirectory.open(files, "/data", other).meta == META


def test_the_properties_of_a_zookeeper_broker_are_understood() -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    files.write("/data/meta.properties", b"#\n#Mon Jan 01\nversion=0\nbroker.id=4\ncluster.id=abc\n")
    assert opened(files).meta == MetaProperties("abc", 4, META.directory_id)


def test_properties_that_make_no_sense_are_refused() -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    files.write("/data/meta.properties", b"version=1\nnode.id=one\n")
    for _ in range(2):
        with pytest.raises(DamagedFile):
            opened(files)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    directory = opened(OsFiles(), str(tmp_path))
    program = (
        "from storage.data_directory import *; from storage.storage_errors import *\n"
        "from storage.files import OsFiles\n"
        "import sys\n"
        "try: DataDirectory.open(OsFiles(), sys.argv[1], MetaProperties('c', 1, 'd'))\n"
        "except DataDirectoryLocked: print('locked')\n"
        "else: print('open')\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "locked\n"
    with pytest.raises(DataDirectoryLocked) as caught:
        opened(OsFiles(), str(tmp_path))
    assert caught.value.path == str(tmp_path)
    directory.close({})
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "open\n"


def test_a_path_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in ("file", "file/below"):
        with pytest.raises(DataDirectoryUnusable) as caught:
            opened(OsFiles(), str(tmp_path / path))
        assert caught.value.path == str(tmp_path / path)


@pytest.mark.parametrize("operation", ["mkdir", "lock", "write", "replace", "fsync_directory", "listdir"])
def test_a_directory_that_fails_is_unusable_and_not_left_locked(operation: str) -> None:
    files = FaultyFiles()
    files.fail(operation)
    with pytest.raises(DataDirectoryUnusable):
        opened(files)
    opened(files)


def test_partitions_are_found_by_their_directories() -> None:
    files = FaultyFiles()
    directory = opened(files)
    for name in ("orders-10", "orders-9", "a-b-0", "plain", "x-1-future", f"old-0.{'0' * 32}-delete", "y--1"):
        files.mkdir(f"/data/{name}")
    files.write("/data/file-0", b"")
    names = [str(partition) for partition in directory.list_partitions()]
    assert names == ["a-b-0", "orders-9", "orders-10", "y--1"]


def test_a_clean_stop_is_remembered_once() -> None:
    files = FaultyFiles()
    directory = opened(files)
    directory.close({ORDERS: with_records(directory)})
    files = files.crash()
    again = opened(files)
    assert again.was_clean
    log = again.open_log(ORDERS, CONFIG)
    assert log.recovery_report.was_clean
    assert (log.durable_offset, contents(log)) == (3, expected(3))
    for after in (files.kill(), files.crash()):
        third = opened(after)
        assert not third.was_clean
        assert not third.open_log(ORDERS, CONFIG).recovery_report.was_clean


def test_a_stop_with_a_log_that_could_not_be_closed_is_not_clean() -> None:
    files = FaultyFiles()
    directory = opened(files)
    bad, good = with_records(directory), with_records(directory, TopicPartition("good", 0))
    files.fail("fdatasync")
    with pytest.raises(SyncFailed):
        directory.close({ORDERS: bad, TopicPartition("good", 0): good})
    again = opened(files.crash())
    assert not again.was_clean
    assert contents(again.open_log(TopicPartition("good", 0), CONFIG)) == expected(3)


def test_a_stop_with_a_partition_that_never_opened_is_not_clean() -> None:
    files = FaultyFiles()
    opened(files).close({}, failed=[ORDERS])
    assert not opened(files).was_clean


def test_checkpoints_carry_recovery_point_and_start() -> None:
    files = FaultyFiles()
    directory = opened(files)
    log = with_records(directory)
    log.sync()
    log.append_records([record(3)])
    log.delete_records_before(2)
    directory.write_checkpoints({ORDERS: log})
    assert files.read("/data/recovery-point-offset-checkpoint") == b"0\n1\norders-eu 3 3\n"
    assert files.read("/data/log-start-offset-checkpoint") == b"0\n1\norders-eu 3 2\n"
    again = opened(files.crash()).open_log(ORDERS, CONFIG)
    assert (again.log_start_offset, again.log_end_offset) == (2, 3)


def test_loss_below_the_checkpoint_is_damage() -> None:
    files = FaultyFiles()
    directory = opened(files)
    log = with_records(directory)
    log.sync()
    directory.write_checkpoints({ORDERS: log})
    after = files.crash()
    after.open_append(log.segments[0].path).truncate(log.segments[0].size - 1)
    with pytest.raises(LogDamaged):
        opened(after).open_log(ORDERS, CONFIG)


def test_a_topic_deleted_and_created_again_starts_from_nothing() -> None:
    files = FaultyFiles()
    directory = opened(files)
    log = with_records(directory)
    log.sync()
    directory.write_checkpoints({ORDERS: log})
    directory.delete_logs({ORDERS: log})
    assert directory.list_partitions() == []
    again = with_records(directory, count=1)
    again.sync()
    after = opened(files.crash()).open_log(ORDERS, CONFIG)
    assert contents(after) == expected(1)


def test_a_deletion_that_a_crash_interrupts_leaves_a_whole_log_or_none() -> None:
    outcomes = set()
    for nth in range(1, 40):
        files = FaultyFiles()
        directory = opened(files)
        log = with_records(directory)
        log.sync()
        directory.write_checkpoints({ORDERS: log})
        files.crash_at("any", nth)
        with suppress(CrashError):
            directory.delete_logs({ORDERS: log})
        for after in (files.crash(), files.kill()):
            again = opened(after)
            if again.list_partitions():
                assert contents(again.open_log(ORDERS, CONFIG)) == expected(3)
            assert not [name for name in after.listdir("/data") if name.endswith("-delete")]
            outcomes.add(len(again.list_partitions()))
    assert outcomes == {0, 1}


def test_the_topic_id_is_kept_in_kafkas_form() -> None:
    files = FaultyFiles()
    directory = opened(files)
    topic_id = bytes(range(16))
    directory.open_log(ORDERS, CONFIG, topic_id)
    text = files.read("/data/orders-eu-3/partition.metadata")
    assert text == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert directory.find_topic_id(ORDERS) == topic_id
    for length in range(len(text) - 1):
        for padding in (b"", bytes(10)):
            files.write("/data/orders-eu-3/partition.metadata", text[:length] + padding)
            assert directory.find_topic_id(ORDERS) is None
    directory.open_log(ORDERS, CONFIG, topic_id)
    assert directory.find_topic_id(ORDERS) == topic_id


@pytest.mark.parametrize(
    "text", ["version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n", "version: 0\n" + "?" * 40, "?" * 43]
)
def test_partition_metadata_that_makes_no_sense_is_refused(text: str) -> None:
    files = FaultyFiles()
    directory = opened(files)
    directory.open_log(ORDERS, CONFIG)
    files.write("/data/orders-eu-3/partition.metadata", text.encode())
    with pytest.raises(DamagedFile):
        directory.find_topic_id(ORDERS)


def test_the_catalogue_is_replaced_whole() -> None:
    files = FaultyFiles()
    directory = opened(files)
    assert directory.read_catalogue() is None
    directory.write_catalogue({"topics": {"orders": 6}})
    for operation in ("write", "fdatasync", "replace"):
        files.fail(operation)
        with pytest.raises(OSError, match="error"):
            directory.write_catalogue({"topics": {"orders": 7}})
        assert opened(files.crash()).read_catalogue() == {"topics": {"orders": 6}}
    directory.write_catalogue({"topics": {"orders": 7}})
    assert opened(files.crash()).read_catalogue() == {"topics": {"orders": 7}}


def test_a_catalogue_that_is_no_json_is_refused() -> None:
    files = FaultyFiles()
    directory = opened(files)
    files.write("/data/topics.json", b"{")
    with pytest.raises(DamagedFile):
        directory.read_catalogue()


def test_what_security_knows_is_kept_beside_the_catalogue() -> None:
    files = FaultyFiles()
    directory = opened(files)
    assert (directory.has_security(), directory.read_security()) == (False, None)
    directory.write_catalogue({"topics": {}})
    for number in (1, 2):
        directory.write_security({"acls": [number]})
    again = opened(files.crash())
    assert (again.has_security(), again.read_security()) == (True, {"acls": [2]})
    assert again.read_catalogue() == {"topics": {}}
    files.write("/data/security.json", b"{")
    with pytest.raises(DamagedFile, match=r"/data/security\.json"):
        directory.read_security()


def test_a_copy_that_a_repair_has_not_finished_is_not_used() -> None:
    """It may hold half of the logs; a daemon would begin to serve without the others."""
    files = FaultyFiles()
    files.mkdir("/data")
    files.write("/data/.unfinished-repair", b"")
    with pytest.raises(DataDirectoryUnusable, match=r"/data: .*unfinished copy"):
        opened(files)
    assert files.listdir("/data") == [".unfinished-repair"]
    files.unlink("/data/.unfinished-repair")
    opened(files).close({})


def test_small_files_of_a_log_that_cannot_be_written_wait() -> None:
    """A crash has taken them, and the disk is full since."""
    files = FaultyFiles()
    directory = opened(files)
    log = directory.open_log(ORDERS, CONFIG, bytes(15) + b"\x07")
    log.append_records([record(0)])
    directory.close({ORDERS: log})
    for name in ("partition.metadata", "leader-epoch-checkpoint"):
        files.unlink(f"/data/{ORDERS}/{name}")
    files.is_full = True
    directory = opened(files)
    log = directory.open_log(ORDERS, CONFIG, bytes(15) + b"\x07")
    assert contents(log) == expected(1)
    assert len(log.recovery_report.postponed_errors) == 2
    assert directory.find_topic_id(ORDERS) is None
    log.close(clean=False)
    files.is_full = False
    log = directory.open_log(ORDERS, CONFIG, bytes(15) + b"\x07")
    assert directory.find_topic_id(ORDERS) == bytes(15) + b"\x07"
    assert files.read(f"/data/{ORDERS}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"
    directory.close({ORDERS: log})


def test_a_new_log_on_a_full_disk_is_none() -> None:
    files = FaultyFiles()
    directory = opened(files)
    files.is_full = True
    with pytest.raises(OSError, match="space"):
        directory.open_log(ORDERS, CONFIG)
    assert directory.list_partitions() == []


def test_a_catalogue_that_is_the_same_is_not_written_again() -> None:
    files = FaultyFiles()
    directory = opened(files)
    directory.write_catalogue({"version": 1})
    directory.close({})
    directory = opened(files)
    assert directory.read_catalogue() == {"version": 1}
    calls = files.calls["write_atomically"]
    directory.write_catalogue({"version": 1})
    assert files.calls["write_atomically"] == calls
    directory.write_catalogue({"version": 2})
    assert directory.read_catalogue() == {"version": 2}


def test_the_reserves_of_security_are_private_and_large_enough(tmp_path: Path) -> None:
    directory = DataDirectory.open(OsFiles(), str(tmp_path), META)
    for count in (1, 1000):
        document = {"acls": [f"acl-{number}" for number in range(count)]}
        directory.write_security(document)
        size = (tmp_path / "security.json").stat().st_size
        reserves = [path.stat() for path in tmp_path.glob("security.json.reserve-*")]
        assert [reserve.st_mode & 0o777 for reserve in reserves] == [0o600] * 2
        assert all(reserve.st_size >= size for reserve in reserves)
    assert directory.read_security() == document
    directory.close({})


def test_a_document_is_replaced_on_a_full_disk_by_one_that_is_not_much_larger() -> None:
    files = FaultyFiles()
    directory = opened(files)
    directory.write_catalogue({"topics": ["orders"]})
    files.is_full = True
    directory.write_catalogue({"topics": ["orders", "payments"]})
    with pytest.raises(OSError, match="space"):
        directory.write_catalogue({"topics": []})  # the remaining reserve is for an undo
    for left in (files.kill(), files.crash()):
        assert opened(left).read_catalogue() == {"topics": ["orders", "payments"]}
    files.is_full = False
    directory.write_catalogue({"topics": []})
    files.is_full = True
    directory.write_catalogue({"topics": ["again"]})
    assert opened(files.crash()).read_catalogue() == {"topics": ["again"]}
