"""The log lines of the daemon, so that documents quote only real ones.

The transcripts of `tests/scenarios` print the lines about groups: each quoted line occurs in one of them, word
for word and number for number. Other lines come from logger calls; their formats are in the source.
"""

import ast
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Final

from coordinator.broker.group_event_log import format_event
from coordinator.core.outcome import Outcome
from coordinator.group.group_event_types import GroupEvent
from tests.scenarios.runner import Story
from tests.scenarios.test_scenarios import TRANSCRIPTS
from tests.tooling.test_tidy import ROOT

_LINE: Final = re.compile(r"(?P<level>[A-Z]+) \[(?P<logger>\w+)\] (?P<text>.+)")
_GROUPS: Final = "GroupCoordinator"
_OFFSETS_PARTITION: Final = re.compile(r"\[__consumer_offsets-\d+\] ")
_UUID: Final = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHORT_UUID: Final = re.compile(r"-[0-9a-f]{8}(?![-\w])")

_HANDED_IN: Final = {
    "coordinator/runtime": ("GroupCoordinator",),
    "coordinator": ("GroupCoordinator", "SocketServer"),
}
"""Under which names those write that are handed the name of a logger (`self._log`), by the room they are in."""
_LEVELS: Final = {"debug", "info", "warning", "error", "critical", "exception"}
_LEAST_WORDING: Final = 10
"""Letters that a format needs to say something: "%s: %s" fits every line, and holds none to anything."""
_CONVERSION: Final = re.compile(r"%(?:\.\d+)?([sdf%])")
_CONVERSIONS: Final = {"s": ".*", "d": r"-?\d+", "f": r"\d+\.\d+", "%": "%"}


@dataclass(frozen=True)
class Told:
    """A line that a transcript prints, of an event of this class."""

    event: type[GroupEvent]
    level: str
    text: str
    transcript: str


@dataclass(frozen=True)
class Format:
    """A logging statement: `text` is its format, `pattern` a regular expression for its lines."""

    level: str
    logger: str
    text: str
    pattern: str
    place: str


def writers(quoted: str) -> list[str]:
    """Where a line `LEVEL [logger] text` (the log's, without its time) comes from: transcripts that print it, or
    places in the source. Member ids may end in any UUID, and every offsets partition will do."""
    match = _LINE.fullmatch(quoted)
    if match is None:
        return []
    level, logger, text = match.groups()
    if logger == _GROUPS and _OFFSETS_PARTITION.match(text):
        told = story_lines().get((level, _any_member(_OFFSETS_PARTITION.sub("", text, count=1))))
        if told:
            return told
    return [
        known.place
        for known in formats()
        if (known.level, known.logger) == (level, logger) and re.fullmatch(known.pattern, text)
    ]


def nearest(quoted: str) -> str:
    """Return the transcript line most similar to a quoted one, probably its earlier wording."""
    text = _any_member(re.sub(r"^[A-Z]+ \[\w+\] \[__consumer_offsets-\d+\] ", "", quoted))
    return next(iter(get_close_matches(text, [text for _, text in story_lines()], 1)), "none")


@cache
def story_lines() -> dict[tuple[str, str], list[str]]:
    """Level and text of the lines of all stories, and the transcripts that print them."""
    found: dict[tuple[str, str], list[str]] = {}
    for told in told_by_stories():
        found.setdefault((told.level, _any_member(told.text)), []).append(told.transcript)
    return found


@cache
def told_by_stories() -> tuple[Told, ...]:
    """The lines of all stories, as they come."""
    return tuple(told for path in TRANSCRIPTS for told in _told(path))


def _told(path: Path) -> Iterator[Told]:
    story = _Listener()
    for command in path.read_text(encoding="utf-8").splitlines():
        if command.startswith(">"):
            story.command(command[1:])
    for event, (level, text) in story.told:
        yield Told(event, logging.getLevelName(level), text, path.stem)


class _Listener(Story):
    """A story of which the log is kept."""

    def __init__(self) -> None:
        self.told: list[tuple[type[GroupEvent], tuple[int, str]]] = []
        super().__init__()

    def follow(self, outcome: Outcome) -> list[str]:
        for event in outcome.events:
            line = format_event(event)
            if line is not None:
                self.told.append((type(event), line))
        return super().follow(outcome)


def _any_member(text: str) -> str:
    return _SHORT_UUID.sub("-<short>", _UUID.sub("-<uuid>", text))


@cache
def formats() -> tuple[Format, ...]:
    """Return the formats of the daemon's logger calls, except those of almost nothing but conversions."""
    paths = sorted([*(ROOT / "coordinator").rglob("*.py"), *(ROOT / "storage").rglob("*.py")])
    return tuple(known for path in paths for known in _formats(path))


def _formats(path: Path) -> Iterator[Format]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    loggers = dict(_loggers(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr=level),
                args=[ast.Constant(value=str(text)), *_],
            ) if name in loggers and level in _LEVELS:
                yield from _format(path, node, loggers[name], level, text)
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr="_log"), attr=level),
                args=[ast.Constant(value=str(text)), *_],
            ) if level in _LEVELS:
                for logger in _handed_in(path):
                    yield from _format(path, node, logger, level, text)


def _handed_in(path: Path) -> tuple[str, ...]:
    place = path.relative_to(ROOT).as_posix()
    return next(names for room, names in _HANDED_IN.items() if place.startswith(f"{room}/"))


def _format(path: Path, node: ast.Call, logger: str, level: str, text: str) -> Iterator[Format]:
    pattern = _pattern(text)
    if pattern is not None:
        shown = "ERROR" if level == "exception" else level.upper()
        yield Format(shown, logger, text, pattern, f"{path.relative_to(ROOT)}:{node.lineno}")


def _loggers(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The loggers of a module: their names in the source, and their names in the log."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            match target, node.value:
                case (
                    ast.Name(id=name),
                    ast.Call(func=ast.Attribute(attr="getLogger"), args=[ast.Constant(value=str(logger))]),
                ):
                    yield name, logger


def _pattern(text: str) -> str | None:
    parts = _CONVERSION.split(text)
    if sum(map(str.isalpha, "".join(parts[::2]))) < _LEAST_WORDING:
        return None
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = (_CONVERSIONS[conversion] for conversion in parts[1::2])
    return "".join(parts)
