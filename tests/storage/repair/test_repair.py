"""A repair of a damaged log keeps exactly the sound batches, also after a crash at any call."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.inspection.log_findings import FindingKind
from storage.leader_epochs import LEADER_EPOCHS, LeaderEpochs
from storage.offset_checkpoint import RECOVERY_POINTS, read_offsets
from storage.record import Record
from storage.repair.repair import LogRepair
from storage.repair.repair_copy import RepairCopy, can_hold_copy
from storage.repair.repair_in_place import repair_in_place
from storage.storage_errors import DamagedFile, LogDamaged
from tests.storage.damaged_logs import (
    DATA,
    DIRECTORY,
    NAME,
    SIZES,
    findings,
    flip,
    opened,
    records_of,
    stored,
    sync_all,
    the_log,
)
from tests.storage.faulty_files import CrashError, FaultyFiles

COPY = "/copy"


def in_place(files: FaultyFiles) -> list[str]:
    """Repair the log in place; return the paths of damaged files."""
    _, damaged = repair_in_place(files, the_log(files), lambda log: LogRepair(files, log))
    return damaged


def recovery_point(files: FaultyFiles, directory: str = DATA) -> int:
    return read_offsets(files, f"{directory}/{RECOVERY_POINTS}")[NAME]


@settings(max_examples=150)
@given(SIZES, st.data())
def test_a_repaired_log_opens_with_every_sound_batch_and_no_other(
    sizes: list[int], data: st.DataObject
) -> None:
    files, batches = stored(sizes)
    victims = data.draw(st.lists(st.sampled_from(batches), max_size=4, unique_by=id))
    for victim in victims:
        flip(
            files,
            victim,
            data.draw(st.integers(8, len(victim.data) - 1).filter(lambda at: not 12 <= at < 16)),
        )
    expected = records_of(batch for batch in batches if batch not in victims)
    damaged = in_place(files)
    assert bool(damaged) == bool(victims)
    assert findings(files) == []
    assert opened(files, recovery_point(files)) == expected


@given(SIZES, st.data())
def test_what_was_lost_is_said_where_it_was(sizes: list[int], data: st.DataObject) -> None:
    files, batches = stored(sizes)
    victim = data.draw(st.sampled_from(batches))
    flip(files, victim)
    files.mkdir(COPY)
    result = LogRepair(files, the_log(files)).write(COPY)
    (loss,) = result.losses
    assert (loss.kind, loss.path, loss.position) == (FindingKind.DAMAGED_BATCH, victim.path, victim.position)
    assert loss.length == len(victim.data)
    assert loss.first_offset == victim.header.base_offset
    assert loss.end_offset == (None if victim is batches[-1] else victim.header.next_offset)
    kept = sum(segment.records for segment in result.segments)
    assert kept == sum(sizes) - victim.header.records_count


def test_a_sound_log_stays_as_it_is_byte_by_byte() -> None:
    files, _ = stored([2] * 12)
    before = {path: bytes(inode.data) for path, inode in files.names.items()}
    assert in_place(files) == []
    assert {path: bytes(inode.data) for path, inode in files.names.items()} == before


def test_the_damaged_file_is_kept_beside_each_time() -> None:
    files, batches = stored([2, 2, 2])
    flip(files, batches[0])
    flip(files, batches[0], 50)
    damaged = files.read(batches[0].path)
    (first,) = in_place(files)
    assert files.read(first) == damaged
    again = files.read(batches[0].path)
    files.names[batches[0].path].data[-1] ^= 1
    assert files.read(batches[0].path) != again
    (second,) = in_place(files)
    assert second != first
    assert files.read(first) == damaged


def test_a_recovery_point_beyond_the_end_comes_down() -> None:
    files, batches = stored([1, 2, 3])
    flip(files, batches[-1])
    with pytest.raises(LogDamaged):
        opened(files, recovery_point(files))
    in_place(files)
    assert recovery_point(files) == 3
    assert opened(files, 3) == records_of(batches[:-1])


def test_a_recovery_point_before_a_gap_goes_up() -> None:
    files, batches = stored([3] * 12, recovery_point=0)
    second = next(batch for batch in batches if batch.path != batches[0].path)
    lost = [batch for batch in batches if batch.path == second.path]
    for batch in lost:
        flip(files, batch)
    in_place(files)
    assert opened(files, recovery_point(files)) == records_of(batch for batch in batches if batch not in lost)


def test_a_log_of_which_nothing_is_left_ends_where_it_ended() -> None:
    files, batches = stored([3] * 12)
    last = [batch for batch in batches if batch.path == batches[-1].path]
    for batch in last:
        flip(files, batch)
    in_place(files)
    assert recovery_point(files) == last[0].header.base_offset
    assert opened(files, recovery_point(files)) == records_of(batches[: -len(last)])


def test_wrong_indexes_are_made_anew_and_nothing_else_changes() -> None:
    files, batches = stored([3] * 20)
    index = batches[0].path.replace(".log", ".index")
    files.names[index].data[:8] = b"\0\0\0\1\0\0\0\1"
    assert [finding.kind for finding in findings(files)] == [FindingKind.OFFSET_INDEX]
    assert in_place(files) == []
    assert findings(files) == []
    assert opened(files, recovery_point(files)) == records_of(batches)


def test_a_checkpoint_of_epochs_that_makes_no_sense_is_made_from_the_batches() -> None:
    files, batches = stored([1, 1])
    files.write(f"{DIRECTORY}/{LEADER_EPOCHS}", b"0\nmany\n")
    assert [finding.kind for finding in findings(files)] == [FindingKind.CHECKPOINT]
    in_place(files)
    epochs = LeaderEpochs.read(files, DIRECTORY)
    assert epochs is not None
    assert epochs.current == batches[-1].header.partition_leader_epoch
    assert findings(files) == []


def test_recovery_points_that_make_no_sense_are_replaced_only_with_all_logs() -> None:
    files, batches = stored([1, 1])
    files.write(f"{DATA}/{RECOVERY_POINTS}", b"?")
    with pytest.raises(DamagedFile):
        in_place(files)
    repair_in_place(files, the_log(files), lambda log: LogRepair(files, log), makes_checkpoint=True)
    assert opened(files, recovery_point(files)) == records_of(batches)


def test_records_that_make_no_sense_go_only_when_told() -> None:
    files, _ = stored([4, 4])

    def examine(item: Record) -> str | None:
        return "odd" if item.offset == 2 else None

    files.mkdir(COPY)
    kept = LogRepair(files, the_log(files), examine=examine).write(COPY)
    assert kept.losses == []
    files.mkdir("/other")
    dropped = LogRepair(files, the_log(files), examine=examine, drops_undecodable=True)
    result = dropped.write("/other")
    assert [(loss.kind, loss.first_offset, loss.end_offset) for loss in result.losses] == [
        (FindingKind.UNDECODABLE_RECORD, 2, 3)
    ]
    assert sum(segment.records for segment in result.segments) == 7


def outcome(files: FaultyFiles) -> list[Record] | None:
    """Open the log; return its records, or None if the log is refused."""
    try:
        return opened(files, recovery_point(files))
    except LogDamaged:
        return None


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_crash_at_any_call_leaves_the_log_refused_or_repaired(seed: int | None) -> None:
    def damaged() -> tuple[FaultyFiles, list[Record]]:
        files, batches = stored([3] * 12)
        for batch in (batches[1], batches[5], batches[-1]):
            flip(files, batch)
        sync_all(files)
        return files, records_of(batch for number, batch in enumerate(batches) if number not in (1, 5, 11))

    nth = 0
    while True:
        nth += 1
        files, expected = damaged()
        files.crash_at("any", nth)
        try:
            in_place(files)
        except CrashError:
            after = files.crash(None if seed is None else Random(seed * 10_000 + nth))
            assert outcome(after.crash()) in (None, expected)
            in_place(after)
            assert findings(after) == []
            assert outcome(after) == expected
        else:
            break
    assert nth > 50


@pytest.mark.parametrize("is_power_lost", [True, False])
def test_a_copy_that_is_interrupted_at_any_call_is_made_anew(is_power_lost: bool) -> None:
    def repair(files: FaultyFiles) -> None:
        copy = RepairCopy(files, COPY)
        copy.add_log(the_log(files), LogRepair(files, the_log(files)))
        copy.finish(the_log(files), is_directory=True)

    whole, _ = stored([3, 2])
    repair(whole)
    expected = everything(whole)
    interrupted = 0
    for nth in range(1, 200):
        files, _ = stored([3, 2])
        sync_all(files)
        files.crash_at("any", nth)
        try:
            repair(files)
        except CrashError:
            interrupted += files.exists(COPY)
        else:
            assert interrupted > 10
            return
        after = files.crash() if is_power_lost else files.kill()
        if after.exists(COPY):
            assert can_hold_copy(after, COPY) or everything(after) == expected
            if not can_hold_copy(after, COPY):
                continue
        repair(after)
        assert everything(after) == everything(after.crash()) == expected
        assert not can_hold_copy(after, COPY)
    raise AssertionError("it never ends")


def everything(files: FaultyFiles) -> dict[str, bytes]:
    """What a copy consists of."""
    return {path: bytes(inode.data) for path, inode in files.names.items() if path.startswith(COPY)}


def test_a_copy_can_be_opened_and_leaves_the_original() -> None:
    files, batches = stored([3] * 12)
    flip(files, batches[4])
    before = {path: bytes(inode.data) for path, inode in files.names.items()}
    copy = RepairCopy(files, COPY)
    log = the_log(files)
    result = copy.add_log(log, LogRepair(files, log))
    assert copy.finish(log, is_directory=False) == []
    assert {path: data for path, data in before.items() if bytes(files.names[path].data) != data} == {}
    assert result.log_end_offset == 36
    moved = FaultyFiles()
    moved.names = {
        DATA + path.removeprefix(COPY) if path.startswith(COPY) else path: inode
        for path, inode in files.names.items()
        if not path.startswith(DATA)
    }
    assert opened(moved, recovery_point(moved)) == records_of(batches[:4] + batches[5:])
