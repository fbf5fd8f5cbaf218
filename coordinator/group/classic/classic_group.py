"""A classic group: its members, and the bookkeeping that answers the coordinator's questions in constant
time (how many await their join, which protocols all support) however large the group is.

Methods keep the group consistent and decide nothing; when what happens is for the handlers to say.
Members iterate in the order in which they joined. Source: Kafka's ClassicGroup.
"""

from collections import Counter
from dataclasses import dataclass
from sys import intern
from typing import Final, NamedTuple

from coordinator.group.classic.member import Member, Protocols, union_of_topics
from coordinator.group.classic.open_rebalance import OpenRebalance
from coordinator.group.classic.vote import elected
from coordinator.group.member_name import MemberName
from coordinator.group.rebalance_facts import Departure
from coordinator.group.state import DEAD, EMPTY, PREPARING_REBALANCE, TRANSITIONS, ClassicGroupState
from protocol.consumer_protocol import PROTOCOL_TYPE as CONSUMER_PROTOCOL_TYPE
from protocol.errors import ErrorCode

# Looking a member of an enumeration up costs more than the rest of a check.
NONE: Final = ErrorCode.NONE


@dataclass(slots=True)
class InitialJoin:
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
        self.members: dict[str, Member] = {}
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

    def holder_of(self, group_instance_id: str) -> str | None:
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

    def add(self, member: Member, protocol_type: str) -> None:
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

    def remove(self, member: Member) -> None:
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

    def replace(self, old: Member, new: Member) -> None:
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

    def shared(self, protocols: Protocols) -> Protocols:
        """The leader's protocols when they are the same: most members of a group send the same bytes."""
        if self.leader_id is not None and self.members[self.leader_id].protocols == protocols:
            return self.members[self.leader_id].protocols
        return protocols

    def update_protocols(self, member: Member, protocols: Protocols) -> None:
        """Note what a member supports from now on."""
        protocols = self.shared(protocols)
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)

    def park_join(self, member: Member, waiter: int, api_version: int) -> int | None:
        """Withhold the answer to a member's JoinGroup; returns the waiter of an earlier one, if any."""
        superseded = member.join_waiter
        member.join_waiter, member.join_version = waiter, api_version
        self.awaiting_join += superseded is None
        return superseded

    def unpark_join(self, member: Member) -> int | None:
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
        return elected(votes)

    def next_generation(self, wall_ms: int, state: ClassicGroupState, most_bytes: int) -> bool:
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
            self.subscribed_topics = union_of_topics(dict.fromkeys(subscriptions))
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
