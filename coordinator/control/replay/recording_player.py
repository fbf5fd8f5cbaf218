"""Plays a recording on a separate shard.

A shard is a function of its inputs: config, topics, the initial state of the group, requests, timers, loads,
results of work in other threads, and the time of each. The recording has all of them, so its outcomes must
repeat. A difference means that the core has changed, or depends on a hidden input.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from coordinator.control.recording.group_recording import compute_work_digest, encode_outcome, select_work
from coordinator.control.recording.json_codec import Json, ValueEncoder
from coordinator.control.recording.recorded_classes import request_name
from coordinator.control.replay.recording_file import BadRecording, RecordingFile, RecordingLine
from coordinator.core.outcome import Context, Now, Outcome, Work, WorkDone
from coordinator.core.wire_name import error_text
from coordinator.group.group_config import ConsumerGroupConfig, GroupConfig
from coordinator.group.group_export import (
    DurableGroupState,
    ExportedGroup,
    import_durable,
    import_group,
    import_overrides,
    list_work,
)
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from coordinator.group.group_shard import GroupShard
from coordinator.group.topics_image import TopicsImage

NewShard = Callable[[GroupConfig, TopicsImage, ConsumerGroupConfig], GroupShard]

_SHARD_TIMERS: Final = (GroupTimerKind.EXPIRE_OFFSETS, GroupTimerKind.DELETE_OFFSETS)


@dataclass(frozen=True, slots=True)
class PlayedInput:
    """One input with its outcome in the replay. `outcome` is None if the input has only a response, or raised
    an error."""

    line: RecordingLine
    now: Now
    outcome_fields: dict[str, Json]
    outcome: Outcome | None
    request: object = None

    @property
    def is_same(self) -> bool:
        """Whether the result equals the recorded one."""
        return self.outcome_fields == self.line.outcome


class RecordingPlayer:
    def __init__(
        self,
        recorded: RecordingFile,
        new_shard: NewShard = GroupShard,
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        """Create a player. `changes` are properties with other values than recorded, by name. Raises
        BadRecording.
        """
        self.recorded = recorded
        self.group_id = recorded.group_id
        config = dict(recorded.header["config"]) | dict(changes or {})
        self._new_shard = new_shard
        self._config = _build_config(GroupConfig, config)
        self._consumer_config = _build_config(ConsumerGroupConfig, config)
        self._works: dict[tuple[int, int], Work] = {}
        self.last_now = _read_now(RecordingLine(0, 0, "start", recorded.header))
        """The time of the last input."""
        self._lines = {line.number: line for line in recorded.lines}
        self._initial_digests: dict[int, str] = {}
        """The digests of the work that was pending at the start, by its position."""
        self.shard = self._create_initial_shard()

    def _create_initial_shard(self) -> GroupShard:
        header = RecordingLine(0, 0, "start", self.recorded.header)
        shard = self._create_shard(header)
        if self.recorded.header["start"] != "empty":
            start = header.decode_field("start")
            if not isinstance(start, ExportedGroup):
                raise BadRecording("its first line has no initial state of the group")
            with _reject_impossible("the initial state of the group is impossible"):
                import_group(shard, self.group_id, start)
            self._works = {(0, place): work for place, work in enumerate(list_work(start.soft))}
            self._initial_digests = {
                place: compute_work_digest(work) for (_, place), work in self._works.items()
            }
        return shard

    def _create_shard(self, line: RecordingLine) -> GroupShard:
        topics = line.decode_field("topics")
        if not isinstance(topics, TopicsImage):
            raise BadRecording(f"input {line.number}: the topics are invalid")
        shard = self._new_shard(self._config, topics, self._consumer_config)
        shard.restore_topics_version(line.fields.get("new_topics_version", topics.version))
        return shard

    def play_line(self, line: RecordingLine) -> PlayedInput:
        """Play one line of inputs to the core. Raises BadRecording."""
        try:
            return _HANDLERS[line.kind](self, line)
        except BadRecording:
            raise
        except Exception as problem:  # noqa: BLE001 - an error that leaves the core is an outcome
            return PlayedInput(line, _read_now(line), {"raised": error_text(problem)}, None)

    # Data for what-if runs

    def find_time(self, monotonic_ms: int) -> Now:
        """Return the clock at a monotonic time, by its distance from the last input."""
        return Now(monotonic_ms, self.last_now.wall_ms + monotonic_ms - self.last_now.monotonic_ms)

    def find_work(self, line: RecordingLine) -> Work | None:
        """Return the work of this replay to which the result in a line belongs, or None."""
        work = line.fields.get("work")
        return self._works.get((work[0], work[1])) if type(work) is list and len(work) == 2 else None

    def find_recorded_digest(self, line: RecordingLine) -> str | None:
        """Return the digest of the work as recorded."""
        number, place = line.fields["work"]
        if number == 0:
            return self._initial_digests.get(place)
        source = self._lines.get(number)
        works = [] if source is None else source.fields.get("out", {}).get("work", [])
        return works[place][1] if place < len(works) else None

    def play_work_result(self, line: RecordingLine, done: WorkDone) -> PlayedInput:
        """Give the core a result of work that differs from the recorded one."""
        now = _read_now(line)
        return self._finish_input(line, now, self.shard.handle(done, Context(0, 0, "", ""), now), done)

    # Inputs

    def play_request(self, line: RecordingLine) -> PlayedInput:
        """Play a request, or the result of work."""
        now = _read_now(line)
        if line.fields["request"] == request_name(WorkDone):
            request, context = self._build_work_result(line), Context(0, 0, "", "")
        else:
            request, context = line.decode_field("body"), line.context
        if request is None:
            return PlayedInput(line, now, {}, None)
        return self._finish_input(line, now, self.shard.handle(request, context, now), request)

    def _build_work_result(self, line: RecordingLine) -> Any:
        known = self.find_work(line)
        return (
            None if known is None else WorkDone(known, line.decode_field("result"), line.fields.get("error"))
        )

    def play_timer(self, line: RecordingLine) -> PlayedInput:
        """Fire the timer of a line."""
        now, group_now = _read_now(line), _read_group_now(line)
        key = parse_timer_key(line, self.group_id)
        time_source = None if group_now is None else lambda _, __: group_now
        return self._finish_input(line, now, self.shard.fire_timer(key, now, time_source))

    def play_heartbeats(self, line: RecordingLine) -> PlayedInput:
        """Play heartbeats with equal recorded responses. The first different response ends the line."""
        request, context = line.decode_field("body"), line.context
        outcome_fields: dict[str, Json] = {}
        for at_ms in line.fields["at"]:
            now = self.find_time(at_ms)
            response = self.shard.try_heartbeat(request, context, at_ms)
            if response is None:
                return self._finish_input(line, now, self.shard.handle(request, context, now), request)
            outcome_fields = {"reply": ValueEncoder().encode(response)}
            if outcome_fields != line.outcome:
                break
        return PlayedInput(line, now, outcome_fields, None, request)

    def play_load(self, line: RecordingLine) -> PlayedInput:
        """Play the load of the partition from its log. Raises BadRecording."""
        now, group_now = _read_now(line), _read_group_now(line)
        self._works.clear()
        durable, overrides = line.decode_field("load"), line.decode_field("overrides")
        if not isinstance(durable, DurableGroupState):
            raise BadRecording(f"input {line.number}: it has no result of the log")
        self.shard = self._create_shard(line)
        with _reject_impossible(f"input {line.number}: the result of the log is impossible"):
            import_durable(self.shard, self.group_id, durable)
            import_overrides(self.shard, self.group_id, overrides)
        time_source = None if group_now is None else lambda _, __: group_now
        return self._finish_input(line, now, self.shard.on_loaded(now, time_source))

    def play_unload(self, line: RecordingLine) -> PlayedInput:
        """Play the release of the partition."""
        self.shard.unload()
        return PlayedInput(line, self.last_now, {"out": {}}, None)

    def _finish_input(
        self, line: RecordingLine, now: Now, outcome: Outcome, request: object = None
    ) -> PlayedInput:
        self.last_now = now
        for place, work in enumerate(select_work(outcome.work, self.group_id)):
            self._works[line.number, place] = work
        outcome_fields = {"out": encode_outcome(outcome, request, self.group_id, ValueEncoder())}
        return PlayedInput(line, now, outcome_fields, outcome, request)


_HANDLERS: Final[dict[str, Callable[[RecordingPlayer, RecordingLine], PlayedInput]]] = {
    "request": RecordingPlayer.play_request,
    "fire": RecordingPlayer.play_timer,
    "beat": RecordingPlayer.play_heartbeats,
    "load": RecordingPlayer.play_load,
    "unload": RecordingPlayer.play_unload,
}


@contextmanager
def _reject_impossible(problem: str) -> Iterator[None]:
    """Raise BadRecording with the text `problem` if an import of recorded state fails in the block."""
    try:
        yield
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadRecording(problem) from error


def parse_timer_key(line: RecordingLine, group_id: str) -> GroupTimerKey:
    """Return the timer of a line. Raises BadRecording."""
    try:
        return _build_timer_key(line.fields["fire"], line.fields["member_id"], group_id)
    except (KeyError, AttributeError) as error:
        raise BadRecording(f"input {line.number}: the timer is unknown to this groupd") from error


def parse_armed_timer(encoded: Json, group_id: str) -> tuple[GroupTimerKey, int | None]:
    """Return a timer of an outcome with its deadline, which is None for a cancelled timer. Raises
    BadRecording."""
    try:
        kind, member_id, deadline_ms = encoded
        return _build_timer_key(kind, member_id, group_id), None if deadline_ms is None else int(deadline_ms)
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise BadRecording("the group has a timer that is unknown to this groupd") from error


def _build_timer_key(kind: str, member_id: str, group_id: str) -> GroupTimerKey:
    named = GroupTimerKind[kind.upper()]
    return GroupTimerKey(named, "" if named in _SHARD_TIMERS else group_id, member_id)


def _read_now(line: RecordingLine) -> Now:
    return Now(line.fields.get("mono_ms", 0), line.fields.get("wall_ms", 0))


def _read_group_now(line: RecordingLine) -> Now | None:
    return Now(*line.fields["group_ms"]) if "group_ms" in line.fields else None


def _build_config(kind: type[Any], config: Mapping[str, Any]) -> Any:
    try:
        return kind(
            **{
                name: tuple(value) if type(value := config[name.replace("_", ".")]) is list else value
                for name in kind.__struct_fields__
            }
        )
    except KeyError as error:
        raise BadRecording(f"its first line has no property {error}") from error
