"""What the oracles find in a recording: at which input, and what.

They look at what happened as they do in a daemon, in the time of the recording. Where topics end, and who is
connected, is in no recording: what needs that (`commit_beyond_end`, a member that is gone) is not found.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from coordinator.control.oracles.commits import WatchedShard
from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.rules import Rules
from coordinator.control.oracles.violation import OracleName
from coordinator.control.oracles.watch import OracleConfig
from coordinator.control.replay.player import Played, Player
from coordinator.control.replay.recorded import Recorded
from coordinator.group.topics_image import TopicsImage
from coordinator.group.view import GroupView
from coordinator.machine.outcome import Now

_MOST_LOOKS: Final = 3_600
"""Between two inputs: a look each second for an hour, longer than any session lasts."""


@dataclass(frozen=True, slots=True)
class Found:
    """A finding, and the input after which it was so: its number, and it."""

    number: int
    played: Played
    finding: Finding


def find(recorded: Recorded, oracle: OracleName, config: OracleConfig) -> list[Found]:
    """What an oracle has to say of a recording, in order. Raises BadRecording."""
    watch = _Watch(config)
    player = watch.player = Player(
        recorded, partial(WatchedShard, lambda commit: watch.rules.committed(commit))
    )
    found: list[Found] = []
    for line in recorded.lines:
        if line.at is not None:
            watch.look_until(line.at)
        played = player.play(line)
        watch.now = played.now
        for event in () if played.outcome is None else played.outcome.events:
            if event.group_id == recorded.group_id:
                watch.rules.happened(event)
        watch.look_until(watch.now.monotonic_ms)
        found += [Found(line.number, played, one) for one in watch.findings if one.oracle is oracle]
        watch.findings.clear()
    return found


class _Watch:
    """A `Watch` in the time of a recording."""

    player: Player

    def __init__(self, config: OracleConfig) -> None:
        self.config = config
        self.findings: list[Finding] = []
        self.now = Now(0, 0)
        self._keys: set[Hashable] = set()
        self._due: dict[tuple[OracleName, str], int] = {}
        self.rules = Rules(self)

    def look_until(self, at_ms: int) -> None:
        """Take the looks that are due by then, each at its time.

        Nothing happens to the group meanwhile. After `_MOST_LOOKS` the remaining looks are taken at the end, so
        that the work does not grow with the time between two inputs.
        """
        looks = 0
        while due := [(due_ms, key) for key, due_ms in self._due.items() if due_ms <= at_ms]:
            due_ms, (oracle, group_id) = min(due)
            looks += 1
            if looks > _MOST_LOOKS:
                due_ms = at_ms
            del self._due[oracle, group_id]
            ahead_ms = max(0, due_ms - self.now.monotonic_ms)
            self.now = Now(self.now.monotonic_ms + ahead_ms, self.now.wall_ms + ahead_ms)
            self.rules.look(oracle, group_id)

    # As `Watch` has it

    @property
    def topics(self) -> TopicsImage:
        return self.player.shard.topics

    def now_ms(self) -> int:
        return self.now.monotonic_ms

    def group_now(self, group_id: str) -> Now:
        return self.now

    def view(self, group_id: str) -> GroupView | None:
        return self.player.shard.view(group_id, self.now)

    def log_end(self, topic: str, partition: int) -> int | None:
        return None

    def open_connections(self) -> set[int]:
        return set()

    def found(self, finding: Finding) -> None:
        if finding.key not in self._keys:
            self._keys.add(finding.key)
            self.findings.append(finding)

    def found_again(self, key: Hashable) -> bool:
        return key in self._keys

    def look_in(self, oracle: OracleName, group_id: str, delay_ms: int) -> None:
        due_ms = self.now_ms() + max(1, delay_ms)
        self._due[oracle, group_id] = min(due_ms, self._due.get((oracle, group_id), due_ms))

    def look_no_more(self, oracle: OracleName, group_id: str) -> None:
        self._due.pop((oracle, group_id), None)

    def judge(self, steps: Iterator[None]) -> None:
        for _ in steps:
            pass
