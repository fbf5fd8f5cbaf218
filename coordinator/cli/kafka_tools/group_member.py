"""A member of a consumer group: joins by the classic protocol, assigns by range as the leader, sends heartbeats.

Source: Kafka's `ConsumerCoordinator`, `AbstractCoordinator`, `RangeAssignor`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from coordinator.cli.kafka_tools.cluster_client import ClusterClient, Deadline
from coordinator.cli.kafka_tools.offset_requests import TopicPartition, commit_offsets
from coordinator.cli.kafka_tools.tool_errors import error_from_code
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    find_subscribed_topics,
)
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_RANGE: Final = "range"
_VERSION: Final = 3
_JOIN_MARGIN_S: Final = 5.0
_MEMBERSHIP_LOST: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_REJOIN_ERRORS: Final = (ErrorCode.REBALANCE_IN_PROGRESS, *_MEMBERSHIP_LOST)


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The settings of a member; times in seconds."""

    group: str
    instance_id: str | None = None
    session_timeout_s: float = 45.0
    rebalance_timeout_s: float = 300.0
    heartbeat_interval_s: float = 3.0


@dataclass
class _Membership:
    """The identity of the member for the coordinator."""

    member_id: str = ""
    generation: int = -1
    is_joined: bool = False
    assignment: list[TopicPartition] = field(default_factory=list)


class GroupMember:
    """A member of a group. Call `poll` at least as often as the heartbeat interval."""

    def __init__(
        self,
        client: ClusterClient,
        settings: MemberSettings,
        count_partitions: Callable[[Iterable[str]], Mapping[str, int]],
    ) -> None:
        """Create a member. `count_partitions` returns the number of partitions of each given topic that
        exists."""
        self._client = client
        self._settings = settings
        self._count_partitions = count_partitions
        self._membership = _Membership()
        self._topics: list[str] = []
        self._next_heartbeat = Deadline(0.0)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to topics; the next `poll` joins with them."""
        self._topics = sorted(topics)
        self._membership.is_joined = False

    def poll(self, on_revoked: Callable[[], None]) -> list[TopicPartition] | None:
        """Join the group if needed, else send a heartbeat if one is due. Return the partitions after a join, else
        None.

        `on_revoked` is called before partitions are revoked. Raises KafkaError.
        """
        if self._membership.is_joined and self._next_heartbeat.left_s <= 0:
            self._send_heartbeat()
        if self._membership.is_joined:
            return None
        if self._membership.generation >= 0:
            on_revoked()
        while not self._join():
            pass
        return self._membership.assignment

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets as this member, unless a rebalance has begun. Raises KafkaError."""
        member = self._membership
        if not offsets or member.generation < 0:
            return
        errors = commit_offsets(
            self._client, self._settings.group, offsets, member.generation, member.member_id
        )
        for error in errors.values():
            if error.error_code not in _REJOIN_ERRORS:
                raise error
            self._reset_membership(error.error_code)

    def leave(self) -> None:
        """Leave the group. Raises KafkaError."""
        member_id = self._membership.member_id
        if not member_id or self._settings.instance_id is not None:
            return
        identity = MemberIdentity(member_id=member_id, reason="the consumer is being closed")
        request = LeaveGroupRequest(group_id=self._settings.group, member_id=member_id, members=[identity])
        self._client.send_to_coordinator(self._settings.group, request)
        self._membership = _Membership()

    def _join(self) -> bool:
        """Join and sync once. Returns whether the member has its assignment."""
        answer = self._send_to_coordinator(
            self._join_request(), self._settings.rebalance_timeout_s + _JOIN_MARGIN_S
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._membership.member_id = answer.member_id
            return False
        if not self._check_answer(answer):
            return False
        self._membership.member_id, self._membership.generation = answer.member_id, answer.generation_id
        assignments = []
        if answer.leader == answer.member_id and not answer.skip_assignment:
            assignments = self._assign_partitions(answer.members)
        request = SyncGroupRequest(
            group_id=self._settings.group,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            group_instance_id=self._settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=answer.protocol_name,
            assignments=assignments,
        )
        synced = self._send_to_coordinator(request, self._settings.rebalance_timeout_s + _JOIN_MARGIN_S)
        if not self._check_answer(synced):
            return False
        self._membership.assignment = _decode_partitions(synced.assignment)
        self._membership.is_joined = True
        self._next_heartbeat = Deadline(self._settings.heartbeat_interval_s)
        return True

    def _join_request(self) -> JoinGroupRequest:
        owned: dict[str, list[int]] = {}
        for topic, partition in self._membership.assignment:
            owned.setdefault(topic, []).append(partition)
        subscription = ConsumerProtocolSubscription(
            topics=self._topics,
            owned_partitions=[TopicPartitions(topic=name, partitions=each) for name, each in owned.items()],
            generation_id=self._membership.generation,
        )
        metadata = encode_subscription(subscription, _VERSION)
        return JoinGroupRequest(
            group_id=self._settings.group,
            session_timeout_ms=round(1000 * self._settings.session_timeout_s),
            rebalance_timeout_ms=round(1000 * self._settings.rebalance_timeout_s),
            member_id=self._membership.member_id,
            group_instance_id=self._settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=_RANGE, metadata=metadata)],
        )

    def _assign_partitions(self, members: Sequence[Any]) -> list[SyncGroupRequestAssignment]:
        subscribed = {member.member_id: find_subscribed_topics(member.metadata) for member in members}
        order = {member.member_id: _find_sort_key(member) for member in members}
        counts = self._count_partitions({topic for topics in subscribed.values() for topic in topics})
        assigned = assign_range(subscribed, order, counts)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_encode_assignment(partitions))
            for member_id, partitions in assigned.items()
        ]

    def _send_heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self._settings.group,
            generation_id=self._membership.generation,
            member_id=self._membership.member_id,
            group_instance_id=self._settings.instance_id,
        )
        self._check_answer(self._send_to_coordinator(request, None))
        self._next_heartbeat = Deadline(self._settings.heartbeat_interval_s)

    def _send_to_coordinator(self, request: Any, timeout_s: float | None) -> Any:
        return self._client.send_to_coordinator(self._settings.group, request, timeout_s=timeout_s)

    def _check_answer(self, answer: Any) -> bool:
        """Return whether the coordinator accepted a request. Otherwise the member joins again. Raises
        KafkaError."""
        if answer.error_code == ErrorCode.NONE:
            return True
        if answer.error_code not in _REJOIN_ERRORS:
            raise error_from_code(answer.error_code)
        self._reset_membership(answer.error_code)
        return False

    def _reset_membership(self, code: int) -> None:
        self._membership.is_joined = False
        if code in _MEMBERSHIP_LOST:
            self._membership = _Membership(
                member_id="" if code == ErrorCode.UNKNOWN_MEMBER_ID else self.member_id
            )

    @property
    def member_id(self) -> str:
        """The member id from the coordinator; "" before the first join."""
        return self._membership.member_id


