"""The journal's bytes: a reader returns exactly the written entries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.journal.journal_frame import (
    BLOCK_BYTES,
    BrokenFrame,
    FrameHead,
    JournalEntry,
    LogKey,
    calculate_frame_size,
    decode_entries,
    decode_frame_head,
    encode_entries,
    encode_frame,
    find_next_frame_position,
)

RUN = bytes(range(8))
OFFSETS = st.integers(0, 2**62 - 1)
KEYS = st.builds(LogKey, st.binary(min_size=16, max_size=16), st.text(max_size=60), st.integers(0, 2**31 - 1))
ENTRY = st.builds(
    lambda key, at, count, data: JournalEntry(key, at, at + count, data),
    KEYS,
    OFFSETS,
    OFFSETS.filter(bool),
    st.binary(max_size=900),
)
ENTRIES = st.lists(ENTRY, max_size=6)
HEADS = st.builds(FrameHead, st.just(RUN), OFFSETS, OFFSETS, OFFSETS)


@given(HEADS, ENTRIES, st.integers(0, 3))
def test_a_frame_is_read_as_it_was_written(head: FrameHead, entries: list[JournalEntry], blocks: int) -> None:
    before = bytes(blocks * BLOCK_BYTES)
    encoded = encode_entries(entries)
    frame = encode_frame(head, encoded)
    assert len(frame) == calculate_frame_size(encoded)
    assert len(frame) % BLOCK_BYTES == 0
    data = before + frame + b"what comes after"
    found, end = decode_frame_head(data, len(before), RUN)
    assert found == head
    assert list(decode_entries(data, len(before), end)) == entries
    assert find_next_frame_position(end) == len(before) + len(frame)


@given(HEADS, ENTRIES, st.data())
def test_a_frame_that_is_cut_or_changed_is_none(
    head: FrameHead, entries: list[JournalEntry], data: st.DataObject
) -> None:
    frame = bytearray(encode_frame(head, encode_entries(entries)))
    _, end = decode_frame_head(bytes(frame), 0, RUN)
    if data.draw(st.booleans()):
        del frame[data.draw(st.integers(0, end - 1)) :]
    else:
        frame[data.draw(st.integers(0, end - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BrokenFrame):
        decode_frame_head(bytes(frame), 0, RUN)
