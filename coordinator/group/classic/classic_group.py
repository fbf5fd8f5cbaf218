"""A classic group, its members, and the rebalance that it is in.

Counters answer the coordinator's questions in constant time, however large the group is: how many members
await their join, which protocols all of them support. Methods keep the group consistent; the handlers decide
when something happens. Members iterate in the order in which they joined. Source: Kafka's `ClassicGroup`,
`ClassicGroupMember`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from sys import intern
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from coordinator.group.classic.classic_state_machine import (
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    TRANSITIONS,
    ClassicGroupState,
)
from coordinator.group.event_details import Departure, MemberName, Trigger
from coordinator.group.group_config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator.group.modern.java_order import HashOrder, mix_string
from protocol.consumer_protocol import PROTOCOL_TYPE as CONSUMER_PROTOCOL_TYPE
from protocol.consumer_protocol import find_subscribed_topics
from protocol.error_codes import ErrorCode
from protocol.primitives import Malformed

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names and metadata of the assignors that a member supports, in the order of its preference."""

NOT_PROVIDED: Final = "not provided"
NO_METADATA: Final = b""


# Looking a member of an enumeration up costs more than the rest of a check.
NONE: Final = ErrorCode.NONE

FIRST_REPORT_MS: Final = 10_000
"""So long a group has to wait before it says whom for. It says so again each time that has doubled,"""
MAX_REPORT_INTERVAL_MS: Final = 300_000
"""and at least this often."""


class ClassicMember:
    """Who it is, what it supports, what it was assigned, and what it waits for.

    `join_waiter` and `sync_waiter` are the parked JoinGroup and SyncGroup (`join_version` the API version
    of the former). `session_deadline_ms` is when the member counts as lost unless it is heard before;
    `timer_deadline_ms` is when the timer outside will fire, which may be earlier: a heartbeat moves only
    the former, and the timer is set anew when it fires too early. None: no timer is set. Times are
    monotonic. `connection_id` is that of its last JoinGroup or heartbeat; 0 when nothing was heard of it since
    the group was loaded. `is_new`: it has not yet been through a join phase.
    `settled_assignment` is what it had in the last Stable generation, None when it was not in one."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "connection_id",
        "group_instance_id",
        "is_new",
        "join_version",
        "join_waiter",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_deadline_ms",
        "session_timeout_ms",
        "settled_assignment",
        "sync_waiter",
        "timer_deadline_ms",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
        connection_id: int = 0,
    ) -> None:
        assert member_id, "a member has an id"
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.connection_id = connection_id
        self.is_new = False
        self.settled_assignment: bytes | None = None
        self.join_waiter: int | None = None
        self.join_version = 0
        self.sync_waiter: int | None = None
        self.session_deadline_ms = 0
        self.timer_deadline_ms: int | None = None

    @property
    def name(self) -> MemberName:
        """Who it is, for people."""
        return MemberName(self.member_id, self.group_instance_id, self.client_id, self.client_host)

    @property
    def is_settled(self) -> bool:
        """Whether it was in a Stable generation."""
        return self.settled_assignment is not None

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place over a restart (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_awaiting_join(self) -> bool:
        """Whether its JoinGroup is parked."""
        return self.join_waiter is not None

    @property
    def is_awaiting_sync(self) -> bool:
        """Whether its SyncGroup is parked."""
        return self.sync_waiter is not None

    @property
    def is_exempt_from_session(self) -> bool:
        """Whether it cannot expire because the coordinator owes it an answer. A new member can: its first
        join may take no longer than the new member's join timeout."""
        return not self.is_new and (self.is_awaiting_join or self.is_awaiting_sync)

    @property
    def expiry_timeout_ms(self) -> int:
        """How long it may be silent; for a new member, how long its first join may take."""
        return NEW_MEMBER_JOIN_TIMEOUT_MS if self.is_new else self.session_timeout_ms

    def silent_ms(self, now_ms: int) -> int:
        """How long nothing was heard of it at a monotonic time. The deadline of its session tells."""
        return max(0, now_ms - (self.session_deadline_ms - self.expiry_timeout_ms))

    def metadata_for(self, protocol_name: str) -> bytes:
        """Its metadata for one protocol, which it must support."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"{self.member_id} does not support {protocol_name}")

    def vote(self, candidates: dict[str, None]) -> str:
        """The first of the candidates in the member's own order."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"{self.member_id} supports none of {list(candidates)}")


