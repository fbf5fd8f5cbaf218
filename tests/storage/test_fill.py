"""A log that is made from pieces of another one is that log."""

from pathlib import Path

import pytest

from storage.batch import encode_batch
from storage.errors import LogDamaged
from storage.files import OsFiles
from storage.fill import fill
from storage.leader_epochs import EpochStart, LeaderEpochs
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.outgoing import Outgoing
from storage.record import Record

CONFIG = LogConfig(cleanup_policy="compact")


def batch(count: int = 1) -> bytes:
    return encode_batch([Record(-1, 1, b"key", b"value")] * count)


def pieces_of(log: PartitionLog) -> list[tuple[int, bytes]]:
    return [(0, stored.data) for stored in log.batches()]


def test_it_reads_as_the_one_that_it_was_made_from(tmp_path: Path) -> None:
    source = PartitionLog.open(OsFiles(), str(tmp_path / "source"), CONFIG)
    for count in (1, 3, 2):
        source.append(batch(count))
    pieces = pieces_of(source)
    target = str(tmp_path / "target")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "left over").touch()
    assert fill(OsFiles(), target, [pieces[0], (1, pieces[1][1] + pieces[2][1])], epoch=7) == 6
    log = PartitionLog.open(OsFiles(), target, CONFIG)
    assert [stored.data for stored in log.batches()] == [data for _, data in pieces]
    assert (log.log_end_offset, log.leader_epochs.current) == (6, 7)
    assert log.leader_epochs.at(5) == 0
    log.append(batch())
    assert [stored.header.partition_leader_epoch for stored in log.batches(6)] == [7]


def test_pieces_that_do_not_follow_one_another_are_refused(tmp_path: Path) -> None:
    source = PartitionLog.open(OsFiles(), str(tmp_path / "source"), CONFIG)
    for _ in range(2):
        source.append(batch())
    [(_, first), (_, second)] = pieces_of(source)
    for pieces in ([(0, second), (0, first)], [(0, first[:-1])], [(0, first + second), (1, second)]):
        with pytest.raises(LogDamaged):
            fill(OsFiles(), str(tmp_path / "target"), pieces, epoch=1)


def test_the_epoch_of_the_batches_may_go_on_and_never_fall(tmp_path: Path) -> None:
    source = PartitionLog.open(OsFiles(), str(tmp_path / "source"), CONFIG)
    source.leader_epochs = LeaderEpochs([EpochStart(3, 0)])
    source.append(batch())
    [piece] = pieces_of(source)
    target = str(tmp_path / "target")
    assert fill(OsFiles(), target, [piece], epoch=3) == 1
    assert PartitionLog.open(OsFiles(), target, CONFIG).leader_epochs.current == 3
    with pytest.raises(LogDamaged):
        fill(OsFiles(), target, [piece], epoch=2)


def test_what_is_durable_is_what_the_engine_has(tmp_path: Path) -> None:
    log = PartitionLog.open(OsFiles(), str(tmp_path / "log"), CONFIG)
    log.durability.outgoing = outgoing = Outgoing(5)
    log.append(batch(2))
    log.append(batch(1))
    assert log.durable_offset == 0
    number, taken = outgoing.take(log.log_end_offset)
    assert taken is not None
    assert taken[:2] == (0, 3)
    assert taken.data == b"".join(stored.data for stored in log.batches())
    assert outgoing.take(3) == (number + 1, None)
    log.durability.replicated(3, log.log_end_offset)
    assert log.durable_offset == 3
