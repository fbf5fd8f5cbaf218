"""A minimal group of another type: the interface of non-classic groups."""

from collections.abc import Iterable, Iterator, Sequence

from coordinator.core.outcome import Fact, OutcomeBuilder
from coordinator.group.consumer.durable_consumer_group import ConsumerGroupState
from coordinator.group.durable_groups import DurableGroups
from coordinator.group.group_interface import ACCEPTED, CommitRequest, CommitValidation, Group
from coordinator.group.group_invariants import INVARIANT_CHECKS
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import GroupView
from coordinator.group.topics_image import TopicsImage
from protocol.error_codes import ErrorCode
from protocol.records.group_record_schemas import GroupMetadataKey


class StubGroup(Group):
    """A share group that accepts all commits except those of `foreign` partitions. It subscribes to the topics in
    `read`."""

    type = GroupType.SHARE
    protocol_type = "share"
    offsets_may_expire = True
    idle_since_ms: int | None = None
    is_dead = False

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.foreign: set[tuple[str, int]] = set()
        self.read: set[str] = set()
        self.has_members = True
        self.heard_of: list[str] = []
        self.sessions: dict[str, int] = {}

    @property
    def state(self) -> ConsumerGroupState:
        return ConsumerGroupState.STABLE if self.has_members else ConsumerGroupState.EMPTY

    @property
    def generation_id(self) -> int:
        return 0

    def find_static_member_id(self, group_instance_id: str) -> str | None:
        return None

    def validate_commit(self, request: CommitRequest, api_version: int) -> CommitValidation:
        if not self.foreign:
            return ACCEPTED
        return CommitValidation(ErrorCode.NONE, validate_partition=self._judge)

    def _judge(self, topic: str, topic_id: bytes, partition: int) -> ErrorCode:
        return ErrorCode.STALE_MEMBER_EPOCH if (topic, partition) in self.foreign else ErrorCode.NONE

    def validate_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def on_commit_accepted(self, member_id: str, builder: OutcomeBuilder) -> None:
        self.heard_of.append(member_id)

    def validate_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def validate_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.has_members else ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.read

    @property
    def is_abandoned(self) -> bool:
        return not self.has_members

    def tombstones(self) -> Iterable[Fact]:
        yield Fact(GroupMetadataKey(group=self.group_id), None)

    def retire(self, builder: OutcomeBuilder) -> None:
        self.is_dead = True

    def unload(self, builder: OutcomeBuilder) -> None:
        self.is_dead = True

    @property
    def member_count(self) -> int:
        return 0

    def session_margin(self, now_ms: int) -> float | None:
        return None

    def view(self, now_ms: int, topics: TopicsImage) -> GroupView:
        return GroupView(
            group_id=self.group_id,
            type=self.type,
            state=self.state_name,
            state_since_ms=None,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=None,
            leader_id=None,
            members=(),
            pending=(),
            rebalance=None,
        )

    def list_deadlines(self) -> Iterator[tuple[GroupTimerKey, int]]:
        for member_id, deadline_ms in self.sessions.items():
            yield GroupTimerKey(GroupTimerKind.HEARTBEAT, self.group_id, member_id), deadline_ms

    def extend_sessions(self, member_ids: Sequence[str], until_ms: int, builder: OutcomeBuilder) -> None:
        for member_id in self.sessions.keys() & set(member_ids):
            self.sessions[member_id] = max(self.sessions[member_id], until_ms)

    def shift_deadlines(self, by_ms: int, builder: OutcomeBuilder) -> None:
        for member_id in self.sessions:
            self.sessions[member_id] += by_ms


def _check_stub_group(group: StubGroup, durable: DurableGroups, waiters: set[int]) -> None:
    assert group.has_members or not group.sessions, group.group_id


INVARIANT_CHECKS[GroupType.SHARE] = _check_stub_group