class InitialJoin(Struct):
    """The first rebalance of an empty group waits for more members: `delay_ms` is the wait that runs now,
    `remaining_ms` what may be added to it while members keep coming."""

    delay_ms: int
    remaining_ms: int


class PendingMember(NamedTuple):
    """Who was given a member id and has not joined with it yet, since when (monotonic), when the id is forgotten,
    and over which connection it was given."""

    name: MemberName
    since_ms: int
    deadline_ms: int
    connection_id: int = 0


class ClassicGroup:
    """The soft half of a group. `state_timestamp_ms` (wall) is when the state was entered, None when the
    log did not say; `subscribed_topics` None means that they are not known; `pending_members` are those who
    have an id and have not joined, by id; `pending_sync` are the members that have yet to ask for their
    assignment; `rebalance` is there until nobody is waited for any more; `departed` are the members of the last
    Stable generation that are gone; `counted_in` counts groups by state, None for a group that nobody counts;
    deadlines are monotonic, None when no such timer runs."""

    __slots__ = (
        "awaiting_join",
        "counted_in",
        "departed",
        "generation_id",
        "group_id",
        "initial_join",
        "join_deadline_ms",
        "leader_id",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync",
        "protocol_name",
        "protocol_type",
        "rebalance",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "supported_protocols",
        "sync_deadline_ms",
    )

    def __init__(self, group_id: str, wall_ms: int | None) -> None:
        self.group_id = group_id
        self.state: ClassicGroupState = EMPTY
        self.state_timestamp_ms = wall_ms
        self.counted_in: Counter[ClassicGroupState] | None = None
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, PendingMember] = {}
        self.pending_sync: dict[str, None] = {}
        self.supported_protocols: dict[str, int] = {}
        self.awaiting_join = 0
        self.new_member_added = False
        self.initial_join: InitialJoin | None = None
        self.rebalance: OpenRebalance | None = None
        self.departed: list[Departure] = []
        self.join_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        self.subscribed_topics: frozenset[str] | None = None

    def transition_to(self, state: ClassicGroupState, wall_ms: int) -> None:
        """Enter a state; that it may follow the present one is asserted."""
        assert (self.state, state) in TRANSITIONS, f"{self.group_id}: {self.state} to {state}"
        if self.counted_in is not None:
            self.counted_in[self.state] -= 1
            self.counted_in[state] += 1
        self.state = state
        self.state_timestamp_ms = wall_ms
        if state is not PREPARING_REBALANCE:
            self.initial_join = None

    @property
    def has_all_members_joined(self) -> bool:
        """Whether nobody has to be waited for: every member is here, and every pending one has joined."""
        return self.awaiting_join == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members; 0 without members."""
        return max(0, *(member.rebalance_timeout_ms for member in self.members.values()), 0)

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether its members are consumers (not Connect workers, say): their metadata can be read."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def is_simple(self) -> bool:
        """Whether it only holds offsets of consumers that assign partitions themselves."""
        return self.protocol_type is None and self.state is EMPTY and not self.pending_members

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic, as far as is known; when it is not, consumers may."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    @property
    def state_name(self) -> str:
        """Its state, as ListGroups and DescribeGroups call it."""
        return self.state.value

    def find_static_member_id(self, group_instance_id: str) -> str | None:
        """The id of the static member that has this instance id; None when there is none."""
        return self.static_members.get(group_instance_id)

    def check_sender(
        self, member_id: str, group_instance_id: str | None, generation_id: int | None = None
    ) -> ErrorCode:
        """Whether the sender of a request is the member that it says it is, in the generation that it names, if it
        names one. COORDINATOR_NOT_AVAILABLE in a Dead group; UNKNOWN_MEMBER_ID for an unknown id or instance id;
        FENCED_INSTANCE_ID when the instance id is another member's (KIP-345); ILLEGAL_GENERATION."""
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if group_instance_id is not None:
            existing = self.static_members.get(group_instance_id)
            if existing is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if existing != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if generation_id is not None and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return NONE

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member that offers these could be one of the group."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        size, supported = len(self.members), self.supported_protocols
        return any(supported.get(name, 0) == size for name, _ in protocols)

    def add_member(self, member: ClassicMember, protocol_type: str) -> None:
        """Take in a member, pending or not; the first one gives the group its protocol type and leads."""
        assert member.member_id not in self.members, member.member_id
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, member.group_instance_id
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = intern(protocol_type)
        assert self.protocol_type == protocol_type, (self.protocol_type, protocol_type)
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member.protocols, 1)
        self.awaiting_join += member.is_awaiting_join
        self.pending_members.pop(member.member_id, None)

    def remove_member(self, member: ClassicMember) -> None:
        """Let a member go, after its parked requests were answered; the oldest other one leads then."""
        assert not member.is_awaiting_join, member.member_id
        assert not member.is_awaiting_sync, member.member_id
        del self.members[member.member_id]
        self._count_protocols(member.protocols, -1)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_sync.pop(member.member_id, None)

    def replace_member(self, old: ClassicMember, new: ClassicMember) -> None:
        """Put a static member's successor into its place: its instance id, its leadership, its turn to
        sync."""
        assert new.group_instance_id == old.group_instance_id is not None, old.member_id
        assert new.protocols == old.protocols, old.member_id
        assert not old.is_awaiting_join, old.member_id
        assert not old.is_awaiting_sync, old.member_id
        del self.members[old.member_id]
        self.members[new.member_id] = new
        self.static_members[old.group_instance_id] = new.member_id
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id
        if old.member_id in self.pending_sync:
            del self.pending_sync[old.member_id]
            self.pending_sync[new.member_id] = None

    def share_protocols(self, protocols: Protocols) -> Protocols:
        """The leader's protocols when they are the same: most members of a group send the same bytes."""
        if self.leader_id is not None and self.members[self.leader_id].protocols == protocols:
            return self.members[self.leader_id].protocols
        return protocols

    def update_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        """Note what a member supports from now on."""
        protocols = self.share_protocols(protocols)
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)

    def park_join(self, member: ClassicMember, waiter: int, api_version: int) -> int | None:
        """Withhold the answer to a member's JoinGroup; returns the waiter of an earlier one, if any."""
        superseded = member.join_waiter
        member.join_waiter, member.join_version = waiter, api_version
        self.awaiting_join += superseded is None
        return superseded

    def unpark_join(self, member: ClassicMember) -> int | None:
        """Take back a member's parked JoinGroup, to answer it; None when there is none."""
        waiter = member.join_waiter
        if waiter is not None:
            member.join_waiter = None
            self.awaiting_join -= 1
        assert self.awaiting_join >= 0, self.group_id
        return waiter

    def select_protocol(self) -> str:
        """The protocol that most members vote for, of those that all support."""
        size = len(self.members)
        assert size > 0, self.group_id
        candidates = {name: None for name, count in self.supported_protocols.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return elect_protocol(votes)

    def begin_generation(self, wall_ms: int, state: ClassicGroupState, most_bytes: int) -> bool:
        """Begin a generation with the present members, in `state`. `most_bytes`: how large the group's record may
        be. False when their subscriptions cannot be read."""
        assert self.state is PREPARING_REBALANCE, self.state
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.pending_sync.clear()
        self.transition_to(state, wall_ms)
        return self.read_subscriptions(most_bytes)

    def read_subscriptions(self, most_bytes: int | None = None) -> bool:
        """Note which topics the members read. False when they are consumers and it cannot be known. Subscriptions
        that have more than `most_bytes` together are not parsed, which would take long: the assignment of such a
        generation is refused, as its record is too large."""
        if not self.uses_consumer_protocol:
            self.subscribed_topics = None
        elif not self.members:
            self.subscribed_topics = frozenset()
        else:
            assert self.protocol_name is not None, self.group_id
            name = self.protocol_name
            subscriptions = [member.metadata_for(name) for member in self.members.values()]
            if most_bytes is not None and sum(map(len, subscriptions)) > most_bytes:
                self.subscribed_topics = None
                return True
            self.subscribed_topics = collect_topics(dict.fromkeys(subscriptions))
            return self.subscribed_topics is not None
        return True

    def _count_protocols(self, protocols: Protocols, change: int) -> None:
        supported = self.supported_protocols
        for name, _ in protocols:
            count = supported.get(name, 0) + change
            assert count >= 0, (self.group_id, name)
            if count:
                supported[name] = count
            else:
                del supported[name]


class OpenRebalance:
    """Why, since when and how often begun, and where its time went. It is there from the moment that a rebalance
    starts until every member has asked for its assignment, or none is left; soft, as who waits is.

    `trigger` began it, `latest` began the last of `attempts`; `from_state` is the group's before. Times are
    monotonic. `phase_started_ms` is when the present phase began, or the group became Stable; `join_ms` and
    `sync_ms` are what earlier phases took; `last_joined` came last to the join phase, at `last_joined_ms`.
    `report_deadline_ms` is when it says again whom it waits for."""

    __slots__ = (
        "attempts",
        "from_state",
        "join_ms",
        "last_joined",
        "last_joined_ms",
        "latest",
        "phase_started_ms",
        "report_deadline_ms",
        "started_ms",
        "sync_ms",
        "trigger",
    )

    def __init__(self, trigger: Trigger, from_state: ClassicGroupState, now_ms: int) -> None:
        self.trigger = trigger
        self.latest = trigger
        self.attempts = 1
        self.from_state = from_state
        self.started_ms = now_ms
        self.phase_started_ms = now_ms
        self.join_ms = 0
        self.sync_ms = 0
        self.last_joined: ClassicMember | None = None
        self.last_joined_ms = now_ms
        self.report_deadline_ms = now_ms + FIRST_REPORT_MS

    def restart(self, trigger: Trigger, now_ms: int) -> None:
        """The sync phase was broken off; a join phase begins."""
        self.latest = trigger
        self.attempts += 1
        self.end_sync_phase(now_ms)

    def end_join_phase(self, now_ms: int) -> None:
        """All who will join have joined."""
        self.join_ms += now_ms - self.phase_started_ms
        self.phase_started_ms = now_ms
        if self.last_joined_ms != now_ms:
            self.last_joined = None  # something else ended it, later

    def end_sync_phase(self, now_ms: int) -> None:
        """The assignment is there, or will not come."""
        self.sync_ms += now_ms - self.phase_started_ms
        self.phase_started_ms = now_ms

    def record_join(self, member: ClassicMember, now_ms: int) -> None:
        """A member came to the join phase."""
        self.last_joined = member
        self.last_joined_ms = now_ms

    def shift_times(self, by_ms: int) -> None:
        """The clock was set by so much."""
        self.started_ms += by_ms
        self.phase_started_ms += by_ms
        self.last_joined_ms += by_ms
        self.report_deadline_ms += by_ms


def elect_protocol(votes: Mapping[str, int]) -> str:
    """The protocol with the most votes; of several that one which comes first in Kafka's map of them.

    In: votes by protocol, at least one, in the order in which each was first voted for. (In Kafka votes come in the
    order of the members' random ids.)
    """
    return max(HashOrder(mix_string, keys=votes), key=votes.__getitem__)


def collect_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all these subscriptions together: the one thing that the coordinator looks up in what members
    send for their leader. None when one of them is none, as custom assignors may send what they like."""
    topics: set[str] = set()
    for metadata in subscriptions:
        try:
            topics.update(find_subscribed_topics(metadata))
        except Malformed:
            return None
    return frozenset(topics)
