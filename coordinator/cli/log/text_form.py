"""A record in words."""

import re
from functools import cache, lru_cache
from itertools import zip_longest
from typing import Final

from coordinator.cli.log.entry import Entry, Fields
from coordinator.cli.log.json_form import codec_name
from coordinator.cli.log.piece import GAP, LIST_GAP, Piece, Role, joined
from coordinator.cli.log.record_types import CONTROL, GROUP_METADATA, OFFSET_COMMIT, RECORD, TRANSACTION
from coordinator.cli.times import iso_time
from coordinator.net.peer import printable
from storage.compression import NONE
from storage.topic_partition import TopicPartition

_MAX_PAYLOAD: Final = 200
_MARKS: Final = re.compile(r'[ "=,;\[\]()]')

_NO_LEADER_EPOCH: Final[Piece] = (Role.DEFAULT, "leader_epoch=-1")
_NO_METADATA: Final[Piece] = (Role.DEFAULT, 'metadata=""')
_NULL_KEY: Final[Piece] = (Role.KEY, "key=null")
_TOMBSTONE: Final[Piece] = (Role.TOMBSTONE, "<DELETE>")
_TRANSACTIONAL: Final[Piece] = (Role.VALUE, "transactional")
_NO_MEMBERS: Final[Piece] = (Role.VALUE, "members=[]")
_MEMBERS: Final[Piece] = (Role.MEMBERS, "members=[")
_NEXT_MEMBER: Final[Piece] = (Role.NEXT_MEMBER, "; ")
_END_OF_MEMBERS: Final[Piece] = (Role.END_OF_MEMBERS, "]")
_OPEN: Final[Piece] = (Role.LABEL, "[")
_CLOSE: Final[Piece] = (Role.LABEL, "]")


def as_text(entry: Entry) -> str:
    """One line, without its end."""
    return joined(pieces(entry))


