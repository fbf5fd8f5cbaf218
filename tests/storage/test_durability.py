"""What of a log may be promised, after syncs and failed ones."""

import pytest
from msgspec.structs import replace

from storage.files import remove_directory
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.storage_errors import AppendFailed, LogContradicted, LogPoisoned, SyncFailed
from tests.storage.batches import record
from tests.storage.numbered_log import SMALL, contents, expected, filled


def test_a_failed_write_that_cannot_be_taken_back_poisons_the_log() -> None:
    files, log = filled([2, 2])
    log.sync()
    files.fail("write", torn_bytes=50)
    files.fail("truncate")
    with pytest.raises(AppendFailed):
        log.append_records([record(99)])
    with pytest.raises(LogPoisoned):
        log.append_records([record(99)])
    with pytest.raises(LogPoisoned):
        log.sync()
    again = log.reopen()
    assert again.recovery_report.cut_bytes == 50
    assert again.append_records([record(4)]).base_offset == 4
    assert contents(again) == expected(5)


def test_a_failed_sync_is_never_taken_back() -> None:
    files, log = filled([2])
    log.sync()
    log.append_records([record(2)])
    files.fail("fdatasync")
    with pytest.raises(SyncFailed):
        log.sync()
    for _ in range(2):
        with pytest.raises(LogPoisoned):
            log.sync()
        with pytest.raises(LogPoisoned):
            log.append_records([record(3)])
    assert log.durable_offset == 2


def test_a_poisoned_log_reopens_with_every_byte_on_disk() -> None:
    files, log = filled([2, 2])
    log.sync()
    log.append_records([record(4)])
    files.fail("fdatasync")
    with pytest.raises(SyncFailed):
        log.sync()
    again = log.reopen()
    assert again.durable_offset == again.log_end_offset == 5
    after = PartitionLog.open(files.crash(), "/data/orders-0", SMALL, recovery_point=5)
    assert contents(after) == expected(5)


def test_a_reopening_that_cannot_sync_fails_and_can_be_repeated() -> None:
    files, log = filled([2])
    files.fail("fdatasync", times=2)
    with pytest.raises(SyncFailed):
        log.sync()
    with pytest.raises(SyncFailed):
        log.reopen()
    assert contents(log.reopen()) == expected(2)


def test_a_roll_syncs_first_where_the_configuration_says_so() -> None:
    files, log = filled([3] * 6, LogConfig(segment_bytes=700, sync_on_roll=True))
    sealed, active = log.segments
    assert bytes(files.names[sealed.path].disk) == bytes(files.names[sealed.path].data)
    assert bytes(files.names[active.path].disk) == b""


def test_a_roll_that_cannot_sync_first_fails_the_append_and_poisons_the_log() -> None:
    files, log = filled([3] * 3, LogConfig(segment_bytes=700, sync_on_roll=True))
    assert len(log.segments) == 1
    files.fail("fdatasync")
    with pytest.raises(AppendFailed):
        log.append_records([record(9, size=600)])
    with pytest.raises(LogPoisoned):
        log.append_records([record(9)])
    assert contents(log) == expected(9)


def test_a_sync_begun_before_a_truncation_makes_nothing_durable() -> None:
    _, log = filled([2, 2])
    plan = log.begin_sync()
    assert plan is not None
    log.truncate_to(2)
    log.append_records([record(2), record(3)])
    plan.run(set())
    assert log.complete_sync(plan, None) is None
    assert log.durable_offset <= 2


def test_a_sync_under_way_survives_the_deletion_of_its_log() -> None:
    _, log = filled([2])
    plan = log.begin_sync()
    assert plan is not None
    log.close_deleted()
    remove_directory(log.files, log.directory)
    plan.run(set())
    assert log.complete_sync(plan, None) is None


def test_a_sync_that_overtakes_an_earlier_one_makes_nothing_durable_alone() -> None:
    config = LogConfig(segment_bytes=300)
    files, log = filled([1] * 3, config)
    earlier = log.begin_sync()
    assert earlier is not None
    log.append_records([record(3)])
    assert len(log.segments) == 2
    later = log.begin_sync()
    assert later is not None
    later.run(set())
    assert log.complete_sync(later, None) is None
    # The first segment is still on its way to the disk.
    assert log.durable_offset == 0
    earlier.run(set())
    assert log.complete_sync(earlier, None) is None
    assert log.durable_offset == 4
    assert contents(PartitionLog.open(files.crash(), log.directory, config, recovery_point=4)) == expected(4)


def test_a_failed_sync_holds_back_what_a_later_one_has_synced() -> None:
    _, log = filled([1] * 3, LogConfig(segment_bytes=300))
    earlier = log.begin_sync()
    log.append_records([record(3)])
    later = log.begin_sync()
    assert earlier is not None
    assert later is not None
    later.run(set())
    log.complete_sync(later, None)
    failure = SyncFailed("/data/orders-0", "no more")
    assert log.complete_sync(earlier, failure) is failure
    assert log.durable_offset == 0
    with pytest.raises(LogPoisoned):
        log.sync()


def test_a_roll_waits_for_the_full_segment_though_a_sync_of_it_is_under_way() -> None:
    files, log = filled([1] * 3, LogConfig(segment_bytes=300, sync_on_roll=True))
    under_way = log.begin_sync()
    assert under_way is not None
    log.append_records([record(3)])
    sealed, _ = log.segments
    assert bytes(files.names[sealed.path].disk) == bytes(files.names[sealed.path].data)


@pytest.mark.parametrize("is_appended", [True, False])
def test_a_log_whose_books_disagree_is_read_anew_and_loses_nothing(is_appended: bool) -> None:
    _, log = filled([2, 2])
    log.log_end_offset -= 1
    with pytest.raises(LogContradicted) as caught:
        log.append_records([record(9)]) if is_appended else log.sync()
    assert caught.value.path == "/data/orders-0"
    with pytest.raises(LogPoisoned):
        log.append_records([record(9)])
    again = log.reopen()
    assert again.append_records([record(4)]).base_offset == 4
    assert contents(again) == expected(5)


def test_a_plan_that_promises_more_than_the_log_has_poisons_it() -> None:
    _, log = filled([2, 2])
    plan = log.begin_sync()
    assert plan is not None
    plan.end_offset += 1
    plan.run(set())
    assert isinstance(log.complete_sync(plan, None), LogContradicted)
    assert log.durable_offset == 0
    with pytest.raises(LogPoisoned):
        log.append_records([record(9)])


def test_an_append_that_is_only_tried_leaves_nothing() -> None:
    files, log = filled([1, 2])
    path = log.segments[-1].path
    size = files.size(path)
    log.probe_append(10_000)
    files.is_full = True
    with pytest.raises(AppendFailed, match="no space"):
        log.probe_append(10_000)
    assert files.size(path) == size
    files.is_full = False
    log.append_records([record(3)])
    assert contents(log) == expected(4)


def test_half_an_index_is_none() -> None:
    """A crash may follow a roll without disk space: its partial file must not count as the index of a segment."""
    files, log = filled([1] * 5, LogConfig())
    log.config = replace(log.config, segment_bytes=log.size_bytes)
    indexes = [log.segments[0].path.removesuffix("log") + suffix for suffix in ("index", "timeindex")]
    for path in indexes:
        files.write(path, b"")
    files.is_full = True
    with pytest.raises(AppendFailed, match="begin a segment"):
        log.append_records([record(5)])
    assert not any(map(files.exists, indexes))
    files.is_full = False
    log.append_records([record(5)])
    assert len(log.segments) == 2
    assert contents(log) == expected(6)
