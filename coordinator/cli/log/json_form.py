"""A record as a line of JSON. The names of the fields are stable; docs/operations.md lists them."""

import json
from functools import lru_cache

from coordinator.cli.log.entry import Entry, Fields
from coordinator.cli.times import iso_time
from storage.batch import BatchHeader
from storage.compression import CODEC_NAMES
from storage.record import Header


def as_json(entry: Entry) -> str:
    """One line, without its end."""
    record = entry.record
    fields: Fields = {
        "topic": None if entry.name is None else entry.name.topic,
        "partition": None if entry.name is None else entry.name.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "time": iso_time(record.timestamp_ms),
        "type": entry.type,
        "key": entry.key,
        "value": entry.value,
        "tombstone": entry.is_tombstone,
        "key_bytes": None if record.key is None else len(record.key),
        "value_bytes": None if record.value is None else len(record.value),
        "headers": [_header(header) for header in record.headers],
    }
    if entry.error is not None:
        fields["error"] = entry.error
    return f'{json.dumps(fields)[:-1]}, "batch": {_batch(entry.header, entry.batch.position)}}}'


@lru_cache(maxsize=1)
def _batch(header: BatchHeader, position: int) -> str:
    """The same for all records of a batch, which come one after the other."""
    return json.dumps(batch_fields(header) | {"position": position})


def batch_fields(header: BatchHeader) -> Fields:
    """What a record's batch says of all its records."""
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "codec": codec_name(header),
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "size_bytes": header.size_bytes,
    }


def codec_name(header: BatchHeader) -> str:
    """The codec of a batch by its name."""
    return CODEC_NAMES.get(header.codec, f"codec {header.codec}")


def _header(header: Header) -> Fields:
    key, value = header
    fields: Fields = {"key": key.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")}
    if value is None:
        return fields | {"value": None}
    try:
        return fields | {"value": {"text": value.decode()}}
    except UnicodeDecodeError:
        return fields | {"value": {"hex": value.hex()}}
