"""The records of a session's group in `__consumer_offsets`, in addition to the broker's responses."""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from protocol.partitioner import partition_for
from protocol.records.group_record_serde import TYPES_BY_KEY, Key, UnknownKey, decode_key, decode_value
from storage.batch import decode_records, walk_batches
from tests.oracle.answer import Plain, plain
from tests.oracle.batches import fetch_request
from tests.oracle.consumer import OFFSETS_PARTITIONS
from tests.oracle.play import Play

_OF_ITS_OWN: Final = {
    "assignment_timestamp": "(a time)",
    "commit_timestamp": "(a time)",
    "current_state_timestamp": "(a time)",
    "timestamp": "(a time)",
    "metadata_hash": "(a hash)",
    "version": "(a version)",
}
"""What no two brokers have in common, where it is there."""


def tell_written(play: Play) -> None:
    """Tells the records of the group in their order, those of one kind in a row by their keys: Kafka writes them in
    the order of a hash map. A record without a value is a tombstone."""
    decoded = [_plain(play, key, value) for key, value in _records(play) if _group_of(key) == play.group]
    for (name, _), row in groupby(decoded, key=lambda record: (record[0], record[2] is None)):
        for _, key, value in sorted(row, key=json.dumps):
            play.tell(f"written: {name}", {"key": key, "value": value})


def _records(play: Play) -> Iterator[tuple[Key | UnknownKey, bytes | None]]:
    partition, offset = partition_for(play.group, OFFSETS_PARTITIONS), 0
    while True:
        with play.quietly():
            answer = play.ask(fetch_request(("__consumer_offsets", partition, offset)), 12, "log")
        found = answer.responses[0].partitions[0]
        assert found.error_code == 0, found
        batches = bytes(found.records)
        for position, header in walk_batches(batches):
            offset = header.last_offset + 1
            for record in decode_records(batches[position:], header) if not header.is_control else ():
                yield decode_key(record.key or b""), record.value
        if offset >= found.high_watermark:
            return


def _group_of(key: Any) -> str | None:
    found: str | None = getattr(key, "group_id", None) or getattr(key, "group", None)
    return found


def _plain(play: Play, key: Any, value: bytes | None) -> tuple[str, Plain, Plain]:
    kind = TYPES_BY_KEY[type(key)]
    told_key = plain(key, kind.number, play.names)
    decoded = None
    if value is not None:
        decoded = plain(decode_value(key, value), int.from_bytes(value[:2], "big"), play.names)
        assert isinstance(decoded, dict)
        for name, stand_in in _OF_ITS_OWN.items():
            if decoded.get(name, 0) not in (0, -1):
                decoded[name] = stand_in
    return kind.name, told_key, decoded
