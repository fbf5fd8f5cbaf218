"""The recording of one group: a header, a line for each input of its shard, and a line with the reason for
the end. The lines are kept compressed in memory, up to a bound.

An input is written before the core gets it, and its outcome before any other code gets that, so later changes
of the values do not show. Heartbeats that cause nothing but their response change nothing for each other.
Those between two other inputs become one line for each sender, with their times.

Most requests name one group, and their whole outcome is recorded. A request that names several groups is
recorded as if it named this one alone. Inputs for every group (topics, the end of a transaction, the
retention timer) are recorded unchanged. ListGroups is left out: it changes no group, and its response is not
about one.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any, Final
from zlib import compress, decompress

from msgspec import json
from msgspec.structs import asdict, replace

from coordinator import __version__
from coordinator.control.recording.json_codec import Json, ValueEncoder
from coordinator.control.recording.recorded_classes import request_name
from coordinator.core.message_text import printable
from coordinator.core.outcome import Context, Now, Outcome, Work, WorkDone
from coordinator.core.wire_name import error_text
from coordinator.group.consumer.regex_resolution import RegexWork
from coordinator.group.group_export import export_durable, export_group, has_group_state, list_work
from coordinator.group.group_requests import (
    EndTransaction,
    FetchOffsets,
    GroupTimerKey,
    ShiftDeadlines,
    TopicsChanged,
)
from coordinator.group.group_shard import GroupShard
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest

_LOG: Final = logging.getLogger("Control")

FORMAT: Final = 1
MAX_HEARTBEATS_PER_LINE: Final = 1000
"""The maximum number of heartbeats in one line."""
_END_BYTES: Final = 512
"""The size that is reserved for the last line, in bytes."""
_START_NUMBER: Final = 0
"""The number of the initial state in references to work, before the first input."""


class GroupRecording:
    """The recording of one group. `end_reason` is the reason of its end, "" while it continues."""

    def __init__(self, group_id: str, shard: GroupShard, now: Now, most_bytes: int) -> None:
        """Start a recording.

        Args:
            group_id: the group.
            shard: the shard of the group, between two inputs.
            now: the current time.
            most_bytes: the maximum size of the uncompressed lines, in bytes.

        Raises:
            ValueError: the current state of the group alone exceeds `most_bytes`.
        """
        self.group_id = group_id
        self.started_ms = now.wall_ms
        self.inputs = 0
        self.end_reason = ""
        self._lines = CompressedLines(most_bytes)
        self._works: dict[int, tuple[int, int, Work]] = {}
        """The pending work by the identity of its argument: the number of the input that caused it, its position
        in the outcome, and the work."""
        self._heartbeats: dict[bytes, tuple[dict[str, Json], list[int]]] = {}
        self._heartbeat_count = 0
        header = self._build_header(shard, now)
        self.starts_empty: bool = header["start"] == "empty"
        line = json.encode(header) + b"\n"
        if not self._lines.has_room(len(line) + _END_BYTES):
            raise ValueError(
                f"the current state of the group takes {len(line)} bytes, more than the {most_bytes} allowed"
            )
        self._lines.add(line)

    def _build_header(self, shard: GroupShard, now: Now) -> dict[str, Json]:
        encoder = ValueEncoder()
        exported = export_group(shard, self.group_id)
        self._track_work(_START_NUMBER, list_work(exported.soft))
        config = asdict(shard.config) | asdict(shard.consumer_config)
        return {
            "format": FORMAT,
            "groupd": __version__,
            "group_id": self.group_id,
            "mono_ms": now.monotonic_ms,
            "wall_ms": now.wall_ms,
            "config": {name.replace("_", "."): value for name, value in config.items()},
            **_encode_topics(shard, encoder),
            "start": encoder.encode(exported) if has_group_state(shard, self.group_id) else "empty",
        }

    @property
    def size_bytes(self) -> int:
        """The size of the uncompressed lines in bytes."""
        return self._lines.bytes

    @property
    def most_bytes(self) -> int:
        """The maximum size of the uncompressed lines in bytes."""
        return self._lines.most_bytes

    def pieces(self) -> Iterator[bytes]:
        """Return the current content of the file."""
        self._write_heartbeats()
        if self.end_reason:
            return self._lines.pieces()
        return _with_end(self._lines.pieces(), self._build_end_line("it goes on"))

    # Inputs

    def build_request_line(self, request: Any, context: Context, now: Now) -> dict[str, Json]:
        """Return the line of a request that the core gets next."""
        line = self._build_line(now)
        line["request"] = request_name(type(request))
        encoder = ValueEncoder()
        if isinstance(request, WorkDone):
            number, place, _ = self._works.pop(id(request.work.argument), (None, None, None))
            line |= {
                "work": [number, place],
                "result": encoder.encode(request.result),
                "error": request.error,
            }
        else:
            line |= {"context": encoder.encode(context), "body": encoder.encode(request)}
        return line

    def build_timer_line(self, key: GroupTimerKey, now: Now, group_now: Now | None) -> dict[str, Json]:
        """Return the line of a timer. `group_now` is the time of the group if it has its own clock."""
        line = self._build_line(now) | {"fire": key.kind.name.lower(), "member_id": key.member_id}
        return line if group_now is None else line | {"group_ms": list(group_now)}

    def build_load_line(self, shard: GroupShard, now: Now, group_now: Now | None) -> dict[str, Json]:
        """Return the line of a load: the group's records in the log, and the other initial state of the shard."""
        self._works.clear()
        encoder = ValueEncoder()
        line = self._build_line(now) | {
            "load": encoder.encode(export_durable(shard, self.group_id)),
            "overrides": encoder.encode(shard.find_overrides(self.group_id)),
            **_encode_topics(shard, encoder),
        }
        return line if group_now is None else line | {"group_ms": list(group_now)}

    def build_unload_line(self) -> dict[str, Json]:
        """Return the line for the end of a shard."""
        self._write_heartbeats()
        return {"n": self.inputs + 1, "unload": True}

    def add_heartbeat(self, request: Any, context: Context, monotonic_ms: int, response: object) -> None:
        """Record a heartbeat that caused nothing but its response."""
        encoder = ValueEncoder()
        line = {
            "beat": request_name(type(request)),
            "context": encoder.encode(context),
            "body": encoder.encode(request),
            "reply": encoder.encode(response),
        }
        self._heartbeats.setdefault(json.encode(line), (line, []))[1].append(monotonic_ms)
        self._heartbeat_count += 1
        if self._heartbeat_count >= MAX_HEARTBEATS_PER_LINE:
            self._write_heartbeats()

    # Outcomes

    def write_outcome(self, line: dict[str, Json], outcome: Outcome, request: object = None) -> None:
        """Write a line with its outcome."""
        works = select_work(outcome.work, self.group_id)
        self._track_work(self.inputs + 1, works)
        self._write_line(line | {"out": encode_outcome(outcome, request, self.group_id, ValueEncoder())})

    def write_error(self, line: dict[str, Json], problem: Exception) -> None:
        """Write a line with the error that the core raised."""
        self._write_line(line | {"raised": error_text(problem)})

    def end_recording(self, why: str) -> None:
        """End the recording; it accepts no more lines."""
        if not self.end_reason:
            self._lines.add(self._build_end_line(why))
            self.end_reason = why
            _LOG.info("The recording of group %s ends: %s", printable(self.group_id), why)

    def _build_line(self, now: Now) -> dict[str, Json]:
        self._write_heartbeats()
        return {"n": self.inputs + 1, "mono_ms": now.monotonic_ms, "wall_ms": now.wall_ms}

    def _track_work(self, number: int, works: list[Work]) -> None:
        self._works.update({id(work.argument): (number, place, work) for place, work in enumerate(works)})

    def _write_heartbeats(self) -> None:
        heartbeats, self._heartbeats, self._heartbeat_count = self._heartbeats, {}, 0
        for line, at in heartbeats.values():
            self._write_line({"n": self.inputs + 1, **line, "at": at}, len(at))

    def _write_line(self, line: dict[str, Json], inputs: int = 1) -> None:
        data = json.encode(line) + b"\n"
        if self.end_reason:
            return
        if not self._lines.has_room(len(data) + _END_BYTES):
            self.end_recording(f"it has reached its limit of {self.most_bytes} bytes")
            return
        self.inputs += inputs
        self._lines.add(data)

    def _build_end_line(self, why: str) -> bytes:
        return json.encode({"end": why, "inputs": self.inputs}) + b"\n"


