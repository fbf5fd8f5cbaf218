"""Reads a recording and checks it line by line, and scrubs hosts and user data from one.

Each scrubbed value has the same replacement everywhere, so the recording plays as before. In a subscription
or an assignment of the consumer protocol only the user data is replaced; in any other protocol all of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import DecodeError, json

from coordinator import __version__
from coordinator.control.recording.group_recording import FORMAT
from coordinator.control.recording.json_codec import Json, UndecodableValue, ValueDecoder, ValueEncoder
from coordinator.core.message_text import printable
from coordinator.core.outcome import Context
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.primitives import Malformed

_KINDS: Final = ("request", "fire", "beat", "load", "unload")
_REQUIRED_FIELDS: Final = {
    "request": ("request",),
    "fire": ("fire", "member_id"),
    "beat": ("beat",),
    "load": (),
    "unload": (),
}
"""The fields that identify the inputs of each kind."""
_LATEST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999. Python cannot print a later time as a date."""
_OUTCOMES: Final = ("out", "raised", "reply")
_MAX_SHOWN: Final = 200


class BadRecording(Exception):
    """A recording that cannot be played; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class RecordingLine:
    """One line of inputs. `number` is the number of the first input, `count` the number of inputs in the line."""

    number: int
    count: int
    kind: str
    fields: dict[str, Json]

    @property
    def outcome(self) -> dict[str, Json]:
        """The recorded outcome of the input."""
        return {name: self.fields[name] for name in _OUTCOMES if name in self.fields}

    @property
    def at_ms(self) -> int | None:
        """The monotonic time of the first input in milliseconds; None for the end of a shard."""
        at: int | None = self.fields["at"][0] if self.kind == "beat" else self.fields.get("mono_ms")
        return at

    def decode_field(self, name: str) -> Any:
        """Return the value of a field. Raises BadRecording."""
        try:
            return ValueDecoder().decode(self.fields[name])
        except (UndecodableValue, RecursionError) as error:
            raise BadRecording(f"input {self.number}: {name}: {printable(str(error), _MAX_SHOWN)}") from error

    @property
    def context(self) -> Context:
        """Return the sender. Raises BadRecording."""
        context = self.decode_field("context") if "context" in self.fields else None
        if not isinstance(context, Context):
            raise BadRecording(f"input {self.number} has no sender")
        return context


@dataclass(frozen=True, slots=True)
class RecordingFile:
    """A whole recording. `end` is the reason of its end."""

    header: dict[str, Json]
    lines: Sequence[RecordingLine]
    end: str

    @property
    def group_id(self) -> str:
        """The id of the recorded group."""
        group_id: str = self.header["group_id"]
        return group_id

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return sum(line.count for line in self.lines)


def read_recording(texts: Iterable[bytes], *, any_version: bool = False) -> RecordingFile:
    """Parse the lines of a recording. `any_version` accepts one of another version of groupd. Raises
    BadRecording.
    """
    decoded = _decode_lines(texts)
    header = next(decoded, None)
    if header is None:
        raise BadRecording("the file is empty")
    _check_header(header, any_version=any_version)
    lines: list[RecordingLine] = []
    due, end = 1, None
    for place, one in enumerate(decoded, 2):
        if end is not None:
            raise BadRecording(f"line {place} follows the end line")
        if "end" in one:
            end = one
            continue
        line = _parse_line(one, place, due)
        due += line.count
        lines.append(line)
    if end is None:
        raise BadRecording(f"it is truncated after input {due - 1}: the end line is missing")
    if end.get("inputs") != due - 1 or type(end["end"]) is not str:
        raise BadRecording(f"lines are missing: it has {due - 1} inputs and says it has {end.get('inputs')}")
    return RecordingFile(header, lines, end["end"])


def _decode_lines(texts: Iterable[bytes]) -> Iterator[dict[str, Json]]:
    place = 0
    for place, text in enumerate(texts, 1):
        try:
            fields = json.decode(text)
        except (DecodeError, RecursionError) as error:
            if not text.endswith(b"\n") and place > 1:
                raise BadRecording(f"it is truncated in line {place}") from error
            raise BadRecording(
                "not a recording of groupd" if place == 1 else f"line {place} is not JSON: {error}"
            ) from error
        if type(fields) is not dict:
            what = "not a recording of groupd" if place == 1 else f"line {place} is not an object"
            raise BadRecording(what)
        yield fields


def _check_header(header: dict[str, Json], *, any_version: bool) -> None:
    if type(header.get("format")) is not int or type(header.get("group_id")) is not str:
        raise BadRecording("not a recording of groupd")
    if header["format"] != FORMAT:
        raise BadRecording(f"it has format {header['format']}; this groupd reads format {FORMAT}")
    version = header.get("groupd")
    if version != __version__ and not any_version:
        raise BadRecording(
            f"groupd {printable(str(version), _MAX_SHOWN)} wrote it and this is {__version__}: replay it with "
            "that version, or compare this version with --any-version"
        )
    if not all(_is_time(header.get(name)) for name in ("mono_ms", "wall_ms")):
        raise BadRecording("its first line has no start time")
    if type(header.get("config")) is not dict or "start" not in header or "topics" not in header:
        raise BadRecording("its first line has no initial state of the group")


def _parse_line(fields: dict[str, Json], place: int, due: int) -> RecordingLine:
    kind = next((kind for kind in _KINDS if kind in fields), None)
    number = fields.get("n")
    context = fields.get("context", {})
    if type(context) is not dict or type(context.get("client_id", "")) is not str:
        raise BadRecording(f"line {place} has no sender")
    if kind is None:
        raise BadRecording(f"line {place} is not an input")
    if number != due:
        raise BadRecording(f"line {place} has input {number} where {due} is due: lines are missing")
    count = 1
    if kind == "beat":
        at = fields.get("at")
        if type(at) is not list or not at or not all(map(_is_time, at)):
            raise BadRecording(f"line {place} has no times of its heartbeats")
        count = len(at)
    elif kind != "unload" and not all(_is_time(fields.get(name)) for name in ("mono_ms", "wall_ms")):
        raise BadRecording(f"line {place} has no time")
    if not any(name in fields for name in _OUTCOMES):
        raise BadRecording(f"line {place} has no outcome")
    out = fields.get("out", {})
    if type(out) is not dict or type(out.get("timers", [])) is not list:
        raise BadRecording(f"line {place} has an impossible outcome")
    if not all(type(fields.get(name)) is str for name in _REQUIRED_FIELDS[kind]):
        raise BadRecording(f"line {place} does not name its {kind}")
    return RecordingLine(due, count, kind, fields)


def _is_time(value: Json) -> bool:
    """Return whether a value is a time in milliseconds, monotonic or Unix."""
    return type(value) is int and abs(value) <= _LATEST_MS


_HOSTS: Final = frozenset({"client_host", "sender_host", "host"})
_SUBSCRIPTIONS: Final = frozenset(
    {"metadata", "subscription", "member_metadata", "protocols", "supported_protocols"}
)
_ASSIGNMENTS: Final = frozenset({"assignment", "member_assignment", "before", "settled_assignment"})
"""Fields with assignments, which leaders send to the members."""
_NOT_OURS: Final = b"\xff\xff"
"""An invalid version of the consumer protocol, which marks scrubbed bytes as foreign to it."""


def scrub_recording(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the scrubbed lines of a valid recording."""
    scrub = _Scrubber()
    lines = [json.decode(text) for text in texts]
    for line in lines:
        scrub.collect_replacements(line, "")
    for line in lines:
        yield json.encode(scrub.scrub_value(line, "")) + b"\n"


