"""Journal files: rotation, the valid entries after a crash, and damage."""

import errno
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from storage.batch import assign_offsets, encode_batch
from storage.journal.journal import MAX_FILES, Journal
from storage.journal.journal_frame import BLOCK_BYTES, JournalEntry, LogKey
from storage.log_config import LogConfig
from storage.recovery.recovery import replay_entries
from storage.segment import LogSegment
from storage.storage_errors import DamagedFile, JournalRefused, LogDamaged
from tests.storage.batches import record
from tests.storage.faulty_files import CrashError, FaultyFiles

ORDERS = LogKey(b"o" * 16, "orders", 0)
PAYMENTS = LogKey(b"p" * 16, "payments", 3)
FILE_BYTES = 4 * BLOCK_BYTES


@pytest.fixture
def files() -> FaultyFiles:
    files = FaultyFiles()
    files.mkdir("/data")
    files.fsync_directory("/")
    return files


def entry(key: LogKey, offset: int, count: int = 1, size: int = 100) -> JournalEntry:
    data = encode_batch([record(offset + number, size=size) for number in range(count)])
    return JournalEntry(key, offset, offset + count, assign_offsets(data, offset, 0, None, None))


def journal(files: FaultyFiles) -> Journal:
    return Journal(files, "/data", FILE_BYTES)


def written(files: FaultyFiles, to: Journal, key: LogKey, count: int, start: int = 0) -> list[JournalEntry]:
    """Frames of one block each."""
    entries = [entry(key, start + number) for number in range(count)]
    for each in entries:
        to.write([each])
    return entries


def paths(files: FaultyFiles) -> list[str]:
    return [f"/data/journal/{name}" for name in files.listdir("/data/journal")]


def test_what_was_written_outlives_the_power(files: FaultyFiles) -> None:
    to = journal(files)
    entries = written(files, to, ORDERS, 6)
    other = entry(PAYMENTS, 70, count=3)
    to.write([other])
    assert to.read_entries(ORDERS) == entries
    found = journal(files.crash())
    assert found.read_entries(ORDERS) == entries
    assert found.read_entries(PAYMENTS) == [other]
    assert found.find_unsettled_logs() == {ORDERS, PAYMENTS}


def test_a_file_that_nobody_needs_is_used_again(files: FaultyFiles) -> None:
    to = journal(files)
    for offset in range(40):
        to.write([entry(ORDERS, offset)])
        to.on_settled(ORDERS, offset)
    assert len(paths(files)) == 2
    assert journal(files.crash()).read_entries(ORDERS)[-1].end_offset == 40


@pytest.mark.parametrize("nth", [1, 2])
def test_a_file_is_not_written_over_before_the_disk_says_that_it_does_not_count(
    files: FaultyFiles, nth: int
) -> None:
    to = journal(files)
    written(files, to, ORDERS, 6)
    to.on_settled(ORDERS, 6)
    files.crash_at("fdatasync", nth)
    with suppress(CrashError):
        to.write([entry(ORDERS, 6, size=600)])
    assert len(paths(files)) == 2
    for seed in range(20):
        journal(files.crash(Random(seed)))  # which is not damaged


def test_a_log_that_is_not_settled_keeps_all_from_its_first_entry_on(files: FaultyFiles) -> None:
    to = journal(files)
    to.write([entry(PAYMENTS, 0)])
    with suppress(JournalRefused):
        for offset in range(100):
            to.write([entry(ORDERS, offset)])
            to.on_settled(ORDERS, offset + 1)
        raise AssertionError("it is bounded")
    assert len(paths(files)) == MAX_FILES
    assert to.find_logs_in_full_files() == [PAYMENTS]
    assert journal(files.crash()).read_entries(PAYMENTS) == [entry(PAYMENTS, 0)]
    to.on_settled(PAYMENTS, 1)
    to.write([entry(ORDERS, 100)])
    assert journal(files.crash()).read_entries(ORDERS)[-1].base_offset == 100


def test_what_is_too_large_is_refused_and_the_rest_is_not(files: FaultyFiles) -> None:
    to = journal(files)
    with pytest.raises(JournalRefused):
        to.write([entry(ORDERS, 0, size=FILE_BYTES)])
    to.write([entry(ORDERS, 0)])
    assert to.take_failure() is None


@pytest.mark.parametrize("operation", ["open", "mkdir", "fsync_directory", "write_at", "fdatasync"])
def test_a_disk_that_refuses_switches_it_off_until_it_is_revived(files: FaultyFiles, operation: str) -> None:
    to = journal(files)
    if operation in ("write_at", "fdatasync"):
        to.write([entry(ORDERS, 0)])
    files.fail(operation, error=errno.ENOSPC, torn_bytes=700)
    for _ in range(2):
        with pytest.raises(JournalRefused):
            to.write([entry(ORDERS, 1)])
    assert isinstance(to.take_failure(), OSError)
    assert to.take_failure() is None
    to.retry_after_failure()
    to.write([entry(ORDERS, 2)])
    found = journal(files.crash()).read_entries(ORDERS)
    assert found[-1] == entry(ORDERS, 2)


