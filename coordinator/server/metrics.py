"""Counts of what happens, kept cheaply and read when somebody asks. Names of the exported ones: `console/metrics`.

Source: Kafka's `GroupCoordinatorMetrics`, for what is counted.
"""

from collections import Counter
from collections.abc import Iterable

from coordinator.group.events import (
    AssignmentReceived,
    Event,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsPending,
    RebalanceStarted,
)
from coordinator.server.authentication_counts import AuthenticationCounts
from coordinator.server.tallies import Tallies, tallied
from coordinator.topics.answer import TopicChange


class Metrics:
    """What the events of groups and topics add up to since the start."""

    __slots__ = (
        "authentications",
        "changes",
        "commits",
        "completed_rebalances",
        "deleted_offsets",
        "events",
        "expired_offsets",
        "notices",
        "rebalances",
        "tallies",
        "transactions",
        "violations",
    )

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        """Events of groups by class name."""
        self.rebalances: Counter[str] = Counter()
        """Rebalances by cause."""
        self.tallies: Tallies = Counter()
        """What befell groups and members."""
        self.changes: Counter[str] = Counter()
        """Changes of topics by class name."""
        self.transactions: Counter[str] = Counter()
        """Events of transactions by class name."""
        self.violations: Counter[str] = Counter()
        """Violations found by the oracles, by oracle."""
        self.notices: Counter[str] = Counter()
        """Notices of the oracles, by oracle."""
        self.authentications = AuthenticationCounts()
        """Who was let in by SASL, and who was not."""
        self.commits = 0
        self.completed_rebalances = 0
        self.expired_offsets = 0
        self.deleted_offsets = 0

    def copy(self) -> "Metrics":
        """The counts as they are now."""
        copied = Metrics()
        copied.events = self.events.copy()
        copied.rebalances = self.rebalances.copy()
        copied.tallies = self.tallies.copy()
        copied.changes = self.changes.copy()
        copied.transactions = self.transactions.copy()
        copied.violations = self.violations.copy()
        copied.notices = self.notices.copy()
        copied.authentications = self.authentications.copy()
        copied.commits = self.commits
        copied.completed_rebalances = self.completed_rebalances
        copied.expired_offsets = self.expired_offsets
        copied.deleted_offsets = self.deleted_offsets
        return copied

    def count_event(self, event: Event) -> None:
        """Adds what happened in a group."""
        if type(event) is OffsetsCommitted:  # nearly all are
            self.commits += event.partitions
            return
        match event:
            case RebalanceStarted():
                self.rebalances[str(event.trigger.cause)] += 1
            case AssignmentReceived():
                self.completed_rebalances += 1
            case OffsetsPending():
                self.commits += event.partitions
            case OffsetsExpired():
                self.expired_offsets += event.partitions
            case OffsetsDeleted():
                self.deleted_offsets += event.partitions
        self.events[type(event).__name__] += 1
        added = tallied(event)
        if added is not None:
            self.tallies[added[0]] += added[1]

    def count_changes(self, changes: Iterable[TopicChange]) -> None:
        """Adds what became of topics."""
        for change in changes:
            self.changes[type(change).__name__] += 1
