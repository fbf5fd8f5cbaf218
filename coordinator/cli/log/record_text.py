"""Formats a decoded record as one line: JSON, or text.

JSON field names are stable; docs/log-tools.md lists them. Text consists of short pieces, each with its role
in the line. Programs get the pieces joined; a terminal colours and wraps them by their roles.
"""

import json
import re
from collections.abc import Iterable
from enum import IntEnum
from functools import cache, lru_cache
from itertools import zip_longest
from typing import Final

from coordinator.cli.log.decoded_record import (
    CONTROL,
    GROUP_METADATA,
    OFFSET_COMMIT,
    RECORD,
    TRANSACTION,
    DecodedRecord,
    Fields,
)
from coordinator.cli.time_text import iso_time
from coordinator.core.message_text import printable
from storage.batch import BatchHeader
from storage.compression import CODEC_NAMES, NONE
from storage.record import Header
from storage.topic_partition import TopicPartition


class PieceRole(IntEnum):
    """The role of a text in its line."""

    PARTITION = 0
    """The partition of the log."""
    OFFSET = 1
    TIME = 2
    TYPE = 3
    """The type of the record."""
    LABEL = 4
    """The name of a field, and the text that joins it to its value."""
    KEY = 5
    """A part of the record's key."""
    VALUE = 6
    MEMBER_ID = 7
    DEFAULT = 8
    """A field with its default value, which readers can omit."""
    TOMBSTONE = 9
    ERROR = 10
    MEMBERS = 11
    """Opens the members of a group."""
    NEXT_MEMBER = 12
    END_OF_MEMBERS = 13
    GAP = 14
    """Between fields: the best place to wrap a line."""
    LIST_GAP = 15
    """Between the parts of one field."""
    HINT = 16
    """A note on an omitted part of the record."""


Piece = tuple[PieceRole, str]

GAP: Final[Piece] = (PieceRole.GAP, " ")
LIST_GAP: Final[Piece] = (PieceRole.LIST_GAP, " ")


def join_pieces(pieces: Iterable[Piece]) -> str:
    """Return the texts of pieces without their roles."""
    return "".join([text for _, text in pieces])


def format_record_json(entry: DecodedRecord) -> str:
    """Format a record as one line of JSON, without its line end."""
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
        "headers": [_header_fields(header) for header in record.headers],
    }
    if entry.error is not None:
        fields["error"] = entry.error
    return f'{json.dumps(fields)[:-1]}, "batch": {_format_batch(entry.header, entry.batch.position)}}}'


@lru_cache(maxsize=1)
def _format_batch(header: BatchHeader, position: int) -> str:
    """Return the batch of a record as JSON. The records of a batch are printed one after the other, so one is
    cached."""
    return json.dumps(batch_fields(header) | {"position": position})


def batch_fields(header: BatchHeader) -> Fields:
    """Return the fields of a record's batch that apply to all its records."""
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
    """Return the name of the codec of a batch."""
    return CODEC_NAMES.get(header.codec, f"codec {header.codec}")