def torn_files(files: FaultyFiles) -> Iterator[FaultyFiles]:
    """The file that was written last, with its last frame torn at every block's every 100 bytes."""
    path = max(paths(files), key=lambda path: files.read(path).rfind(b"GDJ1"))
    end = files.read(path).rfind(b"GDJ1")
    for kept in range(0, BLOCK_BYTES, 100):
        copy = files.crash()
        inode = copy.names[path]
        inode.data[end + kept :] = bytes(len(inode.data) - end - kept)
        yield copy


def test_a_torn_last_frame_is_nobodys(files: FaultyFiles) -> None:
    entries = written(files, journal(files), ORDERS, 3)
    for copy in torn_files(files):
        assert journal(copy).read_entries(ORDERS) in (entries[:-1], entries)


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_frame_that_others_follow_is_damage_where_it_cannot_be_read(
    files: FaultyFiles, number: int
) -> None:
    to = journal(files)
    written(files, to, ORDERS, 6)
    first, second = paths(files)
    path, position = (first, number) if number < 3 else (second, number - 3)
    files.names[path].data[position * BLOCK_BYTES + 60] ^= 1
    with pytest.raises(DamagedFile, match=r"/data/journal/.*byte \d+"):
        journal(files)


def test_a_file_that_is_missing_is_damage(files: FaultyFiles) -> None:
    written(files, journal(files), ORDERS, 6)
    files.unlink(paths(files)[0])
    with pytest.raises(DamagedFile):
        journal(files)


def test_bytes_of_a_client_that_look_like_a_frame_are_none(files: FaultyFiles) -> None:
    """They lie where a frame may begin, in a frame that was torn."""
    to = journal(files)
    to.write([entry(ORDERS, 0)])
    own = files.read(paths(files)[0])[:BLOCK_BYTES]
    forged = bytearray(own)
    forged[12:20] = b"stranger"
    files.names[paths(files)[0]].data[BLOCK_BYTES:] = bytes(10) + bytes(BLOCK_BYTES - 10) + bytes(forged)
    assert journal(files).read_entries(ORDERS) == [entry(ORDERS, 0)]


def test_another_life_of_a_topic_gets_nothing(files: FaultyFiles) -> None:
    to = journal(files)
    to.write([entry(ORDERS, 0)])
    found = journal(files.crash())
    assert not found.read_entries(ORDERS._replace(topic_id=b"another life's  "))


def test_files_of_a_former_process_go_when_all_its_logs_are_settled(files: FaultyFiles) -> None:
    to = journal(files)
    to.write([entry(ORDERS, 0), entry(PAYMENTS, 0)])
    files = files.crash()
    to = journal(files)
    to.on_settled(ORDERS, 1)
    to.run_maintenance()
    assert to.find_unsettled_logs() == {PAYMENTS}
    assert len(paths(files)) == 1
    to.on_settled(PAYMENTS, 1)
    to.run_maintenance()
    assert not paths(files)


def left_over(files: FaultyFiles) -> FaultyFiles:
    """Several files that hold one chain of frames, one of them used a second time."""
    to = journal(files)
    for offset in range(14):
        to.write([entry(ORDERS, offset)])
        to.on_settled(ORDERS, offset - 3)
    assert len(paths(files)) > 2
    return files.crash()


@pytest.mark.parametrize("seed", range(12))
def test_a_crash_in_the_midst_of_its_removal_is_no_damage(files: FaultyFiles, seed: int) -> None:
    """Whether a stop removes it or a start that has settled all of it: any of the files may come back."""
    before, random = left_over(files), Random(seed)
    for removed in (Journal.remove, Journal.run_maintenance):
        for nth in range(1, 30):
            files = before.crash()
            to = journal(files)
            to.on_settled(ORDERS, 14)
            files.crash_at("any", nth)
            with suppress(CrashError):
                removed(to)
            after = files.crash(random) if seed else files.kill()
            again = journal(after)
            again.on_settled(ORDERS, 14)
            again.run_maintenance()
            assert not after.is_directory("/data/journal") or not paths(after)


def test_its_removal_is_tried_again_where_the_disk_refuses(files: FaultyFiles) -> None:
    before = left_over(files)
    for nth in range(1, 12):
        files = before.crash()
        to = journal(files)
        to.on_settled(ORDERS, 14)
        files.fail("any", nth)
        with suppress(OSError):
            to.run_maintenance()
        journal(files.kill())
        files.faults.clear()
        to.run_maintenance()
        assert not paths(files)


