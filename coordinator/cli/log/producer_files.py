"""What the files beside a segment say about producers: one line for each aborted transaction, or each producer."""

import json
import os
from collections.abc import Iterator
from typing import Any, Final

from storage.files import OsFiles
from storage.producers.snapshot import SNAPSHOT_SUFFIX, decode_snapshot
from storage.transaction_index import TRANSACTION_INDEX_SUFFIX, decode_index

_NONE: Final = -1


def is_of_producers(path: str) -> bool:
    """Whether a path names such a file, by its suffix."""
    return path.endswith((SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX)) and os.path.isfile(path)


def lines(path: str, *, is_json: bool) -> Iterator[str]:
    """The lines about a file. Raises DamagedFile, OSError."""
    absolute = os.path.abspath(path)
    data = OsFiles().read(absolute)
    is_index = path.endswith(TRANSACTION_INDEX_SUFFIX)
    kind = "aborted_transaction" if is_index else "producer"
    for fields in _aborted(data, absolute) if is_index else _producers(data, absolute):
        if is_json:
            yield json.dumps({"type": kind} | fields)
        else:
            yield " ".join([kind, *(f"{name}={_word(value)}" for name, value in fields.items())])


def _word(value: int | None) -> str:
    return "none" if value is None else str(value)


def _aborted(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    for aborted in decode_index(data, path):
        yield aborted._asdict()


def _producers(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    for producer_id, entry in decode_snapshot(data, path):
        last = entry.batches[-1] if entry.batches else None
        yield {
            "producer_id": producer_id,
            "producer_epoch": entry.epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "first_sequence": _NONE if last is None else last.first_sequence,
            "last_sequence": _NONE if last is None else last.last_sequence,
            "first_offset": None if last is None else last.first_offset,
            "last_offset": None if last is None else last.last_offset,
            "timestamp_ms": entry.last_timestamp_ms,
            "transaction_first_offset": entry.transaction_offset,
        }