def pieces(entry: Entry) -> list[Piece]:
    """One line: where the record is, when it was written, of what type it is, and what it says."""
    record, header = entry.record, entry.header
    line: list[Piece] = [
        _partition(entry.name),
        GAP,
        (Role.OFFSET, str(record.offset)),
        GAP,
        (Role.TIME, iso_time(record.timestamp_ms) or str(record.timestamp_ms)),
        GAP,
        (Role.TYPE, entry.type),
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
        _add(line, "codec", codec_name(header))
    if header.is_transactional:
        line += (GAP, _TRANSACTIONAL)
        _add(line, "producer_id", str(header.producer_id))
        _add(line, "producer_epoch", str(header.producer_epoch))
    if entry.error is not None:
        line += (GAP, (Role.ERROR, f"error={_quoted(entry.error)}"))
    return line


@lru_cache(maxsize=1)
def _partition(name: TopicPartition | None) -> Piece:
    """The same for all records of a log."""
    return Role.PARTITION, "?" if name is None else str(name)


def _add(line: list[Piece], name: str, text: str, role: Role = Role.VALUE) -> None:
    line += (GAP, _label(name), (role, text))


@cache
def _label(name: str) -> Piece:
    return Role.LABEL, f"{name}="


def _add_plain(line: list[Piece], entry: Entry) -> None:
    _add(line, "key", _payload(entry.key), Role.KEY)
    _add(line, "value", _payload(entry.value))
    _add(line, "key_bytes", str(len(entry.record.key or b"")))
    _add(line, "value_bytes", str(len(entry.record.value or b"")))


def _quoted(text: str) -> str:
    return '"' + printable(text, len(text)).replace('"', '\\"') + '"'


def _name(text: str | None) -> str:
    """A name as it is where it is a plain word, in quotes otherwise."""
    if text is None:
        return "null"
    is_plain = text and text.isprintable() and not _MARKS.search(text)
    return text if is_plain else _quoted(text)


def _add_key(line: list[Piece], key: Fields | None) -> None:
    if key is None:
        line += (GAP, _NULL_KEY)
        return
    if "hex" in key and "type" in key:
        _add(line, "key_type", str(key["type"]), Role.KEY)
    if "transactional_id" in key:
        _add(line, "transactional_id", _name(key["transactional_id"]), Role.KEY)
    if "group" in key:
        _add(line, "group", _name(key["group"]), Role.KEY)
    if "topic" in key:
        _add(line, "topic", _name(key["topic"]), Role.KEY)
        _add(line, "partition", str(key["partition"]), Role.KEY)
    if "member_id" in key:
        _add(line, "member_id", _name(key["member_id"]), Role.MEMBER_ID)
    if "regular_expression" in key:
        _add(line, "regular_expression", _quoted(key["regular_expression"]), Role.KEY)
    if "hex" in key:
        _add(line, "key", f"0x{key['hex']}", Role.KEY)


def _add_value(line: list[Piece], kind: str, value: Fields) -> None:
    if "hex" in value:
        _add(line, "value", f"0x{value['hex']}")
    elif kind == OFFSET_COMMIT:
        _add_commit(line, value)
    elif kind == TRANSACTION:
        _add_transaction(line, value)
    elif kind == GROUP_METADATA:
        _add_group(line, value)
    else:
        _add_fields(line, value)


def _add_commit(line: list[Piece], value: Fields) -> None:
    _add(line, "offset", str(value["offset"]))
    if value["leader_epoch"] == -1:
        line += (GAP, _NO_LEADER_EPOCH)
    else:
        _add(line, "leader_epoch", str(value["leader_epoch"]))
    if value["metadata"] == "":
        line += (GAP, _NO_METADATA)
    else:
        _add(line, "metadata", _quoted(value["metadata"]))
    if value["expire_timestamp"] >= 0:
        _add(line, "expires", str(iso_time(value["expire_timestamp"])))


def _add_transaction(line: list[Piece], value: Fields) -> None:
    _add(line, "state", value["state"])
    _add(line, "producer_id", str(value["producer_id"]))
    _add(line, "producer_epoch", str(value["producer_epoch"]))
    _add(line, "timeout_ms", str(value["transaction_timeout_ms"]))
    topics = value["transaction_partitions"] or []
    _add_list(
        line,
        "partitions",
        [f"{_name(topic['topic'])}-{number}" for topic in topics for number in topic["partition_ids"]],
    )
    for name, label in (("start", "started"), ("last_update", "updated")):
        at_ms = value[f"transaction_{name}_timestamp_ms"]
        _add(line, label, iso_time(at_ms) or str(at_ms))
    for name, usual in (("previous_producer_id", -1), ("next_producer_id", -1), ("next_producer_epoch", -1)):
        if value.get(name, usual) != usual:
            _add(line, name, str(value[name]))
    if "client_transaction_version" in value:
        _add(line, "client_transaction_version", str(value["client_transaction_version"]))


def _add_group(line: list[Piece], value: Fields) -> None:
    _add(line, "generation", str(value["generation"]))
    _add(line, "protocol_type", _name(value["protocol_type"]))
    _add(line, "protocol", _name(value["protocol"]))
    leader = value["leader"]
    _add(line, "leader", _name(leader), Role.VALUE if leader is None else Role.MEMBER_ID)
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
    line.append((Role.MEMBER_ID, _name(member["member_id"])))
    _add(line, "client_id", _name(member["client_id"]))
    _add(line, "host", _name(member["client_host"]))
    if member["group_instance_id"] is not None:
        _add(line, "group_instance_id", _name(member["group_instance_id"]))
    subscription, assignment = member["subscription"], member["assignment"]
    if "topics" in subscription:
        _add_list(line, "topics", [_name(topic) for topic in subscription["topics"]])
    else:
        _add(line, "subscription", f"0x{subscription['hex']}")
    if "assigned_partitions" in assignment:
        _add_list(line, "assigned", _partitions(assignment["assigned_partitions"]))
    else:
        _add(line, "assignment", f"0x{assignment['hex']}")


def _partitions(assigned: list[Fields]) -> list[str]:
    found = []
    for topic in assigned:
        name = _name(topic["topic"])
        found += [f"{name}-{number}" for number in topic["partitions"]]
    return found


def _add_fields(line: list[Piece], value: Fields) -> None:
    """Of a consumer group: field by field, as they are called."""
    for name, field in value.items():
        if name == "version" or (name == "state" and "state_name" in value):
            continue  # in JSON only: the words say more
        if isinstance(field, dict):
            _add_fields(line, field)
        elif isinstance(field, list):
            _add_list(line, name, [text for part in field for text in _part(part)])
        elif field is None:
            line += (GAP, (Role.DEFAULT, f"{name}=null"))
        elif name.endswith("timestamp"):
            _add(line, name, iso_time(field) or str(field))
        else:
            _add(line, name.removesuffix("_name"), str(field) if isinstance(field, int) else _name(field))


def _part(part: str | Fields) -> list[str]:
    """Of a list: a name; a topic's partitions, each with the epoch since when it is its member's; a topic with the
    count of its partitions; or a protocol with the topics that it is for."""
    if isinstance(part, str):
        return [_name(part)]
    if "topic_name" in part:
        return [f"{_name(part['topic_name'])}:{part['num_partitions']}"]
    if "partitions" in part:
        epochs = part.get("assignment_epochs") or [None] * len(part["partitions"])
        return [
            f"{part['topic_id']}-{number}" + ("" if epoch is None else f"@{epoch}")
            for number, epoch in zip_longest(part["partitions"], epochs)
        ]
    topics = part["subscription"].get("topics")
    said = f"0x{part['subscription']['hex']}" if topics is None else " ".join(map(_name, topics))
    return [f"{_name(part['name'])}({said})"]


def _add_list(line: list[Piece], name: str, texts: list[str]) -> None:
    line += (GAP, _label(name), _OPEN)
    if texts:
        for text in texts[:-1]:
            line += ((Role.VALUE, f"{text},"), LIST_GAP)
        line.append((Role.VALUE, texts[-1]))
    line.append(_CLOSE)


def _add_control(line: list[Piece], entry: Entry) -> None:
    key, value = entry.key, entry.value
    if key is None or "marker" not in key:
        line += (GAP, (Role.KEY, _payload(key)), GAP, (Role.VALUE, _payload(value)))
        return
    line += (GAP, (Role.KEY, key["marker"]))
    _add(line, "type", str(key["type"]), Role.KEY)
    if value is not None and "coordinator_epoch" in value:
        _add(line, "coordinator_epoch", str(value["coordinator_epoch"]))
    else:
        line += (GAP, (Role.VALUE, _payload(value)))


def _payload(payload: Fields | None) -> str:
    if payload is None:
        return "null"
    if "text" in payload:
        text = payload["text"]
        return '"' + printable(text, _MAX_PAYLOAD).replace('"', '\\"') + '"'
    digits = payload["hex"]
    return f"0x{digits}" if len(digits) <= _MAX_PAYLOAD else f"0x{digits[:_MAX_PAYLOAD]}…"
