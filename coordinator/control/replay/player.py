"""Plays a recording to a shard of its own.

A shard is a function of what it is told: of its config and topics, of the group as it was in the beginning, of
each request, timer, load and result of work done elsewhere, and of the time that came with each. The recording has
all of these, so that what comes out here has to be what came out there; where it is not, another core is asked, or
the core depends on something that it should not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from coordinator.control.recording.cut import Cut, DurableCut, groups_of, put, put_durable, works_of
from coordinator.control.recording.forms import Json, Writer
from coordinator.control.recording.inputs import digest_of, outcome_form, works_about
from coordinator.control.replay.recorded import BadRecording, Line, Recorded
from coordinator.group.config import GroupConfig
from coordinator.group.consumer.config import ConsumerGroupConfig
from coordinator.group.shard import Shard
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.group.topics_image import TopicsImage
from coordinator.machine.outcome import Context, Now, Outcome, Work, WorkDone

NewShard = Callable[[GroupConfig, TopicsImage, ConsumerGroupConfig], Shard]

_SHARD_TIMERS: Final = (TimerKind.EXPIRE_OFFSETS,)


@dataclass(frozen=True, slots=True)
class Played:
    """One input, and what came of it here. `outcome` is None where nothing comes of it but an answer, or an error
    left the core."""

    line: Line
    now: Now
    said: dict[str, Json]
    outcome: Outcome | None
    request: object = None

    @property
    def is_same(self) -> bool:
        """Whether the same came of it when it was recorded."""
        return self.said == self.line.outcome


class Player:
    """See the top of this file."""

    def __init__(
        self, recorded: Recorded, new_shard: NewShard = Shard, changes: Mapping[str, Any] | None = None
    ) -> None:
        """In: properties that are to be other than they were, by name. Raises BadRecording."""
        self.recorded = recorded
        self.group_id = recorded.group_id
        config = dict(recorded.header["config"]) | dict(changes or {})
        self._new_shard = new_shard
        self._config = _config(GroupConfig, config)
        self._consumer_config = _config(ConsumerGroupConfig, config)
        self._works: dict[tuple[int, int], Work] = {}
        self.last = _now(Line(0, 0, "start", recorded.header))
        """When the last input came."""
        self._lines = {line.number: line for line in recorded.lines}
        self._begun: dict[int, str] = {}
        """The digests of the work that was being done in the beginning, by its place."""
        self.shard = self._begin()

    def _begin(self) -> Shard:
        header = Line(0, 0, "start", self.recorded.header)
        shard = self._made(header)
        if self.recorded.header["start"] != "empty":
            start = header.value("start")
            if not isinstance(start, Cut):
                raise BadRecording("its first line does not say how the group begins")
            try:
                put(shard, self.group_id, start)
            except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
                raise BadRecording("the group that it begins with cannot be") from error
            self._works = {(0, place): work for place, work in enumerate(works_of(start.soft))}
            self._begun = {place: digest_of(work) for (_, place), work in self._works.items()}
        return shard

    def _made(self, line: Line) -> Shard:
        topics = line.value("topics")
        if not isinstance(topics, TopicsImage):
            raise BadRecording(f"input {line.number}: the topics are none")
        shard = self._new_shard(self._config, topics, self._consumer_config)
        groups_of(shard).new_topics_version = line.said.get("new_topics_version", topics.version)
        return shard

    def play(self, line: Line) -> Played:
        """Has the core take one line of inputs. Raises BadRecording."""
        try:
            return _PLAYS[line.kind](self, line)
        except BadRecording:
            raise
        except Exception as problem:  # noqa: BLE001 - an error that leaves the core is an outcome
            return Played(line, _now(line), {"raised": f"{type(problem).__name__}: {problem}"}, None)

    # For whoever plays it otherwise

    def time_at(self, monotonic_ms: int) -> Now:
        """What the clock said at a monotonic time, as far as that is known: as far on as from the last input."""
        return Now(monotonic_ms, self.last.wall_ms + monotonic_ms - self.last.monotonic_ms)

    def work_of(self, line: Line) -> Work | None:
        """The work whose result a line is, as it is here; None for any other line, or where there is none."""
        work = line.said.get("work")
        return self._works.get((work[0], work[1])) if type(work) is list and len(work) == 2 else None

    def recorded_digest(self, line: Line) -> str | None:
        """What that work was in the recording."""
        number, place = line.said["work"]
        if number == 0:
            return self._begun.get(place)
        source = self._lines.get(number)
        works = [] if source is None else source.said.get("out", {}).get("work", [])
        return works[place][1] if place < len(works) else None

    def play_done(self, line: Line, done: WorkDone) -> Played:
        """Has the core take another result of work than a line has."""
        now = _now(line)
        return self._came(line, now, self.shard.handle(done, Context(0, 0, "", ""), now), done)

    # One kind of input each

    def request(self, line: Line) -> Played:
        """A request, or the result of work."""
        now = _now(line)
        if line.said["request"] == WorkDone.__name__:
            request, context = self._done(line), Context(0, 0, "", "")
        else:
            request, context = line.value("body"), line.context
        if request is None:
            return Played(line, now, {}, None)
        return self._came(line, now, self.shard.handle(request, context, now), request)

    def _done(self, line: Line) -> Any:
        known = self.work_of(line)
        return None if known is None else WorkDone(known, line.value("result"), line.said.get("error"))

    def timer(self, line: Line) -> Played:
        """A timer fires."""
        now, group_now = _now(line), _group_now(line)
        key = timer_key(line, self.group_id)
        now_of = None if group_now is None else lambda _, __: group_now
        return self._came(line, now, self.shard.fire(key, now, now_of))

    def beat(self, line: Line) -> Played:
        """Heartbeats with the same answer. One that has another here ends the line."""
        request, context = line.value("body"), line.context
        said: dict[str, Json] = {}
        for at_ms in line.said["at"]:
            now = self.time_at(at_ms)
            response = self.shard.beat(request, context, at_ms)
            if response is None:
                return self._came(line, now, self.shard.handle(request, context, now), request)
            said = {"reply": Writer().form(response)}
            if said != line.outcome:
                break
        return Played(line, now, said, None, request)

    def load(self, line: Line) -> Played:
        """The partition was read from its log."""
        now, group_now = _now(line), _group_now(line)
        self._works.clear()
        durable, overrides = line.value("load"), line.value("overrides")
        if not isinstance(durable, DurableCut):
            raise BadRecording(f"input {line.number}: it does not say what the log said")
        self.shard = self._made(line)
        put_durable(self.shard, self.group_id, durable)
        if overrides is not None:
            groups_of(self.shard).overrides[self.group_id] = overrides
        now_of = None if group_now is None else lambda _, __: group_now
        return self._came(line, now, self.shard.loaded(now, now_of))

    def unload(self, line: Line) -> Played:
        """The shard was given up."""
        self.shard.unload()
        return Played(line, self.last, {"out": {}}, None)

    def _came(self, line: Line, now: Now, outcome: Outcome, request: object = None) -> Played:
        self.last = now
        for place, work in enumerate(works_about(outcome.work, self.group_id)):
            self._works[line.number, place] = work
        said = {"out": outcome_form(outcome, request, self.group_id, Writer())}
        return Played(line, now, said, outcome, request)


_PLAYS: Final[dict[str, Callable[[Player, Line], Played]]] = {
    "request": Player.request,
    "fire": Player.timer,
    "beat": Player.beat,
    "load": Player.load,
    "unload": Player.unload,
}


def timer_key(line: Line, group_id: str) -> TimerKey:
    """The timer that a line is about. Raises BadRecording."""
    try:
        return _key(line.said["fire"], line.said["member_id"], group_id)
    except (KeyError, AttributeError) as error:
        raise BadRecording(f"input {line.number}: this groupd knows no such timer") from error


def armed_timer(form: Json, group_id: str) -> tuple[TimerKey, int | None]:
    """A timer of an outcome, with its deadline, None where it is cancelled. Raises BadRecording."""
    try:
        kind, member_id, deadline_ms = form
        return _key(kind, member_id, group_id), None if deadline_ms is None else int(deadline_ms)
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise BadRecording("this groupd knows no such timer as it has") from error


def _key(kind: str, member_id: str, group_id: str) -> TimerKey:
    named = TimerKind[kind.upper()]
    return TimerKey(named, "" if named in _SHARD_TIMERS else group_id, member_id)


def _now(line: Line) -> Now:
    return Now(line.said.get("mono_ms", 0), line.said.get("wall_ms", 0))


def _group_now(line: Line) -> Now | None:
    return Now(*line.said["group_ms"]) if "group_ms" in line.said else None


def _config(kind: type[Any], config: Mapping[str, Any]) -> Any:
    try:
        return kind(
            **{
                one.name: tuple(value) if type(value := config[one.name.replace("_", ".")]) is list else value
                for one in fields(kind)
            }
        )
    except KeyError as error:
        raise BadRecording(f"its first line has no property {error}") from error
