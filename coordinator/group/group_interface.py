"""What a group is to requests that are not of its own protocol: commits, expiry, what operators ask for.

Each type of group has its own package and its own requests; all others use this interface. Source: Kafka's
`Group`.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol, TypeAlias

from coordinator.core.outcome import Fact, Now, OutcomeBuilder
from coordinator.group.durable_groups import DurableGroups
from coordinator.group.event_details import RefusalDetail
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import GroupView
from coordinator.group.topics_image import TopicsImage
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

CommitRequest: TypeAlias = OffsetCommitRequest | TxnOffsetCommitRequest
"""A commit, plain or in a transaction; the two name their sender alike."""

ValidatePartition: TypeAlias = Callable[[str, bytes, int], ErrorCode]
"""Takes a topic's name, its id and a partition; NONE when its offset may be stored."""

GroupTimeSource: TypeAlias = Callable[[str, Now], Now]
"""Takes a group's id and the time of a call; gives the time that it is for that group."""


class CommitValidation(NamedTuple):
    """Whether a commit may be stored: an error of all of it, with what there is to say beside it; or, where it
    depends on the partition, who judges that."""

    error: ErrorCode
    detail: RefusalDetail | None = None
    validate_partition: ValidatePartition | None = None


ACCEPTED: Final = CommitValidation(ErrorCode.NONE)


class Group(Protocol):
    """A group of any type."""

    @property
    def group_id(self) -> str:
        """The id of the group."""

    @property
    def type(self) -> GroupType:
        """The type of the group: which requests it answers."""

    @property
    def protocol_type(self) -> str | None:
        """What its members are ("consumer", "connect"); None where no member has said so yet."""

    @property
    def state_name(self) -> str:
        """Its state, as ListGroups and DescribeGroups call it."""

    @property
    def is_dead(self) -> bool:
        """Whether it was removed or given up."""

    @property
    def generation_id(self) -> int:
        """Its generation, or its epoch where it has those."""

    @property
    def member_count(self) -> int:
        """How many members it has."""

    def find_static_member_id(self, group_instance_id: str) -> str | None:
        """The id of the member that has this instance id; None when there is none."""

    def validate_commit(self, request: CommitRequest, api_version: int) -> CommitValidation:
        """Whether the sender may commit now. In a transaction more may than else: whoever takes its partitions over
        waits for the end of that."""

    def validate_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Why a sender may not fetch offsets as that member at that epoch (None, -1: as nobody); NONE when it
        may."""

    def on_commit_accepted(self, member_id: str, builder: OutcomeBuilder) -> None:
        """A plain commit of this member was accepted ("" for no member)."""

    def validate_offset_delete(self) -> ErrorCode:
        """Why no offset of it may be deleted by request; NONE when those of topics that nobody reads may be."""

    def validate_delete(self) -> ErrorCode:
        """Why it may not be deleted by request; NONE when it may be."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic, or may: its offsets are needed."""

    @property
    def offsets_may_expire(self) -> bool:
        """Whether offsets of topics that nobody reads may expire."""

    @property
    def idle_since_ms(self) -> int | None:
        """Since when (wall) nobody has needed any of its offsets; None where that is each one's commit."""

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody is in it or about to be: with its last offset it goes, too."""

    def tombstones(self) -> Iterable[Fact]:
        """The records of its end, those of its offsets aside."""

    def retire(self, builder: OutcomeBuilder) -> None:
        """It is removed: cancel its timers. From now on it is dead."""

    def unload(self, builder: OutcomeBuilder) -> None:
        """It is given up: answer whoever is parked with NOT_COORDINATOR, and write nothing. From now on it is
        dead."""

    def view(self, now_ms: int, topics: TopicsImage) -> GroupView:
        """The group as it is at a monotonic time, as values. In: the topics, whose ids it may have."""

    def session_margin(self, now_ms: int) -> float | None:
        """The least share of its session, from 0 to 1, that a member has left at a monotonic time; None where no
        member's session runs."""

    def check_invariants(self, durable: DurableGroups, waiters: set[int]) -> None:
        """Raise AssertionError when something is not as it must be. `waiters` are those who are parked in other
        groups; add one's own."""
