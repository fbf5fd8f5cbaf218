"""Verification predicts the engine's handling of a log."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.batch import encode_batch
from storage.checksum import crc32c
from storage.compression import ZSTD
from storage.inspection.log_findings import FindingEffect, FindingKind
from storage.inspection.segment_file_checks import IndexesCheck
from storage.inspection.verification import LogVerification
from storage.log import PartitionLog
from storage.offset_checkpoint import RECOVERY_POINTS
from storage.record import Record
from storage.storage_errors import LogDamaged
from tests.storage.damaged_logs import DATA, DIRECTORY, SIZES, findings, flip, records_of, stored, the_log
from tests.storage.faulty_files import FaultyFiles
from tests.storage.numbered_log import SMALL
from tests.storage.transactional_log import TransactionalLog


@given(SIZES, st.booleans())
def test_a_log_of_the_engine_is_sound_closed_or_not(sizes: list[int], is_closed: bool) -> None:
    files, batches = stored(sizes)
    if not is_closed:
        log = PartitionLog.open(files, DIRECTORY, SMALL, recovery_point=batches[-1].header.next_offset)
        log.append(encode_batch([Record(-1, 5, b"k", b"v")], codec=ZSTD))
    verification = LogVerification(files, the_log(files))
    assert list(verification.find_problems()) == []
    assert verification.totals.batches == len(batches) + (not is_closed)
    assert verification.totals.records == sum(sizes) + (not is_closed)


@settings(max_examples=200)
@given(SIZES, st.data())
def test_damage_is_found_where_it_is_and_means_what_the_engine_does(
    sizes: list[int], data: st.DataObject
) -> None:
    _, batches = stored(sizes)
    recovery_point = data.draw(st.sampled_from([0, *(batch.header.next_offset for batch in batches)]))
    files, batches = stored(sizes, recovery_point)
    victim = data.draw(st.sampled_from(batches))
    flip(files, victim, data.draw(st.integers(16, len(victim.data) - 1)))
    found = findings(files)
    damage = found[0]
    assert (damage.path, damage.position, damage.length) == (victim.path, victim.position, len(victim.data))
    assert damage.kind is (FindingKind.TORN_TAIL if victim is batches[-1] else FindingKind.DAMAGED_BATCH)
    try:
        log = PartitionLog.open(files, DIRECTORY, SMALL, recovery_point=recovery_point)
        contents = records_of(log.iterate_batches())
    except LogDamaged:
        assert damage.effect is FindingEffect.STOPS_LOAD
    else:
        assert damage.effect is FindingEffect.CUT_AT_START
        assert log.recovery_report.cut_position == victim.position
        assert contents == records_of(
            batch for batch in batches if batch.header.base_offset < victim.header.base_offset
        )


def test_a_log_that_ends_before_its_recovery_point_is_not_loaded() -> None:
    files, batches = stored([1, 2, 3])
    files.open_append(batches[-1].path).truncate(batches[-1].position)
    found = [(finding.kind, finding.effect, finding.offset) for finding in findings(files)]
    assert (FindingKind.RECOVERY_POINT, FindingEffect.STOPS_LOAD, 3) in found
    with pytest.raises(LogDamaged):
        PartitionLog.open(files, DIRECTORY, SMALL, recovery_point=6)


@pytest.mark.parametrize(
    ("suffix", "data", "kind", "effect"),
    [
        (".index", b"\0\0\0\5\0\0\0\7", FindingKind.OFFSET_INDEX, FindingEffect.MISLEADS_READS),
        (".index", b"\0\0\0\5\0\1\0\0", FindingKind.OFFSET_INDEX, FindingEffect.REBUILT),
        (".index", b"\0\0\0", FindingKind.OFFSET_INDEX, FindingEffect.REBUILT),
        (".timeindex", b"\0\0\0\0\0\0\0\1\0\0\0\5", FindingKind.TIME_INDEX, FindingEffect.MISLEADS_READS),
        (".timeindex", b"\0\0\0\0\0\0\0\1", FindingKind.TIME_INDEX, FindingEffect.REBUILT),
    ],
)
def test_an_index_that_disagrees_with_its_segment_is_found(
    suffix: str, data: bytes, kind: FindingKind, effect: FindingEffect
) -> None:
    files, batches = stored([3] * 20)
    files.write(batches[0].path.replace(".log", suffix), data)
    (finding,) = findings(files)
    assert (finding.kind, finding.effect) == (kind, effect)
    assert finding.path.endswith(suffix)


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".log"])
def test_a_segment_that_is_written_while_it_is_read_has_no_wrong_index(suffix: str) -> None:
    files, batches = stored([3] * 20)
    log_path = batches[0].path
    files.write(log_path.replace(".log", ".index"), b"\0\0\0\5\0\0\0\7")
    checks = [IndexesCheck(files, log_path, 0) for _ in range(2)]
    for check in checks:
        for batch in batches:
            if batch.path == log_path:
                check.check_batch(batch)
    assert [kind for kind, *_ in checks[0].finish(is_sealed=True)] == [FindingKind.OFFSET_INDEX]
    files.open_append(log_path.replace(".log", suffix)).write(bytes(12))
    assert checks[1].finish(is_sealed=True) == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_nothing_wrong_nor_is_space_that_a_broker_keeps(suffix: str) -> None:
    files, batches = stored([3] * 20)
    path = batches[0].path.replace(".log", suffix)
    files.names[path].data += bytes(480 if suffix == ".index" else 1200)
    assert findings(files) == []
    files.unlink(path)
    assert findings(files) == []


def test_a_batch_whose_records_are_none_is_found_although_its_checksum_holds() -> None:
    files = FaultyFiles()
    log = PartitionLog.open(files, DIRECTORY, SMALL)
    # The count that the header announces is one too many; the checksum is computed over that.
    data = bytearray(encode_batch([Record(-1, 5, b"k", b"v")]))
    data[60] = 2
    data[26] = 1
    log.append(encode_batch([Record(-1, 5, b"k", b"v")]))
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    log.append(bytes(data))
    log.close()
    (finding,) = findings(files)
    assert (finding.kind, finding.effect, finding.offset) == (
        FindingKind.UNREADABLE_RECORDS,
        FindingEffect.FAILS_READS,
        1,
    )


def test_records_that_make_no_sense_are_named_by_their_offset() -> None:
    files, _ = stored([4, 4])
    verification = LogVerification(
        files, the_log(files), examine=lambda item: "odd" if item.offset == 5 else None
    )
    (finding,) = verification.find_problems()
    assert (finding.kind, finding.offset, finding.reason) == (FindingKind.UNDECODABLE_RECORD, 5, "odd")


def test_a_checkpoint_that_makes_no_sense_is_found_and_the_log_still_read() -> None:
    files, batches = stored([1, 1])
    files.write(f"{DATA}/{RECOVERY_POINTS}", b"nothing\n")
    verification = LogVerification(files, the_log(files))
    (finding,) = verification.find_problems()
    assert (finding.kind, finding.path) == (FindingKind.CHECKPOINT, f"{DATA}/{RECOVERY_POINTS}")
    assert verification.totals.batches == len(batches)


def test_an_unfinished_batch_is_looked_at_again_while_its_writer_goes_on() -> None:
    files, batches = stored([1, 2])
    last = batches[-1]
    file = files.open_append(last.path)
    file.truncate(last.position + 30)
    calls = 0

    def pause() -> None:
        nonlocal calls
        calls += 1
        file.write(last.data[30:60] if calls == 1 else last.data[60:] if calls == 2 else b"")

    assert list(LogVerification(files, the_log(files), pause=pause).find_problems()) == []


@pytest.mark.parametrize("listing", [1, 2, 3, 4, 5])
def test_a_snapshot_that_is_written_while_segments_are_read_is_sound(listing: int) -> None:
    """Another process begins segments, each with a snapshot, after the directory was listed so many times."""

    class WrittenWhileRead(FaultyFiles):
        def listdir(self, path: str) -> list[str]:
            names = super().listdir(path)
            if path == DIRECTORY and is_verifying:
                listings.append(names)
                if len(listings) == listing:
                    fill(2)
            return names

    def fill(segments: int) -> None:
        target = len(writer.log.segments) + segments
        while len(writer.log.segments) < target:
            writer.plain()

    is_verifying = False
    listings: list[list[str]] = []
    files = WrittenWhileRead()
    writer = TransactionalLog(files, directory=DIRECTORY)
    fill(2)
    is_verifying = True
    assert [finding.reason for finding in LogVerification(files, the_log(files)).find_problems()] == []
