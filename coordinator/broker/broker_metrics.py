"""Counters of events of groups, topics and transactions, of oracle findings and of SASL authentications,
since the start; and the metrics of a cluster on etcd. Counting is cheap; exporters copy the counters when they are
scraped. `metric_collectors` has the exported names. Source: Kafka's `GroupCoordinatorMetrics`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from coordinator.core.outcome import MachineEvent
from coordinator.group.group_event_types import (
    AssignmentReceived,
    CommitRefused,
    ConsumerMemberFenced,
    EpochBumped,
    FenceCause,
    GroupEvent,
    MemberExpired,
    MembersEvicted,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsPending,
    RebalanceStarted,
)
from coordinator.network.request_routes import AuthenticationCounts
from coordinator.topics.data_plane_answer import TopicChange


class BrokerMetrics:
    """Counters of the events of groups, topics and transactions since the start."""

    __slots__ = (
        "authentications",
        "changes",
        "commits",
        "completed_rebalances",
        "deleted_offsets",
        "events",
        "expired_offsets",
        "group_counts",
        "notices",
        "rebalances",
        "transactions",
        "violations",
    )

    def __init__(self) -> None:
        self.events: Counter[type[GroupEvent]] = Counter()
        """Events of groups by class."""
        self.rebalances: Counter[str] = Counter()
        """Rebalances by cause."""
        self.group_counts: GroupCounts = Counter()
        """Rebalances, evictions, expiries and refused commits, by counter and label."""
        self.changes: Counter[type[TopicChange]] = Counter()
        """Changes of topics by class."""
        self.transactions: Counter[type[MachineEvent]] = Counter()
        """Events of transactions by class."""
        self.violations: Counter[str] = Counter()
        """Violations found by the oracles, by oracle."""
        self.notices: Counter[str] = Counter()
        """Notices of the oracles, by oracle."""
        self.authentications = AuthenticationCounts()
        """Successful and failed SASL authentications."""
        self.commits = 0
        self.completed_rebalances = 0
        self.expired_offsets = 0
        self.deleted_offsets = 0

    def copy(self) -> "BrokerMetrics":
        """Return a copy of the current counts."""
        copied = BrokerMetrics()
        copied.events = self.events.copy()
        copied.rebalances = self.rebalances.copy()
        copied.group_counts = self.group_counts.copy()
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

    def count_event(self, event: GroupEvent) -> None:
        """Count an event of a group."""
        if type(event) is OffsetsCommitted:  # nearly all events are commits
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
        self.events[type(event)] += 1
        added = find_increment(event)
        if added is not None:
            self.group_counts[added[0]] += added[1]

    def count_changes(self, changes: Iterable[TopicChange]) -> None:
        """Count changes of topics."""
        for change in changes:
            self.changes[type(change)] += 1


EVICTION_PHASES: Final = ("join", "sync", "revoke")
"""The step that an evicted member missed: rejoin, SyncGroup, or the revocation of partitions."""


class GroupCounter(StrEnum):
    """A counter of events of groups and members."""

    REBALANCES = "rebalances"
    """Started rebalances. For consumer groups it counts epoch bumps."""
    EVICTED = "evicted"
    """Evicted members, by phase."""
    EXPIRED = "expired"
    """Expired sessions of members."""
    COMMITS_REFUSED = "commits refused"
    """Refused requests, by Kafka's name of the error."""


GroupCounts: TypeAlias = Counter[tuple[GroupCounter, str]]
"""Counts by counter and label; "" for no label."""

_PHASES: Final = {
    FenceCause.NOT_REJOINED: "join",
    FenceCause.NOT_SYNCED: "sync",
    FenceCause.NOT_REVOKED: "revoke",
}

CountIncrement: TypeAlias = tuple[tuple[GroupCounter, str], int]
"""A counter with its label, and the number to add."""


def find_increment(event: GroupEvent) -> CountIncrement | None:
    """Return the increment for an event of a group; None if it counts nothing."""
    found = _INCREMENTS.get(type(event))
    return None if found is None else found(event)


def _count_expired(event: MemberExpired) -> CountIncrement:
    # A pending member never had a session.
    return (GroupCounter.EXPIRED, ""), int(not event.pending)


def _count_fenced(event: ConsumerMemberFenced) -> CountIncrement:
    phase = _PHASES.get(event.cause)
    if phase is not None:
        return (GroupCounter.EVICTED, phase), 1
    return (GroupCounter.EXPIRED, ""), int(event.cause is FenceCause.SESSION_EXPIRED)


_INCREMENTS: Final[dict[type[GroupEvent], Callable[[Any], CountIncrement]]] = {
    RebalanceStarted: lambda _: ((GroupCounter.REBALANCES, ""), 1),
    EpochBumped: lambda _: ((GroupCounter.REBALANCES, ""), 1),
    MembersEvicted: lambda event: ((GroupCounter.EVICTED, event.phase), len(event.members)),
    MemberExpired: _count_expired,
    ConsumerMemberFenced: _count_fenced,
    CommitRefused: lambda event: ((GroupCounter.COMMITS_REFUSED, event.error.name), 1),
}


class EtcdMetrics(NamedTuple):
    """Metrics of a cluster on etcd."""

    fenced: int
    """The number of appends that failed because another daemon owns the partition."""
    append_seconds: float
    """The median duration of the last transactions in seconds; NaN without any."""
    session_left_seconds: float
    """The time in seconds until this daemon's session ends if it is not renewed."""
    engine_bytes: int
    """The size of the partitions that this daemon owns, in the store, in bytes."""
    node_bytes: Mapping[str, int]
    """The database size in bytes by endpoint, for the nodes that answer."""
    quota_bytes: int
    """The maximum size of the database in bytes."""
    is_full: bool
    """Whether the store rejects writes for lack of space."""
