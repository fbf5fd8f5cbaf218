"""Recordings of scenarios: members follow the commands, and the scenario moves the time."""

from msgspec import json

from coordinator.control.recording.group_recording import GroupRecording
from coordinator.control.recording.recorded_shard import RecordedShard
from coordinator.control.replay.recording_file import RecordingFile, read_recording
from tests.control.replay.recorder import BYTES, lines_of
from tests.scenarios.runner import Story


class RecordedStory(Story):
    """A scenario of tests/scenarios in which the group `g` is recorded."""

    recording: GroupRecording | None = None

    def begin(self) -> list[str]:
        lines = super().begin()
        self.recording = GroupRecording("g", self.shard, self.now(), BYTES)
        self.shard = RecordedShard(self.shard, self.recording)
        return lines

    def tell(self, *commands: str) -> RecordingFile:
        """The recording of these commands."""
        for command in commands:
            self.command(command)
        assert self.recording is not None
        return read_recording(lines_of(self.recording))


def two_members(*more: str) -> RecordingFile:
    """A and B join, B falls silent and is given up; then more."""
    return RecordedStory().tell(
        "config delay=3s",
        "join A", "join A", "join B", "join B", "advance 6s",
        "sync A A=orders:0 B=orders:1", "sync B", "commit A orders:0=7",
        *(["advance 4s", "heartbeat A"] * 4), "join A", "sync A A=orders:0,orders:1", *more,
    )  # fmt: skip


def as_lines(recorded: RecordingFile) -> list[bytes]:
    """The file that was read."""
    end = {"end": recorded.end, "inputs": recorded.inputs}
    return [
        json.encode(one) + b"\n" for one in (recorded.header, *(line.fields for line in recorded.lines), end)
    ]
