"""What compaction, and whoever finishes it after a crash, makes of damaged bytes: an error, and nothing else."""

import struct

import pytest

from storage.errors import LogDamaged
from storage.log import PartitionLog
from storage.recovery.swap import SWAP_SUFFIX
from tests.storage.compacting import compact
from tests.storage.faulty_files import FaultyFiles
from tests.storage.test_compaction import CONFIG, fill, opened


def test_damage_ends_the_pass_with_its_place_and_rewrites_nothing() -> None:
    log = opened()
    fill(log)
    log.sync()
    assert isinstance(log.files, FaultyFiles)
    segment = log.segments[1]
    raw = bytearray(log.files.read(segment.path))
    raw[70] ^= 1
    log.files.write(segment.path, bytes(raw))
    before = {path: log.files.read(path) for path in (each.path for each in log.segments)}
    with pytest.raises(LogDamaged) as caught:
        compact(log)
    assert (caught.value.path, caught.value.position) == (segment.path, 0)
    assert {path: log.files.read(path) for path in before} == before
    assert not [name for name in log.files.listdir("/log-0") if "cleaned" in name or "swap" in name]


@pytest.mark.parametrize("bit", [0x01, 0x04, 0x10, 0x40])
def test_a_wrong_offset_ends_the_pass_too(bit: int) -> None:
    log = opened()
    fill(log, 60)
    log.sync()
    assert isinstance(log.files, FaultyFiles)
    segment = log.segments[2]
    log.files.names[segment.path].data[7] ^= bit  # no checksum covers it
    before = {each.path: log.files.read(each.path) for each in log.segments}
    with pytest.raises(LogDamaged) as caught:
        compact(log)
    assert caught.value.path in [segment.path, log.segments[3].path]
    assert {path: log.files.read(path) for path in before} == before


@pytest.mark.parametrize(("number", "offset"), [(-1, 2**40), (0, 1000)])
def test_a_swap_with_a_wrong_offset_takes_nothing_away(number: int, offset: int) -> None:
    log = opened()
    fill(log, 60)
    log.close()
    assert isinstance(log.files, FaultyFiles)
    files = log.files
    first = log.segments[0]
    swap = bytearray(files.read(first.path))
    position = list(first.walk())[number].position
    swap[position : position + 8] = struct.pack(">q", offset)
    files.write(first.path + SWAP_SUFFIX, bytes(swap))
    names = files.listdir("/log-0")
    with pytest.raises(LogDamaged) as caught:
        PartitionLog.open(files, "/log-0", CONFIG, recovery_point=60)
    assert caught.value.path == first.path + SWAP_SUFFIX
    assert files.listdir("/log-0") == names
