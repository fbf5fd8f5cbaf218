"""What a group is to requests that are not of its own protocol: commits, expiry, what operators ask for.

Each type of group has its own package and its own requests; to all others it shows this face. Source: Kafka's
`Group`.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol, TypeAlias

from coordinator.group.durable import DurableState
from coordinator.group.group_type import GroupType
from coordinator.group.refusal_facts import RefusalDetail
from coordinator.group.topics_image import TopicsImage
from coordinator.group.view import GroupView
from coordinator.machine.outcome import Fact, Now
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

CommitRequest: TypeAlias = OffsetCommitRequest | TxnOffsetCommitRequest
"""A commit, plain or in a transaction; the two name their sender alike."""

PartitionVerdict: TypeAlias = Callable[[str, bytes, int], ErrorCode]
"""Takes a topic's name, its id and a partition; NONE when its offset may be stored."""

NowOf: TypeAlias = Callable[[str, Now], Now]
"""Takes a group's id and the time of a call; gives the time that it is for that group."""


class CommitVerdict(NamedTuple):
    """Whether a commit may be stored: an error of all of it, with what there is to say beside it; or, where it
    depends on the partition, who judges that."""

    error: ErrorCode
    detail: RefusalDetail | None = None
    of_partition: PartitionVerdict | None = None


ACCEPTED: Final = CommitVerdict(ErrorCode.NONE)


class Group(Protocol):
    """A group of any type."""

    @property
    def group_id(self) -> str:
        """Its name."""

    @property
    def type(self) -> GroupType:
        """Whose requests it answers."""

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

    def holder_of(self, group_instance_id: str) -> str | None:
        """The id of the member that has this instance id; None when there is none."""

    def commit_verdict(self, request: CommitRequest, api_version: int) -> CommitVerdict:
        """Whether the sender may commit now. In a transaction more may than else: whoever takes its partitions over
        waits for the end of that."""

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Why a sender may not fetch offsets as that member at that epoch (None, -1: as nobody); NONE when it
        may."""

    def heard(self, member_id: str, turn: Turn) -> None:
        """A plain commit of this member was accepted ("" for no member)."""

    def offset_delete_error(self) -> ErrorCode:
        """Why no offset of it may be deleted by request; NONE when those of topics that nobody reads may be."""

    def delete_error(self) -> ErrorCode:
        """Why it may not be deleted by request; NONE when it may be."""

    def reads(self, topic: str) -> bool:
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

    def end(self, turn: Turn) -> None:
        """It is removed: cancel its timers. From now on it is dead."""

    def unload(self, turn: Turn) -> None:
        """It is given up: answer whoever is parked with NOT_COORDINATOR, and write nothing. From now on it is
        dead."""

    def view(self, now_ms: int, topics: TopicsImage) -> GroupView:
        """The group as it is at a monotonic time, as values. In: the topics, whose ids it may have."""

    def session_margin(self, now_ms: int) -> float | None:
        """The least share of its session, from 0 to 1, that a member has left at a monotonic time; None where no
        member's session runs."""

    def check(self, durable: DurableState, waiters: set[int]) -> None:
        """Raise AssertionError when something is not as it must be. `waiters` are those who are parked in other
        groups; add one's own."""
