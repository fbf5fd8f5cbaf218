"""The recording of one group: a header, a line for each input, and a line that says why it ends.

What comes in is written down before the core has it, and what came out before anybody else has that: values that
change later are as they were. Heartbeats from which nothing but their answer follows change nothing for each other;
those between two other inputs are one line for each sender, with the times at which they came.
"""

import logging
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from msgspec import json

from coordinator import __version__
from coordinator.control.recording.cut import cut, cut_durable, groups_of, is_empty, works_of
from coordinator.control.recording.forms import Json, Writer
from coordinator.control.recording.inputs import outcome_form, works_about
from coordinator.control.recording.kept_lines import KeptLines
from coordinator.group.shard import Shard
from coordinator.group.timer_key import TimerKey
from coordinator.machine.outcome import Context, Now, Outcome, Work, WorkDone
from coordinator.net.peer import printable

_LOG: Final = logging.getLogger("Control")

FORMAT: Final = 1
MOST_BEATS: Final = 1000
"""Heartbeats in one line."""
_END_BYTES: Final = 512
"""Kept for the last line."""
_BEFORE: Final = 0
"""The number of what came before the first input."""


class Recording:
    """See the top of this file. `ended` says why it has ended, "" while it goes on."""

    def __init__(self, group_id: str, shard: Shard, now: Now, most_bytes: int) -> None:
        """In: the shard of the group between two inputs; the time. ValueError when the group alone, as it is, takes
        more than `most_bytes`."""
        self.group_id = group_id
        self.started_ms = now.wall_ms
        self.inputs = 0
        self.ended = ""
        self._lines = KeptLines(most_bytes)
        self._works: dict[int, tuple[int, int, Work]] = {}
        """What is being done somewhere else: which input it came of, and which of its works it is."""
        self._beats: dict[bytes, tuple[dict[str, Json], list[int]]] = {}
        self._beat_count = 0
        header = self._header(shard, now)
        self.starts_empty: bool = header["start"] == "empty"
        line = json.encode(header) + b"\n"
        if not self._lines.takes(len(line) + _END_BYTES):
            raise ValueError(
                f"the group as it is takes {len(line)} bytes, more than the {most_bytes} allowed"
            )
        self._lines.add(line)

    def _header(self, shard: Shard, now: Now) -> dict[str, Json]:
        groups, writer = groups_of(shard), Writer()
        whole = cut(shard, self.group_id)
        self._began(_BEFORE, works_of(whole.soft))
        config = asdict(groups.config) | asdict(groups.consumer_config)
        return {
            "format": FORMAT,
            "groupd": __version__,
            "group_id": self.group_id,
            "mono_ms": now.monotonic_ms,
            "wall_ms": now.wall_ms,
            "config": {name.replace("_", "."): value for name, value in config.items()},
            **_topics_form(shard, writer),
            "start": "empty" if is_empty(shard, self.group_id) else writer.form(whole),
        }

    @property
    def size_bytes(self) -> int:
        """How large it is."""
        return self._lines.bytes

    @property
    def most_bytes(self) -> int:
        """How large it may become."""
        return self._lines.most_bytes

    def pieces(self) -> Iterator[bytes]:
        """The file as it is now."""
        self._end_beats()
        if self.ended:
            return self._lines.pieces()
        return _with_end(self._lines.pieces(), self._end_line("it goes on"))

    # Inputs

    def request(self, request: Any, context: Context, now: Now) -> dict[str, Json]:
        """The line of a request that is about to be put to the core."""
        line = self._line(now)
        line["request"] = type(request).__name__
        writer = Writer()
        if isinstance(request, WorkDone):
            number, place, _ = self._works.pop(id(request.work.argument), (None, None, None))
            line |= {"work": [number, place], "result": writer.form(request.result), "error": request.error}
        else:
            line |= {"context": writer.form(context), "body": writer.form(request)}
        return line

    def fire(self, key: TimerKey, now: Now, group_now: Now | None) -> dict[str, Json]:
        """The line of a timer. In: the time of the group, where it has its own."""
        line = self._line(now) | {"fire": key.kind.name.lower(), "member_id": key.member_id}
        return line if group_now is None else line | {"group_ms": list(group_now)}

    def load(self, shard: Shard, now: Now, group_now: Now | None) -> dict[str, Json]:
        """The line of a load: what the log says of the group, and what else the shard begins with."""
        self._works.clear()
        writer = Writer()
        line = self._line(now) | {
            "load": writer.form(cut_durable(shard, self.group_id)),
            "overrides": writer.form(groups_of(shard).overrides.get(self.group_id)),
            **_topics_form(shard, writer),
        }
        return line if group_now is None else line | {"group_ms": list(group_now)}

    def unload(self) -> dict[str, Json]:
        """The line of the end of a shard."""
        self._end_beats()
        return {"n": self.inputs + 1, "unload": True}

    def beat(self, request: Any, context: Context, monotonic_ms: int, response: object) -> None:
        """A heartbeat was answered, and nothing else."""
        writer = Writer()
        line = {
            "beat": type(request).__name__,
            "context": writer.form(context),
            "body": writer.form(request),
            "reply": writer.form(response),
        }
        self._beats.setdefault(json.encode(line), (line, []))[1].append(monotonic_ms)
        self._beat_count += 1
        if self._beat_count >= MOST_BEATS:
            self._end_beats()

    # What came of them

    def came(self, line: dict[str, Json], outcome: Outcome, request: object = None) -> None:
        """Writes a line, with what came of it."""
        works = works_about(outcome.work, self.group_id)
        self._began(self.inputs + 1, works)
        self._add(line | {"out": outcome_form(outcome, request, self.group_id, Writer())})

    def raised(self, line: dict[str, Json], problem: Exception) -> None:
        """Writes a line, with the error that left the core."""
        self._add(line | {"raised": f"{type(problem).__name__}: {problem}"})

    def end(self, why: str) -> None:
        """Nothing more is written."""
        if not self.ended:
            self._lines.add(self._end_line(why))
            self.ended = why
            _LOG.info("The recording of group %s ends: %s", printable(self.group_id), why)

    def _line(self, now: Now) -> dict[str, Json]:
        self._end_beats()
        return {"n": self.inputs + 1, "mono_ms": now.monotonic_ms, "wall_ms": now.wall_ms}

    def _began(self, number: int, works: list[Work]) -> None:
        self._works.update({id(work.argument): (number, place, work) for place, work in enumerate(works)})

    def _end_beats(self) -> None:
        beats, self._beats, self._beat_count = self._beats, {}, 0
        for line, at in beats.values():
            self._add({"n": self.inputs + 1, **line, "at": at}, len(at))

    def _add(self, line: dict[str, Json], inputs: int = 1) -> None:
        data = json.encode(line) + b"\n"
        if self.ended:
            return
        if not self._lines.takes(len(data) + _END_BYTES):
            self.end(f"it has as many bytes as it may have, {self.most_bytes}")
            return
        self.inputs += inputs
        self._lines.add(data)

    def _end_line(self, why: str) -> bytes:
        return json.encode({"end": why, "inputs": self.inputs}) + b"\n"


def _topics_form(shard: Shard, writer: Writer) -> dict[str, Json]:
    groups = groups_of(shard)
    return {"topics": writer.form(groups.topics), "new_topics_version": groups.new_topics_version}


def _with_end(pieces: Iterator[bytes], end: bytes) -> Iterator[bytes]:
    yield from pieces
    yield end
