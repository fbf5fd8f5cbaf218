"""Decode offset commits by column with NumPy, and other records with the plain decoder.

Nearly every record of an offsets log is an offset commit in one of few versions, so only these are vectorised: the
keys first, then the values version by version; the strings of a column are then copied with one index operation.
Irregular batches and single records go to the plain decoder.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.decode.frames import Flags, Frames, Numbers
from pipeline.decode.numbers import Bytes, fixed, stretches
from pipeline.decode.plain import batch_rows, record_row
from pipeline.decode.rows import COMMIT, KINDS, MAX_TIME_MS, SCHEMA, TIME, Finding, Row, record_batches
from pipeline.decode.sections import Records, Sections, find_records, find_sections
from pipeline.decode.structs import Chosen, Strings, Structs, chosen_by, read_structs
from protocol.records.group_record_schemas import OffsetCommitKey, OffsetCommitValue
from protocol.schema import ZERO_UUID, message_info
from storage.record import Record
from storage.storage_errors import CorruptBatch
from storage.topic_partition import uuid_to_text

_TYPE_BYTES: Final = 2
_KEY_TYPES: Final = message_info(OffsetCommitKey).versions
_VALUE_VERSIONS: Final = message_info(OffsetCommitValue).versions
_MANY_LENGTHS: Final = 64
_NONE: Final = -1  # the value version of a tombstone
_OTHER: Final = -2  # a version that this decoder does not handle


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selects the rows that a reader needs. Findings are always included."""

    kinds: frozenset[str] = frozenset(KINDS)
    groups: frozenset[str] | None = None
    """None: all groups, and rows without a group; otherwise only rows of these groups."""
    first_offset: int = 0
    next_offset: int = 2**63 - 1
    schema: pa.Schema = SCHEMA
    """The required columns of SCHEMA. Others are not computed."""

    def takes(self, row: Row) -> bool:
        """Return whether a row is selected."""
        return (
            row["kind"] in self.kinds
            and (self.groups is None or row.get("group") in self.groups)
            and self.first_offset <= row["log_offset"] < self.next_offset
        )


class Decoded:
    """The result of decoding a buffer of batches."""

    def __init__(self) -> None:
        self.commits: pa.RecordBatch | None = None
        self.rows: list[Row] = []
        """All other rows, and the commits that the plain decoder handled."""
        self.findings: list[Finding] = []

    def batches(self, schema: pa.Schema = SCHEMA) -> list[pa.RecordBatch]:
        """Return everything as Arrow batches, each with only commits or with none."""
        return [*([] if self.commits is None else [self.commits]), *record_batches(self.rows, schema)]


def decode_frames(
    buffer: bytes | memoryview,
    frames: Frames,
    log_partition: int,
    wanted: Wanted,
    path: str = "",
    position: int = 0,
) -> Decoded:
    """Decode the wanted rows of batches in a buffer. Commits keep the order of the log among themselves, and so do
    other rows.

    The buffer must not contain control batches or aborted batches. `path` and `position` locate the buffer for
    findings.
    """
    decoded = Decoded()
    sections = find_sections(buffer, frames)
    records, is_odd = find_records(sections, frames.field("records_count"))
    offsets = frames.base_offsets[records.batch] + records.offset_deltas
    inside = (offsets >= wanted.first_offset) & (offsets < wanted.next_offset)
    if not inside.all():
        records, offsets = Records(*(column[inside] for column in records)), offsets[inside]
    rows: list[Row] = []
    for index in np.flatnonzero(is_odd):
        header = frames.header(int(index))
        begin = int(frames.positions[index])
        try:
            rows += batch_rows(memoryview(buffer)[begin:], header, log_partition)
        except CorruptBatch as error:
            detail = f"the batch is whole but its records do not decode: {error.reason}"
            found = (header.base_offset, header.last_offset, path, position + begin, detail)
            decoded.findings.append(Finding(log_partition, "damage", *found))
    decoded.commits, others = _commits(sections, frames, records, offsets, log_partition, wanted)
    others_alone = Records(*(column[others] for column in records))
    rows += _plain_rows(sections, frames, others_alone, offsets[others], log_partition)
    decoded.rows = [row for row in rows if wanted.takes(row)]
    return decoded


def _times_ms(frames: Frames, records: Records) -> Numbers:
    own = frames.field("base_timestamp_ms")[records.batch] + records.time_deltas_ms
    if not frames.is_log_append_time.any():
        return own
    return np.where(
        frames.is_log_append_time[records.batch], frames.field("max_timestamp_ms")[records.batch], own
    )


def _plain_rows(
    sections: Sections,
    frames: Frames,
    records: Records,
    offsets: Numbers,
    log_partition: int,
) -> Iterator[Row]:
    """Decode the records that are not plain offset commits, one by one."""
    times_ms = _times_ms(frames, records)
    transactional, producer_ids = frames.is_transactional, frames.field("producer_id")
    raw = sections.data.data

    def part(start: int, length: int) -> bytes | None:
        return None if length < 0 else bytes(raw[start : start + length])

    for index in range(len(offsets)):
        batch = records.batch[index]
        record = Record(
            int(offsets[index]),
            int(times_ms[index]),
            part(int(records.key_starts[index]), int(records.key_lengths[index])),
            part(int(records.value_starts[index]), int(records.value_lengths[index])),
        )
        yield record_row(record, log_partition, int(producer_ids[batch]) if transactional[batch] else None)


