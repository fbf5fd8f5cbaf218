"""A recording as it is read from a file, line by line checked."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import DecodeError, json

from coordinator import __version__
from coordinator.control.recording.forms import BadForm, Forms, Json
from coordinator.control.recording.recording import FORMAT
from coordinator.machine.outcome import Context
from coordinator.net.peer import printable

_KINDS: Final = ("request", "fire", "beat", "load", "unload")
_NAMES: Final = {
    "request": ("request",),
    "fire": ("fire", "member_id"),
    "beat": ("beat",),
    "load": (),
    "unload": (),
}
"""The fields that say which input of its kind a line is."""
_LATEST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999. Python cannot print a later time as a date."""
_OUTCOMES: Final = ("out", "raised", "reply")
_MAX_SHOWN: Final = 200


class BadRecording(Exception):
    """It cannot be played: one sentence."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of inputs. `number` is that of the first of them, `count` how many they are."""

    number: int
    count: int
    kind: str
    said: dict[str, Json]

    @property
    def outcome(self) -> dict[str, Json]:
        """What came of it."""
        return {name: self.said[name] for name in _OUTCOMES if name in self.said}

    @property
    def at(self) -> int | None:
        """When it came, or the first of several: monotonic time in milliseconds; None for the end of a shard."""
        at: int | None = self.said["at"][0] if self.kind == "beat" else self.said.get("mono_ms")
        return at

    def value(self, name: str) -> Any:
        """What a field says. Raises BadRecording."""
        try:
            return Forms().value(self.said[name])
        except (BadForm, RecursionError) as error:
            raise BadRecording(f"input {self.number}: {name}: {printable(str(error), _MAX_SHOWN)}") from error

    @property
    def context(self) -> Context:
        """Who sent it. Raises BadRecording."""
        context = self.value("context") if "context" in self.said else None
        if not isinstance(context, Context):
            raise BadRecording(f"input {self.number} does not say who sent it")
        return context


@dataclass(frozen=True, slots=True)
class Recorded:
    """A whole recording. `end` says why it ends where it does."""

    header: dict[str, Json]
    lines: Sequence[Line]
    end: str

    @property
    def group_id(self) -> str:
        """The group's."""
        group_id: str = self.header["group_id"]
        return group_id

    @property
    def inputs(self) -> int:
        """How many there are."""
        return sum(line.count for line in self.lines)


def read(texts: Iterable[bytes], *, any_version: bool = False) -> Recorded:
    """A recording. In: its lines; whether one of another groupd will do. Raises BadRecording."""
    said = _lines(texts)
    header = next(said, None)
    if header is None:
        raise BadRecording("it is empty")
    _check_header(header, any_version=any_version)
    lines: list[Line] = []
    due, end = 1, None
    for place, one in enumerate(said, 2):
        if end is not None:
            raise BadRecording(f"line {place} comes behind the end")
        if "end" in one:
            end = one
            continue
        line = _line(one, place, due)
        due += line.count
        lines.append(line)
    if end is None:
        raise BadRecording(f"it is cut short after input {due - 1}: no line says why it ends there")
    if end.get("inputs") != due - 1 or type(end["end"]) is not str:
        raise BadRecording(f"lines are missing: it has {due - 1} inputs and says it has {end.get('inputs')}")
    return Recorded(header, lines, end["end"])


def _lines(texts: Iterable[bytes]) -> Iterator[dict[str, Json]]:
    place = 0
    for place, text in enumerate(texts, 1):
        try:
            said = json.decode(text)
        except (DecodeError, RecursionError) as error:
            if not text.endswith(b"\n") and place > 1:
                raise BadRecording(f"it is cut short in line {place}") from error
            raise BadRecording(
                "it is no recording of groupd" if place == 1 else f"line {place} is no JSON: {error}"
            ) from error
        if type(said) is not dict:
            what = "it is no recording of groupd" if place == 1 else f"line {place} is no object"
            raise BadRecording(what)
        yield said


def _check_header(header: dict[str, Json], *, any_version: bool) -> None:
    if type(header.get("format")) is not int or type(header.get("group_id")) is not str:
        raise BadRecording("it is no recording of groupd")
    if header["format"] != FORMAT:
        raise BadRecording(f"it has format {header['format']}; this groupd reads format {FORMAT}")
    version = header.get("groupd")
    if version != __version__ and not any_version:
        raise BadRecording(
            f"groupd {printable(str(version), _MAX_SHOWN)} wrote it and this is {__version__}: play it with that "
            "one, or say --any-version to see whether this one does the same"
        )
    if not all(_is_time(header.get(name)) for name in ("mono_ms", "wall_ms")):
        raise BadRecording("its first line does not say when it begins")
    if type(header.get("config")) is not dict or "start" not in header or "topics" not in header:
        raise BadRecording("its first line does not say how the group begins")


def _line(said: dict[str, Json], place: int, due: int) -> Line:
    kind = next((kind for kind in _KINDS if kind in said), None)
    number = said.get("n")
    context = said.get("context", {})
    if type(context) is not dict or type(context.get("client_id", "")) is not str:
        raise BadRecording(f"line {place} does not say who sent it")
    if kind is None:
        raise BadRecording(f"line {place} is no input")
    if number != due:
        raise BadRecording(f"line {place} has input {number} where {due} is due: lines are missing")
    count = 1
    if kind == "beat":
        at = said.get("at")
        if type(at) is not list or not at or not all(map(_is_time, at)):
            raise BadRecording(f"line {place} does not say when its heartbeats came")
        count = len(at)
    elif kind != "unload" and not all(_is_time(said.get(name)) for name in ("mono_ms", "wall_ms")):
        raise BadRecording(f"line {place} does not say when it came")
    if not any(name in said for name in _OUTCOMES):
        raise BadRecording(f"line {place} does not say what came of it")
    out = said.get("out", {})
    if type(out) is not dict or type(out.get("timers", [])) is not list:
        raise BadRecording(f"line {place} says what cannot come of anything")
    if not all(type(said.get(name)) is str for name in _NAMES[kind]):
        raise BadRecording(f"line {place} does not say which {kind} it is")
    return Line(due, count, kind, said)


def _is_time(value: Json) -> bool:
    """Whether a value is a time in milliseconds, of either clock."""
    return type(value) is int and abs(value) <= _LATEST_MS
