"""A group at one moment, with everything that a condition or a sentence about it may need. What has to be worked
out is worked out once, when it is first asked for: many look at the same moment.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from coordinator.control.group_removals import GroupRemoval
from coordinator.control.ledger.entry import LedgerEntry
from coordinator.control.member_bytes import partitions_of, topics_of, wanted_topics
from coordinator.control.waits.labels import Labels, goes_by, named
from coordinator.control.waits.recollection import Remembered
from coordinator.group.group_type import GroupType
from coordinator.group.member_name import MemberName
from coordinator.group.rebalance_facts import Awaited
from coordinator.group.state import EMPTY, STABLE
from coordinator.group.view import GroupView, MemberView
from coordinator.machine.outcome import Now
from protocol.consumer_protocol import PROTOCOL_TYPE

T = TypeVar("T")
Partitions = Mapping[str, Sequence[int]]
Offsets = Mapping[tuple[str, int], int]

NO_GROUP_STATE: Final = "Dead"
"""What DescribeGroups says of a group that does not exist."""


class Reach(Struct, frozen=True):
    """The connection of a member, as far as groupd knows. `closed_ms_ago` is None for an open connection, and for a
    closed one without a known time. `is_heard`: the member has sent a request since its group was loaded."""

    is_connected: bool
    closed_ms_ago: int | None
    is_heard: bool = True


class LogEnds(Struct, frozen=True):
    """Where the records of a partition begin, and where they end for consumers."""

    start: int
    end: int


class Lag(NamedTuple):
    """How far a partition is behind its end, None while it is offline; without a commit, from its log start."""

    lag: int | None
    has_commit: bool


class Surroundings(Protocol):
    """What a group lies in."""

    def partitions_of(self, topic: str) -> int | None:
        """How many a topic has; None where there is no such topic."""

    def ends_of(self, topic: str, partition: int) -> LogEnds | None:
        """Of a partition; None while it is offline."""

    def reach(self, view: GroupView) -> Mapping[str, Reach]:
        """The connections of the members of a group, by member id."""

    def rebalances(self, group_id: str, after: int) -> Sequence[LedgerEntry]:
        """The entries of the ledger for a group that were closed after the event of a number: those that ended
        Stable or Empty, and before each of them those that were broken off on the way to it."""

    def removal(self, group_id: str) -> GroupRemoval | None:
        """The last removal of a group, which may have been created anew since."""

    def similar_groups(self, group_id: str) -> list[str]:
        """Names of groups that are like one."""

    def similar_topics(self, topic: str) -> list[str]:
        """Names of topics that are like one."""


class GroupSight:
    """See the top of this file. `view` is None where there is no such group, and where nothing can be seen of it:
    then `unavailable` says why. `offsets` are the committed ones, as durable, None where nobody asked for them."""

    def __init__(
        self,
        group_id: str,
        view: GroupView | None,
        unavailable: str | None,
        now: Now,
        seq: int,
        remembered: Remembered,
        around: Surroundings,
        offsets: Offsets | None,
    ) -> None:
        self.group_id = group_id
        self.view = view
        self.unavailable = unavailable
        self.now = now
        self.seq = seq
        self.remembered = remembered
        self.around = around
        self.offsets = offsets
        self._rebalances: dict[int, Sequence[LedgerEntry]] = {}
        self._unshared: dict[str, tuple[Sequence[int], Sequence[int]]] = {}
        self._lags: dict[str, Sequence[Lag]] = {}
        self._made: dict[Callable[[GroupSight], Any], Any] = {}

    def once(self, work: Callable[["GroupSight"], T]) -> T:
        """What somebody makes of this moment, which is made once: waits that began together fail together."""
        if work not in self._made:
            self._made[work] = work(self)
        made: T = self._made[work]
        return made

    @property
    def name(self) -> str:
        """The group's, printable."""
        return named(self.group_id)

    @property
    def state(self) -> str | None:
        """None where nothing can be seen."""
        if self.unavailable is not None:
            return None
        return NO_GROUP_STATE if self.view is None else self.view.state

    @property
    def removal(self) -> GroupRemoval | None:
        """The removal of a group that existed and does not exist any more."""
        is_absent = self.view is None and self.unavailable is None
        return self.around.removal(self.group_id) if is_absent else None

    @property
    def is_stable(self) -> bool:
        """Whether there is an assignment that holds."""
        return self.view is not None and self.view.state == STABLE.value

    @property
    def is_settled(self) -> bool:
        """Whether it holds, and all have fetched it."""
        return self.is_stable and self.view is not None and self.view.rebalance is None

    @cached_property
    def all_members(self) -> tuple[MemberView, ...]:
        """Those whose first JoinGroup is parked included, oldest first."""
        return () if self.view is None else self.view.members

    @cached_property
    def members(self) -> tuple[MemberView, ...]:
        """Those that are in a generation, or have been."""
        return tuple([member for member in self.all_members if not member.is_new])

    @cached_property
    def newcomers(self) -> tuple[MemberView, ...]:
        """Those that have not been through a join phase."""
        return tuple([member for member in self.all_members if member.is_new])

    @cached_property
    def by_id(self) -> dict[str, MemberView]:
        """All members."""
        return {member.name.member_id: member for member in self.all_members}

    @cached_property
    def latest_of_connection(self) -> dict[tuple[int, str], MemberView]:
        """Who joined last over each connection, by its number and the client id."""
        return {(member.connection_id, member.name.client_id): member for member in self.all_members}

    @cached_property
    def awaited(self) -> tuple[Awaited, ...]:
        """Whom the group waits for."""
        return () if self.view is None or self.view.rebalance is None else self.view.rebalance.awaited

    @cached_property
    def labels(self) -> Labels:
        """What its members are called."""
        pending: Sequence[MemberName] = []
        if self.view is not None:
            pending = [one.name for one in self.view.pending]
        return Labels([*(member.name for member in self.all_members), *pending])

    @cached_property
    def reach(self) -> Mapping[str, Reach]:
        """The connections of its members, by member id."""
        return {} if self.view is None else self.around.reach(self.view)

    def fitting(self, reference: str) -> list[MemberView]:
        """The members that a reference is about, newcomers among them."""
        return [member for member in self.all_members if goes_by(member.name, reference)]

    def rebalances(self, after: int) -> Sequence[LedgerEntry]:
        """Those that came to an end after the event of a number, oldest first."""
        found = self._rebalances.get(after)
        if found is None:
            found = self._rebalances[after] = self.around.rebalances(self.group_id, after)
        return found

    # Time

    @property
    def quiet_ms(self) -> int | None:
        """How long there has been no rebalance, in group time; None while there is one. A group whose log does not
        say has always been quiet."""
        view = self.view
        if view is None or view.rebalance is not None or view.state not in (STABLE.value, EMPTY.value):
            return None
        if self.remembered.changed_ms is not None and view.type is GroupType.CONSUMER:
            return max(0, self.now.monotonic_ms - self.remembered.changed_ms)
        return (
            self.now.wall_ms
            if view.state_since_ms is None
            else max(0, self.now.wall_ms - view.state_since_ms)
        )

    # Topics

    @cached_property
    def are_consumers(self) -> bool:
        """Whether its members speak the consumer protocol, so that subscriptions and assignments can be read."""
        return self.view is not None and self.view.protocol_type == PROTOCOL_TYPE

    @cached_property
    def subscriptions(self) -> dict[str, frozenset[str]]:
        """What each member subscribes to, by member id, where it can be read."""
        found: dict[str, frozenset[str]] = {}
        if not self.are_consumers:
            return found
        read: dict[bytes, frozenset[str] | None] = {}
        for member in self.all_members:
            if member.consumer is not None:
                topics = topics_of(member)
            else:
                if member.metadata not in read:
                    read[member.metadata] = wanted_topics(member.metadata)
                topics = read[member.metadata]
            if topics is not None:
                found[member.name.member_id] = topics
        return found

    @cached_property
    def subscribed(self) -> frozenset[str]:
        """What any member subscribes to."""
        return frozenset().union(*self.subscriptions.values())

    @cached_property
    def assignments(self) -> dict[str, Partitions]:
        """What each member was assigned, by member id, where it can be read."""
        found: dict[str, Partitions] = {}
        if self.are_consumers:
            for member in self.all_members:
                partitions = partitions_of(member)
                if partitions is not None:
                    found[member.name.member_id] = partitions
        return found

    @property
    def are_assignments_read(self) -> bool:
        """Whether it is known what every member has."""
        return len(self.assignments) == len(self.all_members)

    @cached_property
    def owners(self) -> dict[tuple[str, int], list[MemberView]]:
        """Who has each partition in the present assignment, or, while there is none, in the last one."""
        found: dict[tuple[str, int], list[MemberView]] = {}
        for member_id, topics in self.assignments.items():
            for topic, partitions in topics.items():
                for partition in partitions:
                    found.setdefault((topic, partition), []).append(self.by_id[member_id])
        return found

    def unowned(self, topic: str) -> Sequence[int]:
        """The partitions of a topic, as it is now, that nobody has."""
        return self._owner_counts(topic)[0]

    def owned_twice(self, topic: str) -> Sequence[int]:
        """Those that several members have."""
        return self._owner_counts(topic)[1]

    def _owner_counts(self, topic: str) -> tuple[Sequence[int], Sequence[int]]:
        found = self._unshared.get(topic)
        if found is None:
            counts = [
                len(self.owners.get((topic, number), ())) for number in range(self._partitions_of(topic))
            ]
            none = [number for number, count in enumerate(counts) if not count]
            found = self._unshared[topic] = (
                none,
                [number for number, count in enumerate(counts) if count > 1],
            )
        return found

    def _partitions_of(self, topic: str) -> int:
        return self.around.partitions_of(topic) or 0

    # Offsets

    def lags(self, topic: str) -> Sequence[Lag]:
        """How far each partition of a topic, as it is now, is behind."""
        found = self._lags.get(topic)
        if found is None:
            numbers = range(self._partitions_of(topic))
            found = self._lags[topic] = [self._lag(topic, number) for number in numbers]
        return found

    def _lag(self, topic: str, number: int) -> Lag:
        ends, offset = self.around.ends_of(topic, number), (self.offsets or {}).get((topic, number))
        if ends is None:
            return Lag(None, offset is not None)
        return Lag(max(0, ends.end - (ends.start if offset is None else offset)), offset is not None)
