"""The interface of an oracle, and of the context that gives it data, timers and background work.

An oracle handles events of some classes and may schedule a later check of a group. A long check runs in the
background with checkpoints, so that no request waits for it.
"""

from collections.abc import Callable, Coroutine, Hashable, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from coordinator.control.diagnosis.violation import OracleFinding, OracleName, Severity
from coordinator.core.outcome import Now
from coordinator.core.time_budget import Budget
from coordinator.group.event_details import MemberName
from coordinator.group.group_event_types import GroupEvent
from coordinator.group.group_view import GroupView
from coordinator.group.member_text import format_member as format_printable
from coordinator.group.member_text import format_member_address, printable_name
from coordinator.group.topics_image import TopicsImage

EventHandler = Callable[[Any], None]
LongCheck = Callable[[Budget], Coroutine[Any, Any, None]]
"""A check that awaits checkpoints of the budget. It holds immutable values, or looks them up again."""


class Oracle(Protocol):
    """A rule that groupd checks continuously."""

    @property
    def name(self) -> OracleName:
        """The name of the oracle."""

    @property
    def severities(self) -> frozenset[Severity]:
        """The severities that its findings can have. `docs/control.md` has the reasons."""

    @property
    def handlers(self) -> Mapping[type[GroupEvent], EventHandler]:
        """Return the handlers of events, by class of event."""

    def check_group(self, group_id: str) -> None:
        """Check a group at a time that was scheduled by `OracleContext.schedule_check`."""


CHECK_PERIOD_MS: Final = 1000
"""The period of scheduled checks in milliseconds. Checks within one period run together."""


class OracleConfig(Struct, frozen=True):
    """The configuration properties of the oracles."""

    oracle_orphan_ms: int
    oracle_stuck_ms: int
    oracle_commits: bool


class OracleContext(Protocol):
    """The data, timers and reports of the oracles."""

    @property
    def config(self) -> OracleConfig:
        """The configuration properties of the oracles."""

    # Data

    def now_ms(self) -> int:
        """Return the monotonic time of the process in milliseconds."""

    def group_now(self, group_id: str) -> Now:
        """Return the present time of a group."""

    def find_group(self, group_id: str) -> GroupView | None:
        """Return a group, or None if it does not exist or is unavailable."""

    @property
    def topics(self) -> TopicsImage:
        """Return the current image of the topics."""

    def find_log_end(self, topic: str, partition: int) -> int | None:
        """Return the end of a partition; None while it is unknown."""

    def find_open_connections(self) -> set[int]:
        """Return the numbers of the connections that are open, or were open up to a second ago."""

    # Findings

    def report_finding(self, finding: OracleFinding) -> None:
        """Report a violation or a notice."""

    def report_repeated(self, key: Hashable) -> bool:
        """Record a repetition of a recent finding with this key, and return whether there is one. If so, the
        oracle can stop: it needs no further data."""

    # Checks

    def schedule_check(self, oracle: OracleName, group_id: str, delay_ms: int) -> None:
        """Schedule a check of a group in `delay_ms` of real time, unless an earlier check is scheduled."""

    def cancel_check(self, oracle: OracleName, group_id: str) -> None:
        """Cancel the scheduled check of a group."""

    def run_long_check(self, check: LongCheck) -> None:
        """Run a check in the background, after earlier checks."""


def format_member(name: MemberName) -> str:
    """Return the short name of a member, such as `alice-1c2d3e4f`."""
    return format_printable(printable_name(name))


def format_member_at(name: MemberName) -> str:
    """Return the short name and host of a member, such as `alice-1c2d3e4f at 127.0.0.1`."""
    return format_member_address(printable_name(name))
