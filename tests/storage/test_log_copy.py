"""A copy of a log from its pieces equals the log."""

from pathlib import Path

import pytest

from storage.batch import encode_batch
from storage.files import OsFiles
from storage.leader_epochs import EpochStart, LeaderEpochs
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.log_copy import write_log_copy
from storage.record import Record
from storage.replication_queue import MAX_PIECE_BYTES, ReplicationQueue
from storage.storage_errors import LogDamaged

CONFIG = LogConfig(cleanup_policy="compact")
INTERVAL = CONFIG.index_interval_bytes


def batch(count: int = 1) -> bytes:
    return encode_batch([Record(-1, 1, b"key", b"value")] * count)


def pieces_of(log: PartitionLog) -> list[tuple[int, bytes]]:
    return [(0, stored.data) for stored in log.iterate_batches()]


def test_it_reads_as_the_one_that_it_was_made_from(tmp_path: Path) -> None:
    source = PartitionLog.open(OsFiles(), str(tmp_path / "source"), CONFIG)
    for count in (1, 3, 2):
        source.append(batch(count))
    pieces = pieces_of(source)
    target = str(tmp_path / "target")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "left over").touch()
    assert write_log_copy(OsFiles(), target, [pieces[0], (1, pieces[1][1] + pieces[2][1])], 7, INTERVAL) == 6
    log = PartitionLog.open(OsFiles(), target, CONFIG)
    assert [stored.data for stored in log.iterate_batches()] == [data for _, data in pieces]
    assert (log.log_end_offset, log.leader_epochs.current) == (6, 7)
    assert log.leader_epochs.find_epoch(5) == 0
    log.append(batch())
    assert [stored.header.partition_leader_epoch for stored in log.iterate_batches(6)] == [7]


def test_pieces_that_do_not_follow_one_another_are_refused(tmp_path: Path) -> None:
    source = PartitionLog.open(OsFiles(), str(tmp_path / "source"), CONFIG)
    for _ in range(2):
        source.append(batch())
    [(_, first), (_, second)] = pieces_of(source)
    for pieces in ([(0, second), (0, first)], [(0, first[:-1])], [(0, first + second), (1, second)]):
        with pytest.raises(LogDamaged):
            write_log_copy(OsFiles(), str(tmp_path / "target"), pieces, 1, INTERVAL)


def test_its_indexes_are_those_of_a_log_that_was_written(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=200, segment_bytes=3000)
    source = PartitionLog.open(OsFiles(), str(tmp_path / "source"), config)
    pieces = []
    for time_ms in (7, 9, 8, *range(10, 70)):
        data = encode_batch([Record(time_ms, 1, b"key", b"value")])
        source.append(data)
        [stored] = source.iterate_batches(source.log_end_offset - 1)
        pieces.append((source.segments[-1].base_offset, stored.data))
    source.close(clean=True)
    assert write_log_copy(OsFiles(), str(tmp_path / "target"), pieces, 0, 200) == len(pieces)
    written = {path.name: path.read_bytes() for path in (tmp_path / "source").iterdir()}
    assert len(written) > 6
    assert {path.name: path.read_bytes() for path in (tmp_path / "target").iterdir()} == written


@pytest.mark.parametrize("position", [16, 20, -1])
def test_a_damaged_batch_is_refused(tmp_path: Path, position: int) -> None:
    source = PartitionLog.open(OsFiles(), str(tmp_path / "source"), CONFIG)
    for _ in range(3):
        source.append(batch())
    [first, (_, second), third] = pieces_of(source)
    damaged = bytearray(second)
    damaged[position] ^= 1
    with pytest.raises(LogDamaged) as raised:
        write_log_copy(OsFiles(), str(tmp_path / "target"), [first, (0, bytes(damaged)), third], 1, INTERVAL)
    assert raised.value.position == len(first[1])


def test_the_epoch_of_the_batches_may_go_on_and_never_fall(tmp_path: Path) -> None:
    source = PartitionLog.open(OsFiles(), str(tmp_path / "source"), CONFIG)
    source.leader_epochs = LeaderEpochs([EpochStart(3, 0)])
    source.append(batch())
    [piece] = pieces_of(source)
    target = str(tmp_path / "target")
    assert write_log_copy(OsFiles(), target, [piece], 3, INTERVAL) == 1
    assert PartitionLog.open(OsFiles(), target, CONFIG).leader_epochs.current == 3
    with pytest.raises(LogDamaged):
        write_log_copy(OsFiles(), target, [piece], 2, INTERVAL)


def test_what_is_durable_is_what_the_engine_has(tmp_path: Path) -> None:
    log = PartitionLog.open(OsFiles(), str(tmp_path / "log"), CONFIG)
    log.durability.replication_queue = outgoing = ReplicationQueue(5)
    log.append(batch(2))
    log.append(batch(1))
    assert log.durable_offset == 0
    number, [taken] = outgoing.take_submission(log.log_end_offset)
    assert taken[:2] == (0, 3)
    assert taken.data == b"".join(stored.data for stored in log.iterate_batches())
    assert outgoing.take_submission(3) == (number + 1, ())
    assert outgoing.unconfirmed_bytes == len(taken.data)
    log.durability.on_replicated(3, log.log_end_offset)
    outgoing.confirm_submission(number)
    assert log.durable_offset == 3
    assert outgoing.unconfirmed_bytes == 0


def test_what_is_appended_goes_out_in_pieces_of_whole_batches(tmp_path: Path) -> None:
    log = PartitionLog.open(OsFiles(), str(tmp_path / "log"), CONFIG)
    log.durability.replication_queue = outgoing = ReplicationQueue(5)
    large = encode_batch([Record(-1, 1, b"key", b"v" * 400_000)])
    for data in (batch(2), large, large, large, batch(1)):
        log.append(data)
    _, pieces = outgoing.take_submission(log.log_end_offset)
    assert [piece[:2] for piece in pieces] == [(0, 4), (4, 6)]
    assert b"".join(piece.data for piece in pieces) == b"".join(
        stored.data for stored in log.iterate_batches()
    )
    assert max(len(piece.data) for piece in pieces) <= MAX_PIECE_BYTES


def test_a_copy_that_begins_a_segment_is_not_durable_for_that(tmp_path: Path) -> None:
    config = LogConfig(cleanup_policy="compact", segment_bytes=500, sync_on_roll=True)
    log = PartitionLog.open(OsFiles(), str(tmp_path / "log"), config)
    log.durability.replication_queue = ReplicationQueue(5)
    for _ in range(20):
        log.append(batch())
    assert len(log.segments) > 1
    log.sync()
    assert log.durable_offset == 0
    log.durability.on_replicated(3, log.log_end_offset)
    assert log.durable_offset == 3


@pytest.mark.parametrize("records", [0, 2])
def test_a_log_whose_first_records_were_deleted_goes_on_where_it_ended(tmp_path: Path, records: int) -> None:
    source = PartitionLog.open(OsFiles(), str(tmp_path / "source"), LogConfig())
    for _ in range(records):
        source.append(batch())
    target = str(tmp_path / "target")
    assert write_log_copy(OsFiles(), target, pieces_of(source), 7, INTERVAL, 9) == 9
    log = PartitionLog.open(OsFiles(), target, LogConfig(), log_start_offset=9)
    assert (log.log_start_offset, log.log_end_offset) == (9, 9)
    assert log.append(batch()).base_offset == 9