def assign_range(
    subscribed: Mapping[str, Sequence[str]],
    order: Mapping[str, tuple[int, str]],
    partitions: Mapping[str, int],
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member by the range assignor: consecutive partitions of each topic. The first
    members get one more if the partitions cannot be divided evenly.

    Args:
        subscribed: the topics of each member.
        order: the sort key of each member.
        partitions: the number of partitions of each topic.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscribed}
    for topic in sorted({topic for topics in subscribed.values() for topic in topics}):
        members = sorted(
            (member for member, topics in subscribed.items() if topic in topics), key=order.__getitem__
        )
        share, more = divmod(partitions.get(topic, 0), len(members))
        start = 0
        for index, member in enumerate(members):
            end = start + share + (index < more)
            assigned[member] += [(topic, partition) for partition in range(start, end)]
            start = end
    return assigned


def _find_sort_key(member: Any) -> tuple[int, str]:
    """Return the sort key of a member: static members first, by instance id, then the others by member id."""
    if member.group_instance_id is not None:
        return 0, member.group_instance_id
    return 1, member.member_id


def _encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    assigned = [TopicPartitions(topic=name, partitions=each) for name, each in topics.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), _VERSION)


def _decode_partitions(assignment: bytes) -> list[TopicPartition]:
    if not assignment:
        return []
    assigned = decode_assignment(assignment).assigned_partitions
    return [(each.topic, partition) for each in assigned for partition in each.partitions]
