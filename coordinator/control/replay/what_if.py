"""A recording, played otherwise: with other properties, or without some of its inputs.

Clients say what they said: what they would have answered to another coordinator nobody knows. Time is the
group's own. A timer that is due and that the recording does not fire (there it was not due yet, or not at all)
fires when it is due; one that was left out does not fire before it is armed anew. Work that comes out otherwise, or
that nobody did there, is done here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from coordinator.control.recording.inputs import digest_of
from coordinator.control.replay.changes import Dropped
from coordinator.control.replay.player import NewShard, Played, Player, armed_timer, timer_key
from coordinator.control.replay.recorded import BadRecording, Line, Recorded
from coordinator.group.consumer.regular_expressions import REGEX_WORK, MatchesTooMuch, resolve_regexes
from coordinator.group.consumer.target import compute_target
from coordinator.group.shard import Shard
from coordinator.group.timer_key import TimerKey
from coordinator.machine.outcome import Context, Now, Outcome, Work, WorkDone

_MOST_TIMERS: Final = 20_000
"""Between two inputs: a timer that is armed anew whenever it fires could fire for centuries."""


@dataclass(frozen=True, slots=True)
class Added:
    """A timer that fired here and not there, or work that was done."""

    what: str
    now: Now
    outcome: Outcome


class WhatIf:
    """See the top of this file."""

    def __init__(
        self,
        recorded: Recorded,
        changes: Mapping[str, Any],
        dropped: Dropped,
        new_shard: NewShard = Shard,
    ) -> None:
        self._dropped = dropped
        self._recorded = recorded
        self.player = Player(recorded, new_shard, changes)
        self._timers: dict[TimerKey, int] = dict(self.player.shard.deadlines(recorded.group_id))
        self._works_done = {
            tuple(line.said["work"])
            for line in recorded.lines
            if "work" in line.said and type(line.said["work"]) is list
        }
        self._late = _Late(recorded, self._timers)

    def steps(self, until: int | None = None) -> Iterator[Played | Added]:
        """What is played, in order. Raises BadRecording."""
        for line in self._recorded.lines:
            if until is not None and line.number > until:
                return
            if line.at is not None:
                yield from self._fire_before(line, line.at)
            if line.kind == "fire":
                self._timers.pop(timer_key(line, self._recorded.group_id), None)
            if self._dropped.has(line):
                continue
            if line.kind in ("load", "unload"):
                self._timers.clear()
            played = self._play(line)
            yield played
            if played.outcome is not None:
                yield from self._follow(played.outcome, played.now, line)

    def _play(self, line: Line) -> Played:
        work = self.player.work_of(line)
        if work is None or digest_of(work) == self.player.recorded_digest(line):
            return self.player.play(line)
        return self.player.play_done(line, _done(work))

    def _fire_before(self, line: Line, at_ms: int) -> Iterator[Added]:
        for _ in range(_MOST_TIMERS):
            due = [
                timer
                for timer in self._timers.items()
                if timer[1] < at_ms and not self._late.is_late(timer, line.number)
            ]
            if not due:
                return
            key, due_ms = min(due, key=lambda timer: timer[1])
            del self._timers[key]
            now = self.player.time_at(due_ms)
            try:
                outcome = self.player.shard.fire(key, now)
            except Exception as problem:
                raise BadRecording(
                    f"{key} cannot fire in it: {type(problem).__name__}: {problem}"
                ) from problem
            yield Added(f"fire {key}", now, outcome)
            yield from self._follow(outcome, now, None)
        raise BadRecording(f"more than {_MOST_TIMERS} timers would fire before input {line.number}")

    def _follow(self, outcome: Outcome, now: Now, line: Line | None) -> Iterator[Added]:
        """Arms its timers, and does the work that the recording does not have."""
        for key, deadline_ms in outcome.timers.items():
            self._timers.pop(key, None)
            if deadline_ms is not None:
                self._timers[key] = deadline_ms
        for event in outcome.events:
            member = getattr(event, "member", None)
            if member is not None:
                self._dropped.learn(member.member_id, member.client_id, member.group_instance_id)
        for place, work in enumerate(outcome.work):
            if line is not None and (line.number, place) in self._works_done:
                continue
            try:
                came = self.player.shard.handle(_done(work), Context(0, 0, "", ""), now)
            except Exception as problem:
                raise BadRecording(
                    f"{work.name} cannot be done: {type(problem).__name__}: {problem}"
                ) from problem
            yield Added(work.name, now, came)
            yield from self._follow(came, now, None)


class _Late:
    """The timers of a recording that were armed there beyond their deadline, as where a process stood still: until
    which input."""

    def __init__(self, recorded: Recorded, armed: Mapping[TimerKey, int]) -> None:
        """In: those that are armed in the beginning."""
        self._until: dict[tuple[TimerKey, int], int] = {}
        self._armed = dict(armed)
        for line in recorded.lines:
            if line.kind == "fire":
                self._ended(timer_key(line, recorded.group_id), line)
            elif line.kind in ("load", "unload"):
                self._until.update(dict.fromkeys(self._armed.items(), line.number))
                self._armed.clear()
            for timer in line.said.get("out", {}).get("timers", ()):
                key, deadline_ms = armed_timer(timer, recorded.group_id)
                self._ended(key, line)
                if deadline_ms is not None:
                    self._armed[key] = deadline_ms

    def _ended(self, key: TimerKey, line: Line) -> None:
        deadline_ms = self._armed.pop(key, None)
        if deadline_ms is not None and line.at is not None and line.at >= deadline_ms:
            self._until[key, deadline_ms] = line.number

    def is_late(self, timer: tuple[TimerKey, int], number: int) -> bool:
        """Whether a timer was armed there still before an input."""
        return number <= self._until.get(timer, 0)


def _done(work: Work) -> WorkDone:
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
