"""A snapshot of a group at one moment, with all data for conditions and explanations, and the source of
snapshots.

Derived values are computed once, at first use, because many callers evaluate the same snapshot. The source
reads groups, partitions, topics, connections and the ledger, and explains why a group cannot be read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from coordinator.broker.services import Services
from coordinator.control.consumer_protocol_payloads import (
    SubscriptionReader,
    read_member_partitions,
)
from coordinator.control.diagnosis.group_history import GroupHistories, GroupHistory
from coordinator.control.diagnosis.member_labels import MemberLabels, format_name, matches_reference
from coordinator.control.group_client import describe_remote_coordinator
from coordinator.control.group_removals import GroupRemoval, GroupRemovals
from coordinator.control.ledger.ledger_entry import LedgerEntry
from coordinator.control.member_connections import MemberConnections
from coordinator.core.outcome import Now
from coordinator.group.classic.classic_state_machine import EMPTY, STABLE
from coordinator.group.event_details import AwaitedMember, MemberName
from coordinator.group.group_shard import GroupShard
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import GroupView, MemberView
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.consumer_protocol import PROTOCOL_TYPE

T = TypeVar("T")
Partitions = Mapping[str, Sequence[int]]
Offsets = Mapping[tuple[str, int], int]

NO_GROUP_STATE: Final = "Dead"
"""The state that DescribeGroups returns for a group that does not exist."""


class ConnectionState(Struct, frozen=True):
    """The connection of a member, as far as groupd knows. `closed_ms_ago` is None for an open connection, and for a
    closed one without a known time. `is_heard`: the member has sent a request since its group was loaded."""

    is_connected: bool
    closed_ms_ago: int | None
    is_heard: bool = True


class LogEnds(Struct, frozen=True):
    """The log start offset of a partition, and the end offset for consumers."""

    start: int
    end: int


class Lag(NamedTuple):
    """The lag of a partition, None while the partition is offline. Without a commit it counts from the log start
    offset."""

    lag: int | None
    has_commit: bool


class ClusterView(Protocol):
    """The topics, connections, rebalances and names that a snapshot reads."""

    def count_partitions(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None for an unknown topic."""

    def find_log_ends(self, topic: str, partition: int) -> LogEnds | None:
        """Return the log ends of a partition; None while it is offline."""

    def find_connections(self, view: GroupView) -> Mapping[str, ConnectionState]:
        """Return the connections of the members of a group, by member id."""

    def list_rebalances(self, group_id: str, after: int) -> Sequence[LedgerEntry]:
        """Return the ledger entries of a group that were closed after an event number.

        They are entries that ended Stable or Empty, each preceded by the entries that it replaced.
        """

    def find_removal(self, group_id: str) -> GroupRemoval | None:
        """Return the last removal of a group, even if the group exists again."""

    def find_similar_groups(self, group_id: str) -> list[str]:
        """Return names of groups that are similar to a name."""

    def find_similar_topics(self, topic: str) -> list[str]:
        """Return names of topics that are similar to a name."""


