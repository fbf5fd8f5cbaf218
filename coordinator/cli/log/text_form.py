"""A record as a line for people."""

from typing import Final

from coordinator.cli.log.entry import Entry, Fields
from coordinator.cli.log.json_form import codec_name, iso_time
from coordinator.cli.log.record_types import CONTROL, GROUP_METADATA, OFFSET_COMMIT, RECORD
from coordinator.net.peer import printable
from storage.compression import NONE

_MAX_PAYLOAD: Final = 200
_DELETE: Final = "<DELETE>"


def as_text(entry: Entry) -> str:
    """One line, without its end: where the record is, when it was written, what it says."""
    record = entry.record
    parts = [
        "?" if entry.name is None else str(entry.name),
        str(record.offset),
        iso_time(record.timestamp_ms) or str(record.timestamp_ms),
        entry.type,
        _meaning(entry),
    ]
    header = entry.header
    if header.codec != NONE:
        parts.append(f"codec={codec_name(header)}")
    if header.is_transactional:
        parts.append(f"transactional producer_id={header.producer_id} producer_epoch={header.producer_epoch}")
    if entry.error is not None:
        parts.append(f"error={_quoted(entry.error)}")
    return " ".join(part for part in parts if part)


def _meaning(entry: Entry) -> str:
    key, value = entry.key, entry.value
    if entry.type == CONTROL:
        return _control(key, value)
    if entry.type == RECORD:
        return f"key={_payload(key)} value={_payload(value)} {_sizes(entry)}"
    said = _DELETE if entry.is_tombstone else _value(entry.type, value or {})
    return f"{_key(key)} {said}"


def _sizes(entry: Entry) -> str:
    key, value = entry.record.key, entry.record.value
    return f"key_bytes={len(key or b'')} value_bytes={len(value or b'')}"


def _quoted(text: str) -> str:
    return '"' + printable(text, len(text)).replace('"', '\\"') + '"'


def _name(text: str | None) -> str:
    """A name as it is where it is a plain word, in quotes otherwise."""
    if text is None:
        return "null"
    is_plain = text.isprintable() and text and not any(mark in text for mark in ' "=,;[]()')
    return text if is_plain else _quoted(text)


def _key(key: Fields | None) -> str:
    if key is None:
        return "key=null"
    parts = [f"{name}={_name(str(key[name]))}" for name in ("group", "topic", "partition") if name in key]
    if "hex" in key:
        parts = [
            *(f"key_type={key[name]}" for name in ("type",) if name in key),
            *parts,
            f"key=0x{key['hex']}",
        ]
    return " ".join(parts)


def _value(kind: str, value: Fields) -> str:
    if "hex" in value:
        return f"value=0x{value['hex']}"
    if kind == OFFSET_COMMIT:
        text = f"offset={value['offset']} leader_epoch={value['leader_epoch']}"
        text += f" metadata={_quoted(value['metadata'])}"
        if value["expire_timestamp"] >= 0:
            text += f" expires={iso_time(value['expire_timestamp'])}"
        return text
    assert kind == GROUP_METADATA
    members = "; ".join(_member(member) for member in value["members"])
    return (
        f"generation={value['generation']} protocol_type={_name(value['protocol_type'])} "
        f"protocol={_name(value['protocol'])} leader={_name(value['leader'])} members=[{members}]"
    )


def _member(member: Fields) -> str:
    text = f"{_name(member['member_id'])} client_id={_name(member['client_id'])}"
    text += f" host={_name(member['client_host'])}"
    if member["group_instance_id"] is not None:
        text += f" group_instance_id={_name(member['group_instance_id'])}"
    subscription, assignment = member["subscription"], member["assignment"]
    if "topics" in subscription:
        text += f" topics=[{', '.join(map(_name, subscription['topics']))}]"
    else:
        text += f" subscription=0x{subscription['hex']}"
    if "assigned_partitions" in assignment:
        return text + f" assigned=[{', '.join(map(_partitions, assignment['assigned_partitions']))}]"
    return text + f" assignment=0x{assignment['hex']}"


def _partitions(assigned: Fields) -> str:
    return ", ".join(f"{_name(assigned['topic'])}-{number}" for number in assigned["partitions"])


def _control(key: Fields | None, value: Fields | None) -> str:
    if key is None or "marker" not in key:
        return f"{_payload(key)} {_payload(value)}"
    text = f"{key['marker']} type={key['type']}"
    if value is not None and "coordinator_epoch" in value:
        return f"{text} coordinator_epoch={value['coordinator_epoch']}"
    return f"{text} {_payload(value)}"


def _payload(payload: Fields | None) -> str:
    if payload is None:
        return "null"
    if "text" in payload:
        text = payload["text"]
        return '"' + printable(text, _MAX_PAYLOAD).replace('"', '\\"') + '"'
    digits = payload["hex"]
    return f"0x{digits}" if len(digits) <= _MAX_PAYLOAD else f"0x{digits[:_MAX_PAYLOAD]}…"