def _encode_topics(shard: GroupShard, encoder: ValueEncoder) -> dict[str, Json]:
    return {"topics": encoder.encode(shard.topics), "new_topics_version": shard.new_topics_version}


def _with_end(pieces: Iterator[bytes], end: bytes) -> Iterator[bytes]:
    yield from pieces
    yield end


_DIGITS: Final = 16
"""The number of hexadecimal digits of a digest."""


def _restrict_list(request: Any, field: str, group_id: str) -> Any:
    named = [one for one in getattr(request, field) if one == group_id]
    return replace(request, **{field: named}) if named else None


_MULTI_GROUP_REQUESTS: Final[dict[type[object], Callable[[GroupShard, Any, str], Any]]] = {
    ListGroupsRequest: lambda _, __, ___: None,
    DescribeGroupsRequest: lambda _, request, group_id: _restrict_list(request, "groups", group_id),
    DeleteGroupsRequest: lambda _, request, group_id: _restrict_list(request, "groups_names", group_id),
    ConsumerGroupDescribeRequest: lambda _, request, group_id: _restrict_list(request, "group_ids", group_id),
    ShiftDeadlines: lambda _, request, group_id: (
        replace(request, group_ids=[group_id]) if group_id in request.group_ids else None
    ),
    EndTransaction: lambda shard, request, group_id: (
        request
        if any(place[0] == group_id for place in shard.list_pending_values(request.producer_id))
        else None
    ),
    TopicsChanged: lambda _, request, __: request,
    WorkDone: lambda _, request, group_id: request if request.work.argument.group_id == group_id else None,
    FetchOffsets: lambda _, request, group_id: request if request.group.group_id == group_id else None,
}
"""Restricts requests that do not name their group in `group_id` to one group; None if they do not concern it."""

