"""The text form of members, clients and assignments in log lines.

Input text must already be printable (`message_text.printable`), except for the data decoded here.
"""

import re
from collections.abc import Sequence
from typing import Final

from coordinator.core.message_text import format_count, list_ranges, printable
from coordinator.group.event_details import MemberName
from protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from protocol.primitives import Malformed

_UUID_END: Final = re.compile(r"(?<=-[0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_MAX_NAME: Final = 80
_MAX_TOPICS: Final = 5
_MAX_RANGES: Final = 5
_MAX_ASSIGNMENT_BYTES: Final = 65_536
"""Longer assignments appear only as a length, because decoding them would block other requests."""


def shorten_member_id(member_id: str) -> str:
    """Remove all but the first eight digits of the UUID in a member id: `bob-e4fa5815`. This prefix identifies the
    member in its client's log.
    """
    return _UUID_END.sub("", member_id)


def printable_name(name: MemberName) -> MemberName:
    """Return a member's name for a log line: the member id shortened, the rest escaped."""
    instance_id = name.group_instance_id
    return MemberName(
        printable(shorten_member_id(name.member_id), _MAX_NAME),
        None if instance_id is None else printable(instance_id, _MAX_NAME),
        printable(name.client_id, _MAX_NAME),
        printable(name.client_host, _MAX_NAME),
    )


def format_client(client_id: str, client_host: str) -> str:
    """Format a client: `bob at 127.0.0.1`."""
    return f"{client_id or 'a client without a name'} at {client_host.removeprefix('/')}"


def format_member_client(name: MemberName) -> str:
    """Format a member's client: `bob at 127.0.0.1`."""
    return format_client(name.client_id, name.client_host)


def format_member(name: MemberName) -> str:
    """Format a member: `bob-e4fa5815`. Adds the client id if the member id does not begin with it, as for static
    members.
    """
    if not name.member_id:
        return name.client_id or "a client without a name"
    if name.client_id and name.member_id.startswith(f"{name.client_id}-"):
        return name.member_id
    return f"{name.member_id} (client {name.client_id or 'without a name'})"


def format_member_address(name: MemberName) -> str:
    """Format a member with its address: `bob-e4fa5815 at 127.0.0.1`."""
    return f"{format_member(name)} at {name.client_host.removeprefix('/')}"


def format_assignment(data: bytes, protocol_type: str | None) -> str:
    """Format an assignment as far as the coordinator can decode it: `orders 0-2, payments 1`."""
    if not data:
        return "nothing"
    if protocol_type != PROTOCOL_TYPE or len(data) > _MAX_ASSIGNMENT_BYTES:
        return format_count(len(data), "byte")
    partitions: dict[str, list[int]] = {}
    try:
        for topic in decode_assignment(data).assigned_partitions:
            partitions.setdefault(topic.topic, []).extend(topic.partitions)
    except Malformed:
        return format_count(len(data), "byte")
    owned = {topic: numbers for topic, numbers in partitions.items() if numbers}
    texts = [
        f"{printable(topic, _MAX_NAME)} {_format_partitions(numbers)}"
        for topic, numbers in list(owned.items())[:_MAX_TOPICS]
    ]
    more = len(owned) - len(texts)
    return ", ".join(texts) + (f" and {format_count(more, 'more topic')}" if more else "") or "nothing"


def _format_partitions(numbers: Sequence[int]) -> str:
    """Format partition numbers: `0-2 5 7-9`."""
    ranges = list_ranges(numbers)
    more = f" … ({len(numbers)} partitions)" if len(ranges) > _MAX_RANGES else ""
    return " ".join(ranges[:_MAX_RANGES]) + more