def test_a_file_may_be_read_while_it_is_written(files: FaultyFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that opens a log reads the file during a write.

    It does not see the current write, and it no longer needs an overwritten entry.
    """
    to = journal(files)
    entries = written(files, to, ORDERS, 2)
    read = files.read

    def while_written(path: str) -> bytes:
        data = read(path)
        to.write([entry(PAYMENTS, 0)])
        return data

    monkeypatch.setattr(files, "read", while_written)
    assert to.read_entries(ORDERS) == entries

    def while_written_over(path: str) -> bytes:
        to.on_settled(ORDERS, 2)
        to.on_settled(PAYMENTS, 100)
        first = entry(PAYMENTS, 3, size=1200)
        for _ in range(9):
            to.write([first])
        return read(path)

    monkeypatch.setattr(files, "read", while_written_over)
    assert [each for each in to.read_entries(ORDERS) if each.end_offset > 2] == []


def test_damage_in_a_file_of_its_own_is_told(files: FaultyFiles) -> None:
    to = journal(files)
    written(files, to, ORDERS, 2)
    files.names[paths(files)[0]].data[BLOCK_BYTES + 60] ^= 1
    with pytest.raises(DamagedFile, match=rf"/data/journal/.*byte {BLOCK_BYTES}"):
        to.read_entries(ORDERS)


def test_what_was_deleted_is_not_remembered(files: FaultyFiles) -> None:
    """Nor does it keep a file, whether it was written before or while it was deleted."""
    to = journal(files)
    for number in range(300):
        key = ORDERS._replace(partition=number)
        if number % 3:
            to.drop_log(key)
        to.write([entry(key, 0)])
        to.on_settled(key, number % 2)
        to.drop_log(key)
    assert not to.find_unsettled_logs()
    assert len(paths(files)) <= 2
    assert len(to._settled_offsets) < 20  # memory has no other witness


def test_a_disk_that_is_full_for_long_is_tried_again(files: FaultyFiles) -> None:
    to = journal(files)
    for _ in range(3 * MAX_FILES):
        files.fail("write_at", error=errno.ENOSPC)
        with pytest.raises(JournalRefused):
            to.write([entry(ORDERS, 0)])
        to.retry_after_failure()
    to.write([entry(ORDERS, 0)])
    assert journal(files.crash()).read_entries(ORDERS) == [entry(ORDERS, 0)]


def test_something_else_in_its_directory_is_not_guessed_at(files: FaultyFiles) -> None:
    files.mkdir("/data/journal")
    files.write("/data/journal/notes.txt", b"mine")
    with pytest.raises(DamagedFile, match=r"notes\.txt"):
        journal(files)


# Replay


def replayed(
    files: FaultyFiles, has: int, entries: list[JournalEntry], segment_bytes: int = 10_000
) -> list[LogSegment]:
    """A log with some records, after replay."""
    files.mkdir("/data/orders-0")
    segments = [LogSegment.create(files, "/data/orders-0", 0)]
    for offset in range(has):
        data = entry(ORDERS, offset).data
        segments[0].append(data, offset, offset, 1000 + offset, 4096)
    config = LogConfig(segment_bytes=segment_bytes)
    replay_entries(files, "/data/orders-0", segments, entries, config)
    return segments


def offsets(segments: list[LogSegment]) -> list[int]:
    return [batch.header.base_offset for segment in segments for batch in segment.walk(check=True)]


@pytest.mark.parametrize("has", range(6))
def test_a_log_gets_what_it_lacks(files: FaultyFiles, has: int) -> None:
    joined = JournalEntry(ORDERS, 0, 3, b"".join(entry(ORDERS, number).data for number in range(3)))
    segments = replayed(files, has, [joined, entry(ORDERS, 3), entry(ORDERS, 4)])
    assert offsets(segments) == list(range(max(has, 5)))


def test_a_segment_that_is_full_is_followed_by_another(files: FaultyFiles) -> None:
    segments = replayed(files, 1, [entry(ORDERS, number) for number in range(1, 8)], segment_bytes=400)
    assert offsets(segments) == list(range(8))
    assert len(segments) > 2
    assert files.exists(f"/data/orders-0/{segments[-1].base_offset:020d}.log")


def test_a_gap_is_damage(files: FaultyFiles) -> None:
    with pytest.raises(LogDamaged, match=r"offset 2, and the journal goes on at 3") as raised:
        replayed(files, 2, [entry(ORDERS, 3)])
    assert raised.value.path.endswith(".log")
    assert raised.value.position is not None