def _commits(
    sections: Sections,
    frames: Frames,
    records: Records,
    offsets: Numbers,
    log_partition: int,
    wanted: Wanted,
) -> tuple[pa.RecordBatch | None, Numbers]:
    """Return the wanted plain offset commits, and the indices of all other records."""
    data = sections.data
    # A key shorter than its type field yields the bytes after it; the length check below rejects it.
    types = fixed(data, records.key_starts, _TYPE_BYTES)
    is_commit = (
        (types >= _KEY_TYPES.first) & (types <= _KEY_TYPES.last) & (records.key_lengths >= _TYPE_BYTES)
    )
    versions = np.where(records.value_lengths < 0, _NONE, _OTHER)
    has_version = chosen_by(records.value_lengths >= _TYPE_BYTES)
    found = fixed(data, records.value_starts[has_version], _TYPE_BYTES)
    is_known = (found >= _VALUE_VERSIONS.first) & (found <= _VALUE_VERSIONS.last)
    versions[has_version] = np.where(is_known, found, _OTHER)
    is_commit &= versions != _OTHER
    candidates = np.flatnonzero(is_commit)
    keys = _keys(data, records, candidates)
    values = _Values(data, records, candidates, versions[candidates])
    strings = {**keys.strings, "metadata": values.metadata}
    is_plain = keys.is_plain & values.is_plain
    texts = {name: _Texts(data, column.take(chosen_by(is_plain))) for name, column in strings.items()}
    unsound = np.unique(np.concatenate([column.not_utf8() for column in texts.values()]))
    is_plain[np.flatnonzero(is_plain)[unsound]] = False
    is_commit[candidates[~is_plain]] = False
    others = np.flatnonzero(~is_commit)
    if COMMIT not in wanted.kinds:
        return None, others
    if wanted.groups is not None:
        is_plain &= _is_one_of(data, keys.strings["group"], wanted.groups)
    chosen = chosen_by(is_plain)
    rows = candidates[chosen]
    if not len(rows):
        return None, others
    if len(rows) < len(texts["group"]):
        texts = {name: _Texts(data, column.take(chosen)) for name, column in strings.items()}
    made: dict[str, Callable[[], pa.Array]] = {
        "kind": lambda: _constant(COMMIT, pa.string(), len(rows)),
        "log_partition": lambda: _constant(log_partition, pa.int32(), len(rows)),
        "log_offset": lambda: pa.array(offsets[rows]),
        "record_ts": lambda: _times(_times_ms(frames, records)[rows]),
        "producer_id": lambda: _producer_ids(frames, records.batch[rows]),
        "group": texts["group"].array,
        "topic": texts["topic"].array,
        "partition": lambda: pa.array(keys.numbers["partition"][chosen].astype(np.int32)),
        "metadata": lambda: texts["metadata"].array(versions[rows] < 0),
        **values.columns(chosen),
    }
    arrays = [
        made[field.name]() if field.name in made else pa.nulls(len(rows), field.type)
        for field in wanted.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted.schema), others


def _keys(data: Bytes, records: Records, chosen: Numbers) -> Structs:
    """Return the keys of offset commits. Both key types have the same fields."""
    starts = records.key_starts[chosen]
    ends = starts + records.key_lengths[chosen]
    return read_structs(data, starts + _TYPE_BYTES, ends, OffsetCommitKey, _KEY_TYPES.last)


