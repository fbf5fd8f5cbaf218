"""Compaction, and its completion after a crash, fail with an error on damaged bytes and change nothing."""

import struct

import pytest

from storage.batch import CRC_START, encode_batch
from storage.checksum import crc32c
from storage.log import PartitionLog
from storage.record import Record
from storage.recovery.segment_swap import SWAP_SUFFIX
from storage.storage_errors import LogDamaged
from tests.storage.compaction.compacting import compact
from tests.storage.compaction.test_compaction import CONFIG, fill, opened, put
from tests.storage.faulty_files import FaultyFiles


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


def test_a_large_batch_that_cannot_be_decoded_ends_the_pass_with_its_place() -> None:
    log = opened()
    put(log, "first", "x")
    batch = bytearray(encode_batch([Record(-1, 1_000, b"key", b"value")] * 300))
    batch[57:61] = (299).to_bytes(4)  # one record more than the header says
    batch[17:21] = crc32c(bytes(batch[CRC_START:])).to_bytes(4)
    log.append(bytes(batch))
    put(log, "last", "x")
    log.sync()
    with pytest.raises(LogDamaged) as caught:
        compact(log)
    assert (caught.value.path, caught.value.position) == (log.segments[1].path, 0)


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