@dataclass(eq=False)
class GroupSnapshot:
    """A group at one moment."""

    group_id: str
    view: GroupView | None
    """None if the group does not exist or is unavailable."""
    unavailable: str | None
    """The reason why the group is unavailable."""
    now: Now
    seq: int
    """The number of the last event."""
    history: GroupHistory
    cluster: ClusterView
    offsets: Offsets | None
    """The durable committed offsets, or None if no caller needs them."""
    _rebalances: dict[int, Sequence[LedgerEntry]] = field(default_factory=dict, init=False)
    _miscounted: dict[str, tuple[Sequence[int], Sequence[int]]] = field(default_factory=dict, init=False)
    _lags: dict[str, Sequence[Lag]] = field(default_factory=dict, init=False)
    _computed: dict[Callable[["GroupSnapshot"], Any], Any] = field(default_factory=dict, init=False)

    def compute_once(self, work: Callable[["GroupSnapshot"], T]) -> T:
        """Return the result of `work`, computed once per snapshot: many waits that fail together share the
        result."""
        if work not in self._computed:
            self._computed[work] = work(self)
        result: T = self._computed[work]
        return result

    @property
    def name(self) -> str:
        """Return the printable name of the group."""
        return format_name(self.group_id)

    @property
    def state(self) -> str | None:
        """The state of the group; None while the group is unavailable."""
        if self.unavailable is not None:
            return None
        return NO_GROUP_STATE if self.view is None else self.view.state

    @property
    def removal(self) -> GroupRemoval | None:
        """The removal of a group that does not exist any more."""
        is_absent = self.view is None and self.unavailable is None
        return self.cluster.find_removal(self.group_id) if is_absent else None

    @property
    def is_stable(self) -> bool:
        """Whether the current assignment is complete (Stable)."""
        return self.view is not None and self.view.state == STABLE.value

    @property
    def is_settled(self) -> bool:
        """Whether the group is Stable and all members have fetched their assignment."""
        return self.is_stable and self.view is not None and self.view.rebalance is None

    @cached_property
    def all_members(self) -> tuple[MemberView, ...]:
        """Return the members, also those with a pending first JoinGroup, oldest first."""
        return () if self.view is None else self.view.members

    @cached_property
    def members(self) -> tuple[MemberView, ...]:
        """Return the members that are in a generation or were in one."""
        return tuple([member for member in self.all_members if not member.is_new])

    @cached_property
    def newcomers(self) -> tuple[MemberView, ...]:
        """Return the members that have not completed a join phase."""
        return tuple([member for member in self.all_members if member.is_new])

    @cached_property
    def by_id(self) -> dict[str, MemberView]:
        """All members, by member id."""
        return {member.name.member_id: member for member in self.all_members}

    @cached_property
    def latest_of_connection(self) -> dict[tuple[int, str], MemberView]:
        """Return the last member that joined over each connection, by connection number and client id."""
        return {(member.connection_id, member.name.client_id): member for member in self.all_members}

    @cached_property
    def awaited(self) -> tuple[AwaitedMember, ...]:
        """Return the members that the group waits for."""
        return () if self.view is None or self.view.rebalance is None else self.view.rebalance.awaited

    @cached_property
    def labels(self) -> MemberLabels:
        """Return the display names of the members."""
        pending: Sequence[MemberName] = []
        if self.view is not None:
            pending = [one.name for one in self.view.pending]
        return MemberLabels([*(member.name for member in self.all_members), *pending])

    @cached_property
    def connections(self) -> Mapping[str, ConnectionState]:
        """The connections of the members, by member id."""
        return {} if self.view is None else self.cluster.find_connections(self.view)

    def find_members(self, reference: str) -> list[MemberView]:
        """Return the members that match a reference, newcomers included."""
        return [member for member in self.all_members if matches_reference(member.name, reference)]

    def list_rebalances(self, after: int) -> Sequence[LedgerEntry]:
        """Return the rebalances that ended after an event number, oldest first."""
        found = self._rebalances.get(after)
        if found is None:
            found = self._rebalances[after] = self.cluster.list_rebalances(self.group_id, after)
        return found

    # Time

    @property
    def quiet_ms(self) -> int | None:
        """The milliseconds since the last rebalance in group time, or None during a rebalance.

        Without that time in the log of the group the value is the Unix time of the group's clock, which exceeds
        any wanted duration.
        """
        view = self.view
        if view is None or view.rebalance is not None or view.state not in (STABLE.value, EMPTY.value):
            return None
        if self.history.changed_ms is not None and view.type is GroupType.CONSUMER:
            return max(0, self.now.monotonic_ms - self.history.changed_ms)
        return (
            self.now.wall_ms
            if view.state_since_ms is None
            else max(0, self.now.wall_ms - view.state_since_ms)
        )

    # Topics

    @cached_property
    def are_consumers(self) -> bool:
        """Whether the members use the consumer protocol, so that subscriptions and assignments can be read."""
        return self.view is not None and self.view.protocol_type == PROTOCOL_TYPE

    @cached_property
    def subscriptions(self) -> dict[str, frozenset[str]]:
        """Return the subscriptions that can be decoded, by member id."""
        found: dict[str, frozenset[str]] = {}
        if not self.are_consumers:
            return found
        reader = SubscriptionReader()
        for member in self.all_members:
            topics = reader.read_topics(member)
            if topics is not None:
                found[member.name.member_id] = topics
        return found

    @cached_property
    def subscribed(self) -> frozenset[str]:
        """Return the topics that any member subscribes to."""
        return frozenset().union(*self.subscriptions.values())

    @cached_property
    def assignments(self) -> dict[str, Partitions]:
        """Return the assignments that can be decoded, by member id."""
        found: dict[str, Partitions] = {}
        if self.are_consumers:
            for member in self.all_members:
                partitions = read_member_partitions(member)
                if partitions is not None:
                    found[member.name.member_id] = partitions
        return found

    @property
    def are_assignments_read(self) -> bool:
        """Whether the assigned partitions of every member are known."""
        return len(self.assignments) == len(self.all_members)

    @cached_property
    def owners(self) -> dict[tuple[str, int], list[MemberView]]:
        """Return the owners of each partition in the current assignment, or else in the last one."""
        found: dict[tuple[str, int], list[MemberView]] = {}
        for member_id, topics in self.assignments.items():
            for topic, partitions in topics.items():
                for partition in partitions:
                    found.setdefault((topic, partition), []).append(self.by_id[member_id])
        return found

    def find_unowned(self, topic: str) -> Sequence[int]:
        """Return the current partitions of a topic that have no owner."""
        return self._find_miscounted(topic)[0]

    def find_owned_twice(self, topic: str) -> Sequence[int]:
        """Return the partitions of a topic that have several owners."""
        return self._find_miscounted(topic)[1]

    def _find_miscounted(self, topic: str) -> tuple[Sequence[int], Sequence[int]]:
        found = self._miscounted.get(topic)
        if found is None:
            counts = [
                len(self.owners.get((topic, number), ())) for number in range(self._count_partitions(topic))
            ]
            none = [number for number, count in enumerate(counts) if not count]
            found = self._miscounted[topic] = (
                none,
                [number for number, count in enumerate(counts) if count > 1],
            )
        return found

    def _count_partitions(self, topic: str) -> int:
        return self.cluster.count_partitions(topic) or 0

    # Offsets

    def compute_lags(self, topic: str) -> Sequence[Lag]:
        """Return the present lag of each partition of a topic."""
        found = self._lags.get(topic)
        if found is None:
            numbers = range(self._count_partitions(topic))
            found = self._lags[topic] = [self._compute_lag(topic, number) for number in numbers]
        return found

    def _compute_lag(self, topic: str, number: int) -> Lag:
        ends, offset = self.cluster.find_log_ends(topic, number), (self.offsets or {}).get((topic, number))
        if ends is None:
            return Lag(None, offset is not None)
        return Lag(max(0, ends.end - (ends.start if offset is None else offset)), offset is not None)


