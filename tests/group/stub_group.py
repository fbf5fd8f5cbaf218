"""A group of another type, as small as one can be: what the coordinator asks of groups that are not classic."""

from collections.abc import Iterable

from coordinator.core.outcome import Fact, OutcomeBuilder
from coordinator.group.durable_groups import DurableGroups
from coordinator.group.group_interface import ACCEPTED, CommitRequest, CommitValidation
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import GroupView
from coordinator.group.topics_image import TopicsImage
from protocol.error_codes import ErrorCode
from protocol.records.group_record_schemas import GroupMetadataKey


class StubGroup:
    """A share group that takes commits, but of `foreign` partitions; it reads the topics in `read`."""

    type = GroupType.SHARE
    protocol_type = "share"
    offsets_may_expire = True
    idle_since_ms: int | None = None

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.foreign: set[tuple[str, int]] = set()
        self.read: set[str] = set()
        self.has_members = True
        self.is_dead = False
        self.heard_of: list[str] = []

    @property
    def state_name(self) -> str:
        return "Stable" if self.has_members else "Empty"

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

    def check_invariants(self, durable: DurableGroups, waiters: set[int]) -> None:
        assert self.group_id
