"""What all oracles need: a look at a group, a time for the next one, and work that nobody has to wait for."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.violation import OracleName
from coordinator.group.topics_image import TopicsImage
from coordinator.group.view import GroupView
from coordinator.machine.outcome import Now

SAMPLE_MS: Final = 1000
"""Looks at groups are taken together, once in that time."""


@dataclass(frozen=True, slots=True)
class OracleConfig:
    """The properties of the oracles."""

    oracle_orphan_ms: int
    oracle_stuck_ms: int
    oracle_commits: bool


class Watch(Protocol):
    """What is watched."""

    @property
    def config(self) -> OracleConfig:
        """The properties."""

    # What is

    def now_ms(self) -> int:
        """The process's monotonic time."""

    def group_now(self, group_id: str) -> Now:
        """What time it is for a group."""

    def view(self, group_id: str) -> GroupView | None:
        """A group as it is now; None when there is none, or it cannot be asked."""

    @property
    def topics(self) -> TopicsImage:
        """The topics now."""

    def log_end(self, topic: str, partition: int) -> int | None:
        """Where a partition ends; None while that is not known."""

    def open_connections(self) -> set[int]:
        """The numbers of the connections that are open, or were a moment ago."""

    # What was found

    def found(self, finding: Finding) -> None:
        """It is a violation."""

    def found_again(self, key: Hashable) -> bool:
        """Whether the same was found shortly before; then that lasts, and nothing more needs to be known of it."""

    # What comes later

    def look_in(self, oracle: OracleName, group_id: str, delay_ms: int) -> None:
        """Has a group looked at after so much real time, unless it is looked at earlier."""

    def look_no_more(self, oracle: OracleName, group_id: str) -> None:
        """Nothing is left to look at."""

    def judge(self, steps: Iterator[None]) -> None:
        """Has these steps taken as time permits."""