def _header_fields(header: Header) -> Fields:
    key, value = header
    fields: Fields = {"key": key.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")}
    if value is None:
        return fields | {"value": None}
    try:
        return fields | {"value": {"text": value.decode()}}
    except UnicodeDecodeError:
        return fields | {"value": {"hex": value.hex()}}


_MAX_PAYLOAD: Final = 200
_QUOTED_CHARACTERS: Final = re.compile(r'[ "=,;\[\]()]')

_NO_LEADER_EPOCH: Final[Piece] = (PieceRole.DEFAULT, "leader_epoch=-1")
_NO_METADATA: Final[Piece] = (PieceRole.DEFAULT, 'metadata=""')
_NULL_KEY: Final[Piece] = (PieceRole.KEY, "key=null")
_TOMBSTONE: Final[Piece] = (PieceRole.TOMBSTONE, "<DELETE>")
_TRANSACTIONAL: Final[Piece] = (PieceRole.VALUE, "transactional")
_NO_MEMBERS: Final[Piece] = (PieceRole.VALUE, "members=[]")
_MEMBERS: Final[Piece] = (PieceRole.MEMBERS, "members=[")
_NEXT_MEMBER: Final[Piece] = (PieceRole.NEXT_MEMBER, "; ")
_END_OF_MEMBERS: Final[Piece] = (PieceRole.END_OF_MEMBERS, "]")
_OPEN: Final[Piece] = (PieceRole.LABEL, "[")
_CLOSE: Final[Piece] = (PieceRole.LABEL, "]")


def format_record_text(entry: DecodedRecord) -> str:
    """Format a record as one line of text, without its line end."""
    return join_pieces(create_pieces(entry))


def create_pieces(entry: DecodedRecord) -> list[Piece]:
    """Return one line: the position of the record, its timestamp, its type and its fields."""
    record, header = entry.record, entry.header
    line: list[Piece] = [
        _partition_piece(entry.name),
        GAP,
        (PieceRole.OFFSET, str(record.offset)),
        GAP,
        (PieceRole.TIME, iso_time(record.timestamp_ms) or str(record.timestamp_ms)),
        GAP,
        (PieceRole.TYPE, entry.type),
    ]
    if entry.type == CONTROL:
        _add_control(line, entry)
    elif entry.type == RECORD:
        _add_plain(line, entry)
    else:
        _add_key(line, entry.key)
        if entry.is_tombstone:
            line += (GAP, _TOMBSTONE)
        else:
            _add_value(line, entry.type, entry.value or {})
    if header.codec != NONE:
        _add_labelled(line, "codec", codec_name(header))
    if header.is_transactional:
        line += (GAP, _TRANSACTIONAL)
        _add_labelled(line, "producer_id", str(header.producer_id))
        _add_labelled(line, "producer_epoch", str(header.producer_epoch))
    if entry.error is not None:
        line += (GAP, (PieceRole.ERROR, f"error={_quote(entry.error)}"))
    return line


@lru_cache(maxsize=1)
def _partition_piece(name: TopicPartition | None) -> Piece:
    """Return the partition as text. The records of a log are printed one after the other, so one is cached."""
    return PieceRole.PARTITION, "?" if name is None else str(name)


def _add_labelled(line: list[Piece], name: str, text: str, role: PieceRole = PieceRole.VALUE) -> None:
    line += (GAP, _label_piece(name), (role, text))


@cache
def _label_piece(name: str) -> Piece:
    return PieceRole.LABEL, f"{name}="


def _add_plain(line: list[Piece], entry: DecodedRecord) -> None:
    _add_labelled(line, "key", _format_payload(entry.key), PieceRole.KEY)
    _add_labelled(line, "value", _format_payload(entry.value))
    _add_labelled(line, "key_bytes", str(len(entry.record.key or b"")))
    _add_labelled(line, "value_bytes", str(len(entry.record.value or b"")))


def _quote(text: str) -> str:
    return '"' + printable(text, len(text)).replace('"', '\\"') + '"'


def _quote_name(text: str | None) -> str:
    """Return a plain word unchanged, and other names in quotes."""
    if text is None:
        return "null"
    is_plain = text and text.isprintable() and not _QUOTED_CHARACTERS.search(text)
    return text if is_plain else _quote(text)


def _add_key(line: list[Piece], key: Fields | None) -> None:
    if key is None:
        line += (GAP, _NULL_KEY)
        return
    if "hex" in key and "type" in key:
        _add_labelled(line, "key_type", str(key["type"]), PieceRole.KEY)
    if "transactional_id" in key:
        _add_labelled(line, "transactional_id", _quote_name(key["transactional_id"]), PieceRole.KEY)
    if "group" in key:
        _add_labelled(line, "group", _quote_name(key["group"]), PieceRole.KEY)
    if "topic" in key:
        _add_labelled(line, "topic", _quote_name(key["topic"]), PieceRole.KEY)
        _add_labelled(line, "partition", str(key["partition"]), PieceRole.KEY)
    if "member_id" in key:
        _add_labelled(line, "member_id", _quote_name(key["member_id"]), PieceRole.MEMBER_ID)
    if "regular_expression" in key:
        _add_labelled(line, "regular_expression", _quote(key["regular_expression"]), PieceRole.KEY)
    if "hex" in key:
        _add_labelled(line, "key", f"0x{key['hex']}", PieceRole.KEY)


def _add_value(line: list[Piece], kind: str, value: Fields) -> None:
    if "hex" in value:
        _add_labelled(line, "value", f"0x{value['hex']}")
    elif kind == OFFSET_COMMIT:
        _add_commit(line, value)
    elif kind == TRANSACTION:
        _add_transaction(line, value)
    elif kind == GROUP_METADATA:
        _add_group(line, value)
    else:
        _add_fields(line, value)


def _add_commit(line: list[Piece], value: Fields) -> None:
    _add_labelled(line, "offset", str(value["offset"]))
    if value["leader_epoch"] == -1:
        line += (GAP, _NO_LEADER_EPOCH)
    else:
        _add_labelled(line, "leader_epoch", str(value["leader_epoch"]))
    if value["metadata"] == "":
        line += (GAP, _NO_METADATA)
    else:
        _add_labelled(line, "metadata", _quote(value["metadata"]))
    if value["expire_timestamp"] >= 0:
        _add_labelled(line, "expires", str(iso_time(value["expire_timestamp"])))


def _add_transaction(line: list[Piece], value: Fields) -> None:
    _add_labelled(line, "state", value["state"])
    _add_labelled(line, "producer_id", str(value["producer_id"]))
    _add_labelled(line, "producer_epoch", str(value["producer_epoch"]))
    _add_labelled(line, "timeout_ms", str(value["transaction_timeout_ms"]))
    topics = value["transaction_partitions"] or []
    _add_list(
        line,
        "partitions",
        [f"{_quote_name(topic['topic'])}-{number}" for topic in topics for number in topic["partition_ids"]],
    )
    for name, label in (("start", "started"), ("last_update", "updated")):
        at_ms = value[f"transaction_{name}_timestamp_ms"]
        _add_labelled(line, label, iso_time(at_ms) or str(at_ms))
    for name, usual in (("previous_producer_id", -1), ("next_producer_id", -1), ("next_producer_epoch", -1)):
        if value.get(name, usual) != usual:
            _add_labelled(line, name, str(value[name]))
    if "client_transaction_version" in value:
        _add_labelled(line, "client_transaction_version", str(value["client_transaction_version"]))


def _add_group(line: list[Piece], value: Fields) -> None:
    _add_labelled(line, "generation", str(value["generation"]))
    _add_labelled(line, "protocol_type", _quote_name(value["protocol_type"]))
    _add_labelled(line, "protocol", _quote_name(value["protocol"]))
    leader = value["leader"]
    _add_labelled(
        line, "leader", _quote_name(leader), PieceRole.VALUE if leader is None else PieceRole.MEMBER_ID
    )
    members = value["members"]
    if not members:
        line += (GAP, _NO_MEMBERS)
        return
    line += (GAP, _MEMBERS)
    for number, member in enumerate(members):
        if number:
            line.append(_NEXT_MEMBER)
        _add_member(line, member)
    line.append(_END_OF_MEMBERS)


def _add_member(line: list[Piece], member: Fields) -> None:
    line.append((PieceRole.MEMBER_ID, _quote_name(member["member_id"])))
    _add_labelled(line, "client_id", _quote_name(member["client_id"]))
    _add_labelled(line, "host", _quote_name(member["client_host"]))
    if member["group_instance_id"] is not None:
        _add_labelled(line, "group_instance_id", _quote_name(member["group_instance_id"]))
    subscription, assignment = member["subscription"], member["assignment"]
    if "topics" in subscription:
        _add_list(line, "topics", [_quote_name(topic) for topic in subscription["topics"]])
    else:
        _add_labelled(line, "subscription", f"0x{subscription['hex']}")
    if "assigned_partitions" in assignment:
        _add_list(line, "assigned", _format_partitions(assignment["assigned_partitions"]))
    else:
        _add_labelled(line, "assignment", f"0x{assignment['hex']}")


def _format_partitions(assigned: list[Fields]) -> list[str]:
    found = []
    for topic in assigned:
        name = _quote_name(topic["topic"])
        found += [f"{name}-{number}" for number in topic["partitions"]]
    return found


def _add_fields(line: list[Piece], value: Fields) -> None:
    """Add the fields of a consumer group record, with their names."""
    for name, field in value.items():
        if name == "version" or (name == "state" and "state_name" in value):
            continue  # only in JSON: the text has the name
        if isinstance(field, dict):
            _add_fields(line, field)
        elif isinstance(field, list):
            _add_list(line, name, [text for part in field for text in _format_element(part)])
        elif field is None:
            line += (GAP, (PieceRole.DEFAULT, f"{name}=null"))
        elif name.endswith("timestamp"):
            _add_labelled(line, name, iso_time(field) or str(field))
        else:
            _add_labelled(
                line, name.removesuffix("_name"), str(field) if isinstance(field, int) else _quote_name(field)
            )


def _format_element(part: str | Fields) -> list[str]:
    """Format an element of a list: a name; the partitions of a topic, each with the epoch in which the member
    got it; a topic with its number of partitions; or a protocol with its topics."""
    if isinstance(part, str):
        return [_quote_name(part)]
    if "topic_name" in part:
        return [f"{_quote_name(part['topic_name'])}:{part['num_partitions']}"]
    if "partitions" in part:
        epochs = part.get("assignment_epochs") or [None] * len(part["partitions"])
        return [
            f"{part['topic_id']}-{number}" + ("" if epoch is None else f"@{epoch}")
            for number, epoch in zip_longest(part["partitions"], epochs)
        ]
    topics = part["subscription"].get("topics")
    shown = f"0x{part['subscription']['hex']}" if topics is None else " ".join(map(_quote_name, topics))
    return [f"{_quote_name(part['name'])}({shown})"]


def _add_list(line: list[Piece], name: str, texts: list[str]) -> None:
    line += (GAP, _label_piece(name), _OPEN)
    if texts:
        for text in texts[:-1]:
            line += ((PieceRole.VALUE, f"{text},"), LIST_GAP)
        line.append((PieceRole.VALUE, texts[-1]))
    line.append(_CLOSE)


def _add_control(line: list[Piece], entry: DecodedRecord) -> None:
    key, value = entry.key, entry.value
    if key is None or "marker" not in key:
        line += (GAP, (PieceRole.KEY, _format_payload(key)), GAP, (PieceRole.VALUE, _format_payload(value)))
        return
    line += (GAP, (PieceRole.KEY, key["marker"]))
    _add_labelled(line, "type", str(key["type"]), PieceRole.KEY)
    if value is not None and "coordinator_epoch" in value:
        _add_labelled(line, "coordinator_epoch", str(value["coordinator_epoch"]))
    else:
        line += (GAP, (PieceRole.VALUE, _format_payload(value)))


def _format_payload(payload: Fields | None) -> str:
    if payload is None:
        return "null"
    if "text" in payload:
        text = payload["text"]
        return '"' + printable(text, _MAX_PAYLOAD).replace('"', '\\"') + '"'
    digits = payload["hex"]
    return f"0x{digits}" if len(digits) <= _MAX_PAYLOAD else f"0x{digits[:_MAX_PAYLOAD]}…"