_RESPONSE_LISTS: Final = {
    DescribeGroupsRequest: ("groups", "group_id"),
    DeleteGroupsRequest: ("results", "group_id"),
    ConsumerGroupDescribeRequest: ("groups", "group_id"),
}
"""The response field with a list of results by group, and the field of a result with the group id."""


def restrict_request(shard: GroupShard, request: Any, group_id: str) -> Any:
    """Return the part of a request that concerns a group, or None."""
    of_many = _MULTI_GROUP_REQUESTS.get(type(request))
    if of_many is not None:
        return of_many(shard, request, group_id)
    return request if request.group_id == group_id else None


def encode_outcome(outcome: Outcome, request: object, group_id: str, encoder: ValueEncoder) -> Json:
    """Return the part of an outcome that concerns a group, without empty fields.

    Work is represented by its digest, because its result is a later input.
    """
    fields: dict[str, Json] = {
        "records": [encoder.encode(fact) for fact in outcome.records if _read_group_id(fact.key) == group_id],
        "replies": [
            [waiter, encoder.encode(_restrict_reply(reply, request, group_id))]
            for waiter, reply in outcome.replies
        ],
        "timers": [
            [key.kind.name.lower(), key.member_id, deadline_ms]
            for key, deadline_ms in outcome.timers.items()
            if key.group_id in ("", group_id)
        ],
        "events": [encoder.encode(event) for event in outcome.events if event.group_id == group_id],
        "work": [[work.name, compute_work_digest(work)] for work in select_work(outcome.work, group_id)],
        "messages": [encoder.encode(message) for message in outcome.messages],
    }
    for name in ("in_transaction", "marker"):
        fields[name] = encoder.encode(getattr(outcome, name))
    return {name: value for name, value in fields.items() if value}


def select_work(works: Iterable[Work], group_id: str) -> list[Work]:
    """Select the work of one group."""
    return [work for work in works if work.argument.group_id == group_id]  # type: ignore[attr-defined]


def compute_work_digest(work: Work) -> str:
    """Return a digest of work. Equal work has an equal digest."""
    argument: Any = work.argument
    if isinstance(argument, RegexWork):
        argument = argument._replace(asked_by=None)
    return sha256(json.encode(ValueEncoder().encode(argument))).hexdigest()[:_DIGITS]


def _read_group_id(key: Any) -> str:
    named: str = key.group if hasattr(key, "group") else key.group_id
    return named


def _restrict_reply(reply: Any, request: object, group_id: str) -> Any:
    field, name = _RESPONSE_LISTS.get(type(request), (None, ""))
    if field is None:
        return reply
    selected = [one for one in getattr(reply, field) if getattr(one, name) == group_id]
    return replace(reply, **{field: selected})


PIECE_BYTES: Final = 64 * 1024
"""The size of lines that are compressed together, in bytes. Compression takes some hundred microseconds."""
_COMPRESSION_LEVEL: Final = 1


class CompressedLines:
    """Compressed lines of a file, each with its line end."""

    def __init__(self, most_bytes: int) -> None:
        """Create an empty list. `most_bytes` is the maximum size of the uncompressed lines."""
        self.most_bytes = most_bytes
        self.bytes = 0
        self._packed: list[bytes] = []
        self._open = bytearray()

    def has_room(self, size: int) -> bool:
        """Return whether `size` more bytes are within the limit."""
        return self.bytes + size <= self.most_bytes

    def add(self, line: bytes) -> None:
        self.bytes += len(line)
        self._open += line
        if len(self._open) >= PIECE_BYTES:
            self._packed.append(compress(self._open, _COMPRESSION_LEVEL))
            self._open = bytearray()

    def pieces(self) -> Iterator[bytes]:
        """Return all present lines, without lines that are added meanwhile."""
        packed, end = list(self._packed), bytes(self._open)
        return _decompress_pieces(packed, end)


def _decompress_pieces(packed: list[bytes], end: bytes) -> Iterator[bytes]:
    yield from map(decompress, packed)
    yield end
