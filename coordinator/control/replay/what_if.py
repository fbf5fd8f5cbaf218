"""Plays a recording with other properties, or without some of its inputs.

Clients send their recorded requests; their reaction to other responses is unknown. Time is the group's own. A
timer without an input in the recording fires when it is due, because it was not due there or never fired. A timer
that is omitted from the inputs fires only after it is armed again. Work with another result, or without a
recorded result, is done in this run.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from msgspec.structs import asdict

from coordinator.config.config_errors import ConfigError
from coordinator.config.properties import parse_config
from coordinator.control.recording.group_recording import compute_work_digest
from coordinator.control.replay.recording_file import BadRecording, RecordingFile, RecordingLine
from coordinator.control.replay.recording_player import (
    NewShard,
    PlayedInput,
    RecordingPlayer,
    parse_armed_timer,
    parse_timer_key,
)
from coordinator.core.message_text import printable, suggest
from coordinator.core.outcome import Context, Now, Outcome, Work, WorkDone
from coordinator.core.wire_name import error_text
from coordinator.group.consumer.regex_resolution import REGEX_WORK, MatchesTooMuch, resolve_regexes
from coordinator.group.consumer.target_assignment import compute_target
from coordinator.group.group_config import ConsumerGroupConfig, GroupConfig
from coordinator.group.group_requests import GroupTimerKey
from coordinator.group.group_shard import GroupShard

_NAMES: Final = frozenset(
    name.replace("_", ".") for kind in (GroupConfig, ConsumerGroupConfig) for name in kind.__struct_fields__
)


class InvalidChange(Exception):
    """A change that is not possible; the message is one sentence."""


def parse_changed_properties(recorded: RecordingFile, options: Iterable[str]) -> Mapping[str, Any]:
    """Parse changed properties from options such as "group.max.size=2". Raises InvalidChange."""
    changed: dict[str, str] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            raise InvalidChange(f"{printable(option)}: write it as NAME=VALUE, such as group.max.size=2")
        if name not in _NAMES:
            hint = suggest(name, sorted(_NAMES))
            raise InvalidChange(f"{printable(name)} is not a property of groups {hint}")
        changed[name] = text
    texts = {name: _format_value(value) for name, value in recorded.header["config"].items()}
    try:
        config = parse_config(texts | changed)
    except ConfigError as error:
        raise InvalidChange(str(error)) from error
    values = asdict(config.view(GroupConfig)) | asdict(config.view(ConsumerGroupConfig))
    return {name: values[name.replace(".", "_")] for name in changed}


def _format_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_format_value, value))
    return str(value.value if isinstance(value, Enum) else value)


class InputFilter:
    """Selects inputs to omit. A text selects the inputs that match all of its words, such as "fire bob",
    "LeaveGroup bob", "fire heartbeat" or "12", the number of an input. Words are kinds of inputs and timers,
    requests, client ids, member ids and instance ids."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._wanted = {text: frozenset(text.split()) for text in texts}
        for text, words in self._wanted.items():
            if not words:
                raise InvalidChange(f"{text!r} does not name an input to omit")
        self.used_texts: set[str] = set()
        self._names: dict[str, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def add_member_names(self, member_id: str, *names: str | None) -> None:
        """Add the other names of a member."""
        self._names[member_id] = tuple(name for name in names if name)

    def drops_line(self, line: RecordingLine) -> bool:
        """Return whether to omit a line."""
        words = self._list_words(line)
        found = [text for text, wanted in self._wanted.items() if wanted <= words]
        self.used_texts.update(found)
        return bool(found)

    def check_all_used(self) -> None:
        """Check that every text matches an input. Raises InvalidChange."""
        for text in self._wanted.keys() - self.used_texts:
            raise InvalidChange(f"no input matches {printable(text)!r}: nothing was omitted")

    def _list_words(self, line: RecordingLine) -> set[str]:
        fields = line.fields
        words = {str(number) for number in range(line.number, line.number + line.count)} | {line.kind}
        if line.kind == "fire":
            words |= {fields["fire"], fields["member_id"], *self._names.get(fields["member_id"], ())}
        elif line.kind in ("request", "beat"):
            body, context = fields.get("body"), fields.get("context")
            words |= {fields[line.kind], fields[line.kind].removesuffix("Request")}
            words.add(context.get("client_id", "") if isinstance(context, dict) else "")
            if isinstance(body, dict):
                named = [body.get(field) for field in ("member_id", "group_instance_id")]
                words |= {name for name in named if type(name) is str}
        return words


_MAX_TIMERS: Final = 20_000
"""The maximum number of timers between two inputs. A timer that is armed again whenever it fires could fire for
ever."""


@dataclass(frozen=True, slots=True)
class AddedInput:
    """A timer that fired only in this run, or work that was done in this run."""

    description: str
    now: Now
    outcome: Outcome


class WhatIf:
    def __init__(
        self,
        recorded: RecordingFile,
        changes: Mapping[str, Any],
        input_filter: InputFilter,
        new_shard: NewShard = GroupShard,
    ) -> None:
        self._input_filter = input_filter
        self._recorded = recorded
        self.player = RecordingPlayer(recorded, new_shard, changes)
        self._timers: dict[GroupTimerKey, int] = dict(self.player.shard.list_deadlines(recorded.group_id))
        self._works_done = {
            tuple(line.fields["work"])
            for line in recorded.lines
            if "work" in line.fields and type(line.fields["work"]) is list
        }
        self._late_timers = _LateTimers(recorded, self._timers)

    def play_steps(self, until: int | None = None) -> Iterator[PlayedInput | AddedInput]:
        """Yield the played inputs, in order. Raises BadRecording."""
        for line in self._recorded.lines:
            if until is not None and line.number > until:
                return
            if line.at_ms is not None:
                yield from self._fire_before(line, line.at_ms)
            if line.kind == "fire":
                self._timers.pop(parse_timer_key(line, self._recorded.group_id), None)
            if self._input_filter.drops_line(line):
                continue
            if line.kind in ("load", "unload"):
                self._timers.clear()
            played = self._play(line)
            yield played
            if played.outcome is not None:
                yield from self._follow(played.outcome, played.now, line)

    def _play(self, line: RecordingLine) -> PlayedInput:
        work = self.player.find_work(line)
        if work is None or compute_work_digest(work) == self.player.find_recorded_digest(line):
            return self.player.play_line(line)
        return self.player.play_work_result(line, _run_work(work))

    def _fire_before(self, line: RecordingLine, at_ms: int) -> Iterator[AddedInput]:
        for _ in range(_MAX_TIMERS):
            due = [
                timer
                for timer in self._timers.items()
                if timer[1] < at_ms and not self._late_timers.is_late(timer, line.number)
            ]
            if not due:
                return
            key, due_ms = min(due, key=lambda timer: timer[1])
            del self._timers[key]
            now = self.player.find_time(due_ms)
            try:
                outcome = self.player.shard.fire_timer(key, now)
            except Exception as problem:
                raise BadRecording(f"{key} cannot fire in it: {error_text(problem)}") from problem
            yield AddedInput(f"fire {key}", now, outcome)
            yield from self._follow(outcome, now, None)
        raise BadRecording(f"more than {_MAX_TIMERS} timers would fire before input {line.number}")

    def _follow(self, outcome: Outcome, now: Now, line: RecordingLine | None) -> Iterator[AddedInput]:
        """Arm the timers of an outcome, and do the work that the recording does not have."""
        for key, deadline_ms in outcome.timers.items():
            self._timers.pop(key, None)
            if deadline_ms is not None:
                self._timers[key] = deadline_ms
        for event in outcome.events:
            member = getattr(event, "member", None)
            if member is not None:
                self._input_filter.add_member_names(
                    member.member_id, member.client_id, member.group_instance_id
                )
        for place, work in enumerate(outcome.work):
            if line is not None and (line.number, place) in self._works_done:
                continue
            try:
                came = self.player.shard.handle(_run_work(work), Context(0, 0, "", ""), now)
            except Exception as problem:
                raise BadRecording(f"{work.name} failed: {error_text(problem)}") from problem
            yield AddedInput(work.name, now, came)
            yield from self._follow(came, now, None)


class _LateTimers:
    """The timers that stayed armed beyond their deadline in the recording, for example in a stopped process, and
    the number of the input at which each ended."""

    def __init__(self, recorded: RecordingFile, armed: Mapping[GroupTimerKey, int]) -> None:
        """Create the timers. `armed` has the initially armed ones."""
        self._until: dict[tuple[GroupTimerKey, int], int] = {}
        self._armed = dict(armed)
        for line in recorded.lines:
            if line.kind == "fire":
                self._end_timer(parse_timer_key(line, recorded.group_id), line)
            elif line.kind in ("load", "unload"):
                self._until.update(dict.fromkeys(self._armed.items(), line.number))
                self._armed.clear()
            for timer in line.fields.get("out", {}).get("timers", ()):
                key, deadline_ms = parse_armed_timer(timer, recorded.group_id)
                self._end_timer(key, line)
                if deadline_ms is not None:
                    self._armed[key] = deadline_ms

    def _end_timer(self, key: GroupTimerKey, line: RecordingLine) -> None:
        deadline_ms = self._armed.pop(key, None)
        if deadline_ms is not None and line.at_ms is not None and line.at_ms >= deadline_ms:
            self._until[key, deadline_ms] = line.number

    def is_late(self, timer: tuple[GroupTimerKey, int], number: int) -> bool:
        """Return whether a timer was still armed in the recording before an input."""
        return number <= self._until.get(timer, 0)


def _run_work(work: Work) -> WorkDone:
    argument: Any = work.argument
    if work.name != REGEX_WORK:
        return WorkDone(work, compute_target(argument))
    steps = resolve_regexes(argument)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return WorkDone(work, end.value)
    except MatchesTooMuch as error:
        return WorkDone(work, None, str(error))
