"""Members of a classic group, and the rebalance in which they take part.

Source: Kafka's `ClassicGroupMember`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from coordinator.group.classic.classic_state_machine import ClassicGroupState
from coordinator.group.event_details import AwaitedMember, AwaitedRequest, MemberName, Trigger
from coordinator.group.group_config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator.group.group_view import MemberView, PendingMemberView, RebalanceView
from coordinator.group.modern.java_order import HashOrder, mix_string
from protocol.consumer_protocol import find_subscribed_topics
from protocol.primitives import Malformed

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names and metadata of the assignors that a member supports, in the order of its preference."""

NOT_PROVIDED: Final = "not provided"
NO_METADATA: Final = b""

FIRST_REPORT_MS: Final = 10_000
"""The time of the first report of an open rebalance. Each further one comes after twice the time."""
MAX_REPORT_INTERVAL_MS: Final = 300_000


class ClassicMember:
    """A member: its client, its protocols, its assignment, its session and its parked requests.

    - `join_waiter` and `sync_waiter` are the parked JoinGroup and SyncGroup; `join_version` is the API version of
      the JoinGroup.
    - `session_deadline_ms` is the time of the session's expiry without a further heartbeat.
    - `timer_deadline_ms` is the time of the timer, None if not armed. It may be earlier, because a heartbeat moves
      only the session deadline; a timer that fires too early is armed again.
    - Times are monotonic.
    - `connection_id` is the connection of its last JoinGroup or heartbeat; 0 before the first one after a load.
    - `is_new`: the member has not completed a join phase yet.
    - `settled_assignment` is its assignment in the last Stable generation, None before its first one.
    """

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
        name: MemberName,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
        connection_id: int = 0,
    ) -> None:
        self.member_id, self.group_instance_id, self.client_id, self.client_host = name
        assert self.member_id, "a member has an id"
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
        """Return the ids of the member and of its client."""
        return MemberName(self.member_id, self.group_instance_id, self.client_id, self.client_host)

    @property
    def is_settled(self) -> bool:
        """Return whether the member was in a Stable generation."""
        return self.settled_assignment is not None

    @property
    def is_static(self) -> bool:
        """Return whether the member has an instance id: it stays a member when its client restarts (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_awaiting_join(self) -> bool:
        """Return whether its JoinGroup is parked."""
        return self.join_waiter is not None

    @property
    def is_awaiting_sync(self) -> bool:
        """Return whether its SyncGroup is parked."""
        return self.sync_waiter is not None

    @property
    def is_exempt_from_session(self) -> bool:
        """Return whether the member cannot expire because the coordinator owes it a response. A new member can
        expire: its first join is limited by the new member join timeout.
        """
        return not self.is_new and (self.is_awaiting_join or self.is_awaiting_sync)

    @property
    def expiry_timeout_ms(self) -> int:
        """Return the session timeout; for a new member, the timeout of its first join."""
        return NEW_MEMBER_JOIN_TIMEOUT_MS if self.is_new else self.session_timeout_ms

    def silent_ms(self, now_ms: int) -> int:
        """Return the milliseconds since its last heartbeat, at a monotonic time."""
        return max(0, now_ms - (self.session_deadline_ms - self.expiry_timeout_ms))

    def metadata_for(self, protocol_name: str) -> bytes:
        """Return its metadata for one protocol, which it must support."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"{self.member_id} does not support {protocol_name}")

    def vote(self, candidates: dict[str, None]) -> str:
        """Return the first of the candidates in the member's own order."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"{self.member_id} supports none of {list(candidates)}")

    def view(self, protocol_name: str | None, now_ms: int) -> MemberView:
        """Return the view of the member at a monotonic time, with its metadata for a protocol of the group."""
        protocols = tuple([name for name, _ in self.protocols])
        name = protocol_name if protocol_name in protocols else next(iter(protocols), None)
        return MemberView(
            name=self.name,
            connection_id=self.connection_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            silent_ms=self.silent_ms(now_ms),
            session_left_ms=max(0, self.session_deadline_ms - now_ms),
            is_new=self.is_new,
            is_awaiting_join=self.is_awaiting_join,
            is_awaiting_sync=self.is_awaiting_sync,
            protocols=protocols,
            metadata=b"" if name is None else self.metadata_for(name),
            assignment=self.assignment,
        )

    def view_awaited(self, request: AwaitedRequest, deadline_ms: int | None, now_ms: int) -> AwaitedMember:
        """Describe the member while its group waits for a request of it, until a monotonic deadline if any."""
        session_left_ms = max(0, self.session_deadline_ms - now_ms)
        left_ms = (
            session_left_ms if deadline_ms is None else max(0, min(session_left_ms, deadline_ms - now_ms))
        )
        return AwaitedMember(self.name, request, self.silent_ms(now_ms), session_left_ms, left_ms)


class PendingMember(NamedTuple):
    """A client that got a member id and has not joined with it yet: when it got the id (monotonic), when the id is
    forgotten, and the connection over which it got the id."""

    name: MemberName
    since_ms: int
    deadline_ms: int
    connection_id: int = 0

    def view(self, now_ms: int) -> PendingMemberView:
        """Describe the pending member at a monotonic time."""
        return PendingMemberView(
            name=self.name,
            since_ms=max(0, now_ms - self.since_ms),
            left_ms=max(0, self.deadline_ms - now_ms),
            connection_id=self.connection_id,
        )

    def view_awaited(self, join_deadline_ms: int | None, now_ms: int) -> AwaitedMember:
        """Describe the pending member while a join phase waits for its first JoinGroup."""
        left_ms = max(0, self.deadline_ms - now_ms)
        most_ms = left_ms if join_deadline_ms is None else max(0, min(left_ms, join_deadline_ms - now_ms))
        return AwaitedMember(self.name, AwaitedRequest.FIRST_JOIN, now_ms - self.since_ms, left_ms, most_ms)


class InitialJoin(Struct):
    """The wait of an empty group's first rebalance for more members: `delay_ms` is the current wait, and new
    members can extend it by up to `remaining_ms`.
    """

    delay_ms: int
    remaining_ms: int


class OpenRebalance:
    """A rebalance: its causes, its attempts and the times of its phases.

    It begins with the join phase and ends when every member has sent its SyncGroup, or no member is left. It is not
    logged. `trigger` started it, and `latest` started the last of `attempts`; `from_state` is the state of the
    group before it. Times are monotonic. `phase_started_ms` is the start of the current phase, or the time when the
    group became Stable. `join_ms` and `sync_ms` are the durations of earlier phases. `last_joined` was the last to
    join, at `last_joined_ms`. `report_deadline_ms` is the time of the next report of awaited members.
    """

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
        """Restart the join phase after an interrupted sync phase."""
        self.latest = trigger
        self.attempts += 1
        self.end_sync_phase(now_ms)

    def end_join_phase(self, now_ms: int) -> None:
        """Record that the join phase is complete."""
        self.join_ms += now_ms - self.phase_started_ms
        self.phase_started_ms = now_ms
        if self.last_joined_ms != now_ms:
            # A timeout, a departure or the initial delay ended the phase, not a JoinGroup.
            self.last_joined = None

    def end_sync_phase(self, now_ms: int) -> None:
        """Record the end of the sync phase, with or without an assignment."""
        self.sync_ms += now_ms - self.phase_started_ms
        self.phase_started_ms = now_ms

    def record_join(self, member: ClassicMember, now_ms: int) -> None:
        """Record that a member joined the join phase."""
        self.last_joined = member
        self.last_joined_ms = now_ms

    def shift_times(self, by_ms: int) -> None:
        """Move all times by a change of the group's clock."""
        self.started_ms += by_ms
        self.phase_started_ms += by_ms
        self.last_joined_ms += by_ms
        self.report_deadline_ms += by_ms

    def view(
        self, now_ms: int, left_ms: int, awaited: tuple[AwaitedMember, ...], *, is_initial: bool
    ) -> RebalanceView:
        """Describe the rebalance at a monotonic time, with the time that its phase has left at most."""
        return RebalanceView(
            trigger=self.trigger,
            latest=self.latest,
            attempts=self.attempts,
            from_state=self.from_state.value,
            open_ms=max(0, now_ms - self.started_ms),
            phase_ms=max(0, now_ms - self.phase_started_ms),
            left_ms=left_ms,
            is_initial=is_initial,
            awaited=awaited,
        )


def elect_protocol(votes: Mapping[str, int]) -> str:
    """Return the protocol with the most votes; on a tie, the first one in Kafka's hash map.

    `votes` has the votes by protocol, at least one, in the order of the first votes. (In Kafka the order follows
    the members' random ids.)
    """
    if len(votes) == 1:
        return next(iter(votes))
    return max(HashOrder(mix_string, keys=votes), key=votes.__getitem__)


def collect_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all subscriptions together; None if one of them cannot be decoded. Custom assignors may
    send any bytes as their metadata.
    """
    topics: set[str] = set()
    for metadata in subscriptions:
        try:
            topics.update(find_subscribed_topics(metadata))
        except Malformed:
            return None
    return frozenset(topics)