class _Scrubber:
    def __init__(self) -> None:
        self._hosts: dict[str, str] = {}
        self._bytes: dict[str, str] = {}

    def collect_replacements(self, value: Json, field: str) -> None:
        """Collect the texts to replace in a value of a field."""
        if isinstance(value, dict):
            for name, inner in value.items():
                self.collect_replacements(inner, field if name.startswith("$") else name)
        elif isinstance(value, list):
            for inner in value:
                self.collect_replacements(inner, field)
        elif not isinstance(value, str) or not value:
            return
        elif field in _HOSTS:
            self._hosts.setdefault(value, f"{'/' * value.startswith('/')}host-{len(self._hosts) + 1}")
        elif value.startswith("$b:") and value not in self._bytes:
            is_subscription = field in _SUBSCRIPTIONS
            if is_subscription or field in _ASSIGNMENTS:
                number = len(self._bytes) + 1
                other = _without_user_data(
                    ValueDecoder().decode(value), is_subscription=is_subscription, number=number
                )
                self._bytes[value] = ValueEncoder().encode(other)

    def scrub_value(self, value: Json, field: str) -> Json:
        """Return the scrubbed value."""
        if isinstance(value, dict):
            return {
                name: self.scrub_value(one, field if name.startswith("$") else name)
                for name, one in value.items()
            }
        if isinstance(value, list):
            return [self.scrub_value(one, field) for one in value]
        if isinstance(value, str):
            if field == "raised":
                return "an error"
            return self._hosts.get(value, value) if field in _HOSTS else self._bytes.get(value, value)
        return value


def _without_user_data(data: bytes, *, is_subscription: bool, number: int) -> bytes:
    """Replace the user data of a payload with other bytes of the same length."""
    try:
        start, size = _find_user_data(data, is_subscription=is_subscription)
    except Malformed:
        return (_NOT_OURS + number.to_bytes(4)).ljust(len(data), b"\0")[: len(data)]
    return data[:start] + number.to_bytes(4).ljust(size, b"\0")[:size] + data[start + size :]


def _find_user_data(data: bytes, *, is_subscription: bool) -> tuple[int, int]:
    """Return the position and the length of the user data. Raises Malformed."""
    if is_subscription:
        subscription = decode_subscription(data)
        front = encode_subscription(ConsumerProtocolSubscription(topics=subscription.topics), 0)
        return len(front), len(subscription.user_data or b"")
    assignment = decode_assignment(data)
    partitions = assignment.assigned_partitions
    front = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=partitions), 0)
    return len(front), len(assignment.user_data or b"")