class _Values:
    """The values of offset commits by column, across versions. A tombstone has no value."""

    def __init__(self, data: Bytes, records: Records, chosen: Numbers, versions: Numbers) -> None:
        count = len(chosen)
        self._data = data
        self._versions = versions
        self.is_plain: Flags = np.ones(count, bool)
        self._numbers = {
            name: np.full(count, -1, np.int64)
            for name in ("offset", "leader_epoch", "commit_timestamp", "expire_timestamp")
        }
        self.metadata = Strings(np.zeros(count, np.int64), np.zeros(count, np.int64))
        self._topic_ids = np.full(count, -1, np.int64)
        for version in np.flatnonzero(np.bincount(versions[versions >= 0])):
            rows = chosen_by(versions == version)
            starts = records.value_starts[chosen[rows]]
            ends = starts + records.value_lengths[chosen[rows]]
            read = read_structs(data, starts + _TYPE_BYTES, ends, OffsetCommitValue, int(version))
            self.is_plain[rows] = read.is_plain
            for name, numbers in read.numbers.items():
                self._numbers[name][rows] = numbers
            self.metadata.starts[rows], self.metadata.lengths[rows] = read.strings["metadata"]
            for places in read.uuids.values():
                self._topic_ids[rows] = places

    def columns(self, chosen: Chosen) -> dict[str, Callable[[], pa.Array]]:
        """Return functions that build the columns of the chosen rows."""
        versions = self._versions[chosen]
        is_tombstone = versions < 0

        def epochs() -> pa.Array:
            numbers = self._numbers["leader_epoch"][chosen].astype(np.int32)
            return _or_null(numbers, numbers < 0)

        return {
            "tombstone": lambda: pa.array(is_tombstone),
            "value_version": lambda: _or_null(versions.astype(np.int32), is_tombstone),
            "offset": lambda: _or_null(self._numbers["offset"][chosen], is_tombstone),
            "leader_epoch": epochs,
            "commit_ts": lambda: _times(self._numbers["commit_timestamp"][chosen]),
            "expire_ts": lambda: _times(self._numbers["expire_timestamp"][chosen]),
            "topic_id": lambda: self._topic_id_texts(self._topic_ids[chosen]),
        }

    def _topic_id_texts(self, places: Numbers) -> pa.Array:
        if (places < 0).all():
            return pa.nulls(len(places), pa.string())
        rows = self._data[np.maximum(places, 0)[:, None] + np.arange(len(ZERO_UUID))]
        known: dict[bytes, str | None] = {ZERO_UUID: None}
        texts: list[str | None] = []
        for place, row in zip(places, rows, strict=True):
            raw = row.tobytes() if place >= 0 else ZERO_UUID
            if raw not in known:
                known[raw] = uuid_to_text(raw)
            texts.append(known[raw])
        return pa.array(texts, pa.string())


def _constant(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def _or_null(numbers: NDArray[Any], is_null: Flags) -> pa.Array:
    return pa.array(numbers, mask=is_null) if is_null.any() else pa.array(numbers)


def _times(times_ms: Numbers) -> pa.Array:
    is_none = (times_ms < 0) | (times_ms > MAX_TIME_MS)
    if is_none.any():
        times_ms = np.where(is_none, 0, times_ms)
    return _or_null(times_ms * 1000, is_none).view(TIME)


def _producer_ids(frames: Frames, batch: Numbers) -> pa.Array:
    if not frames.is_transactional.any():
        return pa.nulls(len(batch), pa.int64())
    return pa.array(frames.field("producer_id")[batch], mask=~frames.is_transactional[batch])


def _copied(data: Bytes, strings: Strings, bounds: NDArray[np.int32]) -> Bytes:
    """Copy the bytes of the strings into one buffer. Strings of equal length are copied at once; with many distinct
    lengths the copy indexes every byte.
    """
    lengths = np.flatnonzero(np.bincount(strings.lengths)) if len(strings.lengths) else strings.lengths
    if len(lengths) > _MANY_LENGTHS:
        # 32-bit numbers halve the memory: there is one index for every byte.
        places = np.repeat((strings.starts - bounds[:-1]).astype(np.int32), strings.lengths)
        places += np.arange(len(places), dtype=np.int32)
        return data.take(places)
    copied = np.empty(int(bounds[-1]), np.uint8)
    for length in lengths[lengths > 0]:
        rows = np.flatnonzero(strings.lengths == length) if len(lengths) > 1 else slice(None)
        stretches(copied, length)[bounds[:-1][rows]] = stretches(data, length)[strings.starts[rows]]
    return copied


class _Texts:
    """Strings copied out of the buffer, concatenated."""

    def __init__(self, data: Bytes, strings: Strings) -> None:
        assert len(data) < 2**31, "a buffer of batches is far smaller"
        self._bounds = np.zeros(len(strings.lengths) + 1, np.int32)
        np.cumsum(strings.lengths, out=self._bounds[1:])
        self._bytes = _copied(data, strings, self._bounds)

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def array(self, is_null: Flags | None = None) -> pa.Array:
        """Return an Arrow array with NULL at the marked positions."""
        valid = pa.array(~is_null).buffers()[1] if is_null is not None and is_null.any() else None
        buffers = [valid, pa.py_buffer(self._bounds), pa.py_buffer(self._bytes)]
        return pa.Array.from_buffers(pa.string(), len(self), buffers)

    def not_utf8(self) -> Numbers:
        """Return which strings are invalid UTF-8."""
        none = np.empty(0, np.int64)
        if not len(self._bytes) or self._bytes.max() < 0x80:
            return none
        try:
            self.array().validate(full=True)
        except pa.ArrowInvalid:
            return np.array([index for index in range(len(self)) if not self._is_utf8(index)], np.int64)
        return none

    def _is_utf8(self, index: int) -> bool:
        try:
            str(self._bytes[self._bounds[index] : self._bounds[index + 1]].tobytes(), "utf-8")
        except UnicodeDecodeError:
            return False
        return True


def _is_one_of(data: Bytes, texts: Strings, names: frozenset[str]) -> Flags:
    found = np.zeros(len(texts.lengths), bool)
    for name in names:
        raw = np.frombuffer(name.encode("utf-8", "surrogatepass"), np.uint8)
        rows = np.flatnonzero(texts.lengths == len(raw))
        places = texts.starts[rows][:, None] + np.arange(len(raw))
        found[rows] |= (data[places] == raw).all(axis=1)
    return found
