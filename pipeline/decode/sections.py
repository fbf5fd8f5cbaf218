"""Read the records of many batches as columns: the start of each record, and its fields.

Each batch has a section of records. Uncompressed sections stay in place; decompressed ones are appended, so that
all sections are ranges of one buffer. Within a batch the starts of records must be found one after the other, but
the k-th records of all batches are found at once. Because a few long batches among short ones would make that slow,
the last remaining batches are walked one by one. Then every field of all records is read at once.

A section that contradicts its header is *odd*: damaged, or written in a rare form. The plain decoder handles odd
batches.
"""

from typing import Final, NamedTuple

import numpy as np

from pipeline.decode.frames import Flags, Frames, Numbers
from pipeline.decode.numbers import PADDING_BYTES, Bytes, varints
from storage.batch import HEADER_BYTES
from storage.compression import decompress
from storage.storage_errors import CorruptBatch

MIN_RECORD_BYTES: Final = 7
_FEW_BATCHES: Final = 24
_MAX_TIME_BYTES: Final = 8  # of a time's distance; more would not fit the arithmetic here


class Sections(NamedTuple):
    """Record sections as ranges of one padded buffer."""

    data: Bytes
    starts: Numbers
    ends: Numbers
    is_odd: Flags


class Records(NamedTuple):
    """Records by column. Positions refer to the buffer of the sections; a length of -1 is null."""

    batch: Numbers
    """The index of its batch."""
    offset_deltas: Numbers
    time_deltas_ms: Numbers
    key_starts: Numbers
    key_lengths: Numbers
    value_starts: Numbers
    value_lengths: Numbers


def find_sections(buffer: bytes | memoryview, frames: Frames) -> Sections:
    """Return the decompressed sections of the batches in a buffer."""
    starts = frames.positions + HEADER_BYTES
    ends = frames.positions + frames.sizes
    is_odd = np.zeros(len(frames), bool)
    parts: list[bytes | memoryview] = [buffer]
    length = len(buffer)
    for index in np.flatnonzero(frames.codecs):
        packed = memoryview(buffer)[int(starts[index]) : int(ends[index])]
        if not len(packed):
            continue
        try:
            section = decompress(int(frames.codecs[index]), packed)
        except CorruptBatch:
            is_odd[index] = True
            continue
        parts.append(section)
        starts[index], ends[index] = length, length + len(section)
        length += len(section)
    parts.append(bytes(PADDING_BYTES))
    return Sections(np.frombuffer(b"".join(parts), np.uint8), starts, ends, is_odd)


def find_records(sections: Sections, counts: Numbers) -> tuple[Records, Flags]:
    """Return all records of the regular sections in order, and which sections are odd.

    `counts` are the numbers of records that the headers promise.
    """
    data, starts, ends, is_odd = sections
    is_odd = is_odd | (counts * MIN_RECORD_BYTES > ends - starts) | ((counts == 0) & (starts != ends))
    counts = np.where(is_odd, 0, counts)
    places, went_wrong = _places(sections, counts)
    is_odd |= went_wrong
    batch = np.repeat(np.arange(len(counts)), counts)
    records, is_sound = _fields(data, places, batch, ends)
    is_odd[batch[~is_sound]] = True
    kept = ~is_odd[batch]
    if not kept.all():
        records = Records(*(column[kept] for column in records))
    return records, is_odd


def _places(sections: Sections, counts: Numbers) -> tuple[Numbers, Flags]:
    """Return the start of each record, and which sections are odd (their positions are arbitrary but in range)."""
    data, starts, ends, _ = sections
    first = np.cumsum(counts) - counts
    places = np.zeros(int(counts.sum()), np.int64)
    is_odd = np.zeros(len(counts), bool)
    order = np.argsort(-counts, kind="stable")
    sorted_counts = counts[order]
    at, end, into = starts[order], ends[order], first[order]
    number, left = 0, int(np.searchsorted(-sorted_counts, 0))
    while left > _FEW_BATCHES:
        here, limit = at[:left], end[:left]
        places[into[:left] + number] = here
        lengths = varints(data, here)
        then = lengths.after + lengths.values
        wrong = ~lengths.is_sound | (lengths.values < MIN_RECORD_BYTES - 1) | (then > limit)
        # Keep the position of an odd section in range; its results are never used.
        at[:left] = np.where(wrong, starts[order[:left]], then)
        is_odd[order[:left]] |= wrong
        number += 1
        left = int(np.searchsorted(-sorted_counts, -number))
    raw = data.data
    for index in range(left):
        found, after = _walk(raw, int(at[index]), int(end[index]), int(sorted_counts[index]) - number)
        where = int(into[index]) + number
        places[where : where + len(found)] = found
        places[where + len(found) : int(into[index]) + int(sorted_counts[index])] = int(starts[order[index]])
        at[index] = after
    is_odd[order] |= (at != end) & (sorted_counts > 0)
    return places, is_odd


def _walk(raw: memoryview, at: int, end: int, count: int) -> tuple[list[int], int]:
    """Return the positions of the next `count` records of one section and the end of the last. If there are fewer,
    return these and -1.
    """
    found: list[int] = []
    add = found.append
    for _ in range(count):
        byte = raw[at]
        if byte < 0x80:
            length = byte >> 1
            then = at + 1 + length
        else:
            length, shift, then = byte & 0x7F, 7, at + 1
            while byte >= 0x80:
                if shift > 28:
                    return found, -1
                byte = raw[then]
                then += 1
                length |= (byte & 0x7F) << shift
                shift += 7
            length >>= 1
            then += length
        if raw[at] & 1 or length < MIN_RECORD_BYTES - 1 or then > end:
            return found, -1
        add(at)
        at = then
    return found, at


def _fields(data: Bytes, places: Numbers, batch: Numbers, ends: Numbers) -> tuple[Records, Flags]:
    last = len(data) - PADDING_BYTES
    lengths = varints(data, places)
    end = lengths.after + lengths.values
    times = varints(
        data, np.minimum(lengths.after + 1, last), _MAX_TIME_BYTES
    )  # the position after the attributes
    offsets = varints(data, np.minimum(times.after, last))
    keys = varints(data, np.minimum(offsets.after, last))
    key_lengths = np.maximum(keys.values, -1)
    after_key = keys.after + np.maximum(key_lengths, 0)
    values = varints(data, np.clip(after_key, 0, last))
    value_lengths = np.maximum(values.values, -1)
    after_value = values.after + np.maximum(value_lengths, 0)
    is_sound = (
        lengths.is_sound
        & times.is_sound
        & offsets.is_sound
        & keys.is_sound
        & values.is_sound
        & (end <= ends[batch])
        # The remaining byte is a header count of 0. The plain decoder reads records with headers.
        & (after_value + 1 == end)
        & (data[np.clip(after_value, 0, last)] == 0)
    )
    found = Records(batch, offsets.values, times.values, keys.after, key_lengths, values.after, value_lengths)
    return found, is_sound
