"""A classic group: its members, its generation and its deadlines.

Counters give the number of members that await their join, and the protocols that all members support, in constant
time. Methods keep the group consistent; the handlers decide when something happens. Members iterate in the order in
which they joined.

Source: Kafka's `ClassicGroup`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from sys import intern
from typing import Final

from coordinator.core.outcome import Fact, OutcomeBuilder
from coordinator.group.classic.classic_member import (
    ClassicMember,
    InitialJoin,
    OpenRebalance,
    PendingMember,
    Protocols,
    collect_topics,
    elect_protocol,
)
from coordinator.group.classic.classic_state_machine import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    TRANSITIONS,
    ClassicGroupState,
)
from coordinator.group.event_details import AwaitedMember, AwaitedRequest, Departure
from coordinator.group.group_interface import ACCEPTED, CommitRequest, CommitValidation, Group
from coordinator.group.group_request_rules import build_join_error, build_sync_error
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import GroupView
from coordinator.group.topics_image import TopicsImage
from protocol.consumer_protocol import PROTOCOL_TYPE as CONSUMER_PROTOCOL_TYPE
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.records.group_record_schemas import GroupMetadataKey

# Access to an enumeration member costs more than the rest of a check.
NONE: Final = ErrorCode.NONE


class ClassicGroup(Group):
    """The soft state of a classic group.

    - `state_timestamp_ms` (wall) is the time of the last change of state, None if the log does not have it.
    - `subscribed_topics` is None if the subscriptions are unknown.
    - `pending_members` have an id and have not joined yet.
    - `pending_sync` are the members that have not sent their SyncGroup.
    - `rebalance` is set while the group waits for members.
    - `departed` are the members of the last Stable generation that have left.
    - `counted_in` counts the groups of a shard by state.
    - Deadlines are monotonic, None if no such timer is armed.
    """

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

    type = GroupType.CLASSIC
    state: ClassicGroupState
    generation_id: int
    protocol_type: str | None

    def __init__(self, group_id: str, wall_ms: int | None) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self.state_timestamp_ms = wall_ms
        self.counted_in: Counter[ClassicGroupState] | None = None
        self.protocol_type = None
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
        """Enter a state that is a legal successor of the current one."""
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
        """Return whether the JoinGroups of all members are parked, and every pending member has joined."""
        return self.awaiting_join == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members; 0 without members."""
        return max(0, *(member.rebalance_timeout_ms for member in self.members.values()), 0)

    @property
    def uses_consumer_protocol(self) -> bool:
        """Return whether the members are consumers. The coordinator can decode their metadata, unlike that of
        Connect.
        """
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def check_sender(
        self, member_id: str, group_instance_id: str | None, generation_id: int | None = None
    ) -> ErrorCode:
        """Return NONE for a valid sender, else the error.

        Errors: COORDINATOR_NOT_AVAILABLE in a Dead group; UNKNOWN_MEMBER_ID for an unknown id or instance id;
        FENCED_INSTANCE_ID if the instance id belongs to another member (KIP-345); ILLEGAL_GENERATION for a
        generation other than the current one.
        """
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
        """Return whether a member with these protocols can join the group."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        size, supported = len(self.members), self.supported_protocols
        return any(supported.get(name, 0) == size for name, _ in protocols)

    def add_member(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member, new or pending before. The first one leads the group and gives it its protocol type."""
        assert member.member_id not in self.members, member.member_id
        assert member.join_waiter is None, member.member_id
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
        self.pending_members.pop(member.member_id, None)

    def remove_member(self, member: ClassicMember) -> None:
        """Remove a member, which must not have parked requests. If it leads, the oldest other member becomes
        leader.
        """
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
        """Replace a static member. The successor gets its instance id, its leadership and its pending sync."""
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
        """Return the leader's protocols if they are equal, to save memory: most members send the same bytes."""
        if self.leader_id is not None and self.members[self.leader_id].protocols == protocols:
            return self.members[self.leader_id].protocols
        return protocols

    def update_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        """Replace the protocols of a member."""
        protocols = self.share_protocols(protocols)
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)

    def park_join(self, member: ClassicMember, waiter: int, api_version: int) -> int | None:
        """Record that a member's JoinGroup is parked. Return the waiter of an earlier parked one, or None."""
        superseded = member.join_waiter
        member.join_waiter, member.join_version = waiter, api_version
        self.awaiting_join += superseded is None
        return superseded

    def unpark_join(self, member: ClassicMember) -> int | None:
        """Remove the parked JoinGroup of a member and return its waiter; None without one."""
        waiter = member.join_waiter
        if waiter is not None:
            member.join_waiter = None
            self.awaiting_join -= 1
        assert self.awaiting_join >= 0, self.group_id
        return waiter

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among the protocols of all members."""
        size = len(self.members)
        assert size > 0, self.group_id
        candidates = {name: None for name, count in self.supported_protocols.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return elect_protocol(votes)

    def begin_generation(self, wall_ms: int, state: ClassicGroupState, most_bytes: int) -> bool:
        """Begin a generation with the present members, in `state`. Returns False for undecodable subscriptions.

        `most_bytes` is the largest size of the group's record.
        """
        assert self.state is PREPARING_REBALANCE, self.state
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.pending_sync.clear()
        self.transition_to(state, wall_ms)
        return self.read_subscriptions(most_bytes)

    def read_subscriptions(self, most_bytes: int | None = None) -> bool:
        """Decode the topics of the members. Returns False for consumers with undecodable subscriptions.

        Subscriptions of more than `most_bytes` together stay undecoded, because that would take long: the
        assignment of such a generation is refused, as its record is too large.
        """
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

    # Sessions and parked requests

    def restart_session(
        self, member: ClassicMember, builder: OutcomeBuilder, timeout_ms: int | None = None
    ) -> None:
        """Restart the session of a member with its session timeout or `timeout_ms`. A timer that fires earlier
        stays unchanged and is armed again when it fires.
        """
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        assert timeout_ms >= 0, timeout_ms
        deadline_ms = builder.now.monotonic_ms + timeout_ms
        member.session_deadline_ms = deadline_ms
        timer_ms = member.timer_deadline_ms
        if timer_ms is None or timer_ms > deadline_ms:
            member.timer_deadline_ms = deadline_ms
            builder.arm_timer(self.heartbeat_key(member.member_id), deadline_ms)

    def cancel_session(self, member: ClassicMember, builder: OutcomeBuilder) -> None:
        """Cancel the session timer of a member."""
        if member.timer_deadline_ms is not None:
            member.timer_deadline_ms = None
            builder.cancel_timer(self.heartbeat_key(member.member_id))

    def forget_pending(self, member_id: str, builder: OutcomeBuilder) -> None:
        """Forget the id of a pending member."""
        del self.pending_members[member_id]
        builder.cancel_timer(self.heartbeat_key(member_id))

    def heartbeat_key(self, member_id: str) -> GroupTimerKey:
        """Return the key of the timer of a member, or of a pending one."""
        return GroupTimerKey(GroupTimerKind.HEARTBEAT, self.group_id, member_id)

    def answer_parked(
        self, member: ClassicMember, error: ErrorCode, member_id: str, builder: OutcomeBuilder
    ) -> None:
        """Answer the parked requests of a member with an error. A JoinGroup gets `member_id` in its response."""
        waiter = self.unpark_join(member)
        if waiter is not None:
            builder.reply(waiter, build_join_error(error, member_id, member.join_version))
        if member.sync_waiter is not None:
            builder.reply(member.sync_waiter, build_sync_error(error))
            member.sync_waiter = None

    def find_awaited_members(self, now_ms: int) -> tuple[AwaitedMember, ...]:
        """Return the members with an awaited JoinGroup or SyncGroup, the leader's SyncGroup first. An initial
        rebalance waits for a delay, not for members.
        """
        if self.state is PREPARING_REBALANCE:
            return () if self.initial_join is not None else self._find_awaited_joins(now_ms)
        members = [self.members[member_id] for member_id in self.pending_sync]
        first = AwaitedRequest.SYNC
        if self.leader_id in self.pending_sync:
            first = AwaitedRequest.ASSIGNMENT
            members.sort(key=lambda member: member.member_id != self.leader_id)
        return tuple(
            [
                member.view_awaited(AwaitedRequest.SYNC if number else first, self.sync_deadline_ms, now_ms)
                for number, member in enumerate(members)
            ]
        )

    def _find_awaited_joins(self, now_ms: int) -> tuple[AwaitedMember, ...]:
        deadline_ms = self.join_deadline_ms
        found = []
        for member in self.members.values():
            if not member.is_awaiting_join:
                # Without a possible leader, only its session ends the wait for a static member.
                is_kept = member.is_static and self.awaiting_join == 0
                found.append(
                    member.view_awaited(AwaitedRequest.JOIN, None if is_kept else deadline_ms, now_ms)
                )
        found += [pending.view_awaited(deadline_ms, now_ms) for pending in self.pending_members.values()]
        return tuple(found)

    def phase_left_ms(self, now_ms: int) -> int:
        """Return the longest time that the present phase can still last; 0 when the group waits for nothing."""
        deadline_ms = self.join_deadline_ms if self.sync_deadline_ms is None else self.sync_deadline_ms
        return 0 if deadline_ms is None else max(0, deadline_ms - now_ms)

    # The interface of groups of every type

    @property
    def is_dead(self) -> bool:
        """Return whether the shard has removed or unloaded the group."""
        return self.state is DEAD

    @property
    def member_count(self) -> int:
        """Return the number of members, without pending ones."""
        return len(self.members)

    def find_static_member_id(self, group_instance_id: str) -> str | None:
        """Return the id of the static member that has this instance id; None without one."""
        return self.static_members.get(group_instance_id)

    def view(self, now_ms: int, topics: TopicsImage) -> GroupView:
        """Return the view of the group. It knows topics by name only."""
        rebalance = self.rebalance
        return GroupView(
            group_id=self.group_id,
            type=self.type,
            state=self.state.value,
            state_since_ms=self.state_timestamp_ms,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.leader_id,
            members=tuple([member.view(self.protocol_name, now_ms) for member in self.members.values()]),
            pending=tuple([pending.view(now_ms) for pending in self.pending_members.values()]),
            rebalance=None
            if rebalance is None
            else rebalance.view(
                now_ms,
                self.phase_left_ms(now_ms),
                self.find_awaited_members(now_ms),
                is_initial=self.initial_join is not None,
            ),
        )

    def validate_commit(self, request: CommitRequest, api_version: int) -> CommitValidation:
        """Validate the sender of a commit, for all partitions alike.

        A member may commit in its current generation, even while the group prepares the next one. It may not while
        the group completes a rebalance: its partitions may belong to another member by then. A consumer without
        group management commits with generation -1, while the group is empty. In a transaction both are allowed:
        the next owner of the partitions waits for its end, and a producer before KIP-447 names no member. Source:
        Kafka's ClassicGroup, validateOffsetCommit.
        """
        generation_id, state = request.generation_id_or_member_epoch, self.state
        member_id, instance_id = request.member_id, request.group_instance_id
        if generation_id < 0:
            if state is EMPTY:
                return ACCEPTED
            if not member_id and instance_id is None and state is not DEAD:
                is_plain = type(request) is OffsetCommitRequest
                return CommitValidation(ErrorCode.UNKNOWN_MEMBER_ID) if is_plain else ACCEPTED
        error = self.check_sender(member_id, instance_id, generation_id)
        if error is not NONE:
            return CommitValidation(error)
        if state is COMPLETING_REBALANCE and type(request) is OffsetCommitRequest:
            return CommitValidation(ErrorCode.REBALANCE_IN_PROGRESS)
        return ACCEPTED

    def validate_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Return NONE: every sender may fetch the offsets of a classic group."""
        return NONE

    def on_commit_accepted(self, member_id: str, builder: OutcomeBuilder) -> None:
        """Restart the session of the member in a Stable or PreparingRebalance group."""
        if self.state in (STABLE, PREPARING_REBALANCE):
            self.restart_session(self.members[member_id], builder)

    def validate_offset_delete(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP for a group with members other than consumers, GROUP_ID_NOT_FOUND for a Dead one,
        else NONE.
        """
        if self.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.state is not EMPTY and not self.uses_consumer_protocol:
            return ErrorCode.NON_EMPTY_GROUP
        return NONE

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic. With unknown subscriptions each consumer may."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    @property
    def offsets_may_expire(self) -> bool:
        """Return whether the group is Empty, simple, or Stable with known subscriptions of consumers."""
        if self.protocol_type is None or self.state is EMPTY:
            return True
        return self.state is STABLE and self.uses_consumer_protocol and self.subscribed_topics is not None

    @property
    def idle_since_ms(self) -> int | None:
        """Return the time since which the group is Empty; None for a simple group, and if the log does not have
        it.
        """
        is_idle = self.state is EMPTY and self.protocol_type is not None
        return self.state_timestamp_ms if is_idle else None

    def list_deadlines(self) -> Iterator[tuple[GroupTimerKey, int]]:
        """Iterate over the armed timers with their times, without the sessions of members that await an answer."""
        for member in self.members.values():
            if not member.is_exempt_from_session:
                yield self.heartbeat_key(member.member_id), member.session_deadline_ms
        for member_id, pending in self.pending_members.items():
            yield self.heartbeat_key(member_id), pending.deadline_ms
        if self.join_deadline_ms is not None:
            yield GroupTimerKey(GroupTimerKind.JOIN, self.group_id), self.join_deadline_ms
        if self.sync_deadline_ms is not None:
            yield GroupTimerKey(GroupTimerKind.SYNC, self.group_id), self.sync_deadline_ms
        if self.rebalance is not None:
            yield GroupTimerKey(GroupTimerKind.REPORT, self.group_id), self.rebalance.report_deadline_ms

    def extend_sessions(self, member_ids: Sequence[str], until_ms: int, builder: OutcomeBuilder) -> None:
        """Extend sessions. Members with a parked request are skipped: they have no deadline."""
        for member_id in member_ids:
            member = self.members.get(member_id)
            if (
                member is not None
                and not member.is_exempt_from_session
                and member.session_deadline_ms < until_ms
            ):
                member.session_deadline_ms = member.timer_deadline_ms = until_ms
                builder.arm_timer(self.heartbeat_key(member_id), until_ms)

    def shift_deadlines(self, by_ms: int, builder: OutcomeBuilder) -> None:
        """Add `by_ms` to all deadlines."""
        for member in self.members.values():
            member.session_deadline_ms += by_ms
            if member.is_exempt_from_session:
                self.cancel_session(member, builder)
            else:
                member.timer_deadline_ms = member.session_deadline_ms
        for member_id, pending in self.pending_members.items():
            self.pending_members[member_id] = pending._replace(
                since_ms=pending.since_ms + by_ms, deadline_ms=pending.deadline_ms + by_ms
            )
        if self.join_deadline_ms is not None:
            self.join_deadline_ms += by_ms
        if self.sync_deadline_ms is not None:
            self.sync_deadline_ms += by_ms
        if self.rebalance is not None:
            self.rebalance.shift_times(by_ms)

    def session_margin(self, now_ms: int) -> float | None:
        """Return the smallest remaining share of a session, None without a running one. The session of a member
        with a parked request does not run.
        """
        shares = [
            (member.session_deadline_ms - now_ms) / max(1, member.session_timeout_ms)
            for member in self.members.values()
            if not (member.is_new or member.is_awaiting_join or member.is_awaiting_sync)
        ]
        return max(0.0, min(shares)) if shares else None

    def validate_delete(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP while there are members. Pending members do not count."""
        if self.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return NONE if self.state is EMPTY else ErrorCode.NON_EMPTY_GROUP

    @property
    def is_abandoned(self) -> bool:
        """Return whether the group is Empty without pending members. Kafka also removes such a group with pending
        members.
        """
        return self.state is EMPTY and not self.pending_members

    def tombstones(self) -> list[Fact]:
        """Return one tombstone, also for a group without metadata."""
        return [Fact(GroupMetadataKey(group=self.group_id), None)]

    def retire(self, builder: OutcomeBuilder) -> None:
        """Forget pending members, which must join again, and mark the group as dead."""
        assert not self.members, list(self.members)
        for member_id in list(self.pending_members):
            self.forget_pending(member_id, builder)
        self.transition_to(DEAD, builder.now.wall_ms)

    def unload(self, builder: OutcomeBuilder) -> None:
        """Answer parked JoinGroups and SyncGroups with NOT_COORDINATOR, and mark the group as dead."""
        for member in self.members.values():
            self.answer_parked(member, ErrorCode.NOT_COORDINATOR, member.member_id, builder)
        self.pending_members.clear()
        self.pending_sync.clear()
        self.join_deadline_ms = self.sync_deadline_ms = self.rebalance = None
        self.transition_to(DEAD, self.state_timestamp_ms or 0)