_MAX_COMPARED: Final = 200
"""The maximum number of names that a search for similar names compares."""
_MAX_ENTRIES: Final = 1_000
_STATE_TEXTS: Final[Mapping[PartitionState, str]] = {
    PartitionState.ABSENT: "is not on this broker: it was released, or is not claimed yet",
    PartitionState.LOADING: "is being loaded",
    PartitionState.FAILED: "could not be read and is out of service; the daemon's log has the reason",
}


class RebalanceSource(Protocol):
    """The part of the ledger that a snapshot reads."""

    listeners: list[Callable[[LedgerEntry], None]]
    """Called with each entry that the ledger has just closed."""

    def list_entries(
        self, group_id: str | None = None, after: int = -1, limit: int = 100
    ) -> list[LedgerEntry]:
        """Return the entries with a greater number, oldest first, open ones at the end."""


class SnapshotSource:
    """Takes snapshots of groups."""

    def __init__(
        self,
        services: Services,
        connections: MemberConnections,
        group_now: Callable[[str], Now],
        removals: GroupRemovals,
        ledger: RebalanceSource | None,
    ) -> None:
        """Create a source. `group_now` returns the time of a group; `ledger` is None without a ledger."""
        self.histories = GroupHistories()
        self.has_ledger = ledger is not None
        self._services = services
        self._connections = connections
        self._group_now = group_now
        self._removals = removals
        self._ledger = ledger

    def take_snapshot(self, group_id: str, offsets: Offsets | None = None) -> GroupSnapshot:
        """Take a snapshot of a group now."""
        partition = self._services.runtime.find_partition(group_id)
        now = self._group_now(group_id)
        machine = partition.machine
        return GroupSnapshot(
            group_id,
            None if machine is None else machine.view_group(group_id, now),
            self._explain_unavailable(group_id, partition) if machine is None else None,
            now,
            self.histories.last_seq,
            self.histories.find_history(group_id),
            self,
            offsets,
        )

    def _explain_unavailable(self, group_id: str, partition: CoordinatorPartition[GroupShard]) -> str:
        remote = describe_remote_coordinator(self._services.membership.ownership, partition.name)
        if remote is not None:
            return (
                f"The state of {format_name(group_id)} is unknown: its partition {partition.name} {remote}."
            )
        state_text = _STATE_TEXTS.get(partition.state, f"is {partition.state.value}")
        loading = f"Loading {partition.name}"
        if partition.state is PartitionState.LOADING and loading in self._services.disk_failures:
            reason = self._services.disk_failures.find_reason(loading)
            state_text = f"cannot be read now ({reason}), and is tried again"
        return (
            f"The state of {format_name(group_id)} is unknown: its partition {partition.name} {state_text}."
        )

    # `ClusterView`

    def count_partitions(self, topic: str) -> int | None:
        found = self._services.data_plane.catalogue.find_topic(topic)
        return None if found is None else len(found.partitions)

    def find_log_ends(self, topic: str, partition: int) -> LogEnds | None:
        found = self._services.data_plane.find_local_partition(topic, partition)
        if found is None or found.log is None:
            return None
        return LogEnds(found.log.log_start_offset, found.high_watermark)

    def find_connections(self, view: GroupView) -> Mapping[str, ConnectionState]:
        connections = self._connections.take_snapshot(view)
        return {
            member.name.member_id: ConnectionState(
                connections.is_connected(member),
                connections.closed_ms_ago(member),
                bool(member.connection_id),
            )
            for member in view.members
        }

    def list_rebalances(self, group_id: str, after: int) -> Sequence[LedgerEntry]:
        found: list[LedgerEntry] = []
        broken_off: list[LedgerEntry] = []
        while self._ledger is not None:
            entries = self._ledger.list_entries(group_id, after, _MAX_ENTRIES)
            for entry in entries:
                if entry.result in ("stable", "empty"):
                    found += [*broken_off, entry]
                    broken_off = []
                elif entry.result in ("failed", "overtaken"):
                    broken_off.append(entry)
            if len(entries) < _MAX_ENTRIES or entries[-1].result == "open":
                break
            after = entries[-1].seq
        return found

    def find_removal(self, group_id: str) -> GroupRemoval | None:
        return self._removals.find(group_id)

    def find_similar_groups(self, group_id: str) -> list[str]:
        known: list[str] = []
        for partition in self._services.runtime.partitions:
            if partition.machine is not None and len(known) < _MAX_COMPARED:
                known += partition.machine.list_group_ids()[: _MAX_COMPARED - len(known)]
        return get_close_matches(group_id[:100], [one[:100] for one in known], n=3)

    def find_similar_topics(self, topic: str) -> list[str]:
        topics = (one.name for one in self._services.data_plane.catalogue if not one.is_internal)
        return get_close_matches(topic, list(islice(topics, _MAX_COMPARED)), n=3)
