"""A member of a classic group."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from coordinator.group.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator.group.member_name import MemberName
from protocol.consumer_protocol import subscribed_topics
from protocol.malformed import Malformed

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names and metadata of the assignors that a member supports, in the order of its preference."""

NOT_PROVIDED: Final = "not provided"
NO_METADATA: Final = b""


class Member:
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


def union_of_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all these subscriptions together: the one thing that the coordinator looks up in what members
    send for their leader. None when one of them is none, as custom assignors may send what they like."""
    topics: set[str] = set()
    for metadata in subscriptions:
        try:
            topics.update(subscribed_topics(metadata))
        except Malformed:
            return None
    return frozenset(topics)
