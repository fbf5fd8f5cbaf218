"""The interface that groups of every type implement. Each type of group has its own package with its own requests.
Commits, expiration, admin requests and the clock of a group use only this interface.

Source: Kafka's `Group`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import ClassVar, Final, NamedTuple, TypeAlias

from coordinator.core.outcome import Fact, Now, OutcomeBuilder
from coordinator.group.event_details import RefusalDetail
from coordinator.group.group_requests import GroupTimerKey
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import GroupView
from coordinator.group.topics_image import TopicsImage
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

CommitRequest: TypeAlias = OffsetCommitRequest | TxnOffsetCommitRequest
"""A commit, plain or in a transaction. Both have the same fields for their sender."""

ValidatePartition: TypeAlias = Callable[[str, bytes, int], ErrorCode]
"""Takes a topic's name, its id and a partition. Returns NONE if the group may store an offset of it, else the
error.
"""

GroupTimeSource: TypeAlias = Callable[[str, Now], Now]
"""Takes a group's id and the time of a call. Returns the time by the clock of that group."""


class CommitValidation(NamedTuple):
    """The result of the validation of a commit: an error of the whole commit with its detail, or a function that
    validates each partition."""

    error: ErrorCode
    detail: RefusalDetail | None = None
    validate_partition: ValidatePartition | None = None


ACCEPTED: Final = CommitValidation(ErrorCode.NONE)


class Group(ABC):
    """A group of any type. Times are in milliseconds; `now_ms` is monotonic."""

    __slots__ = ()

    type: ClassVar[GroupType]
    group_id: str

    @property
    @abstractmethod
    def protocol_type(self) -> str | None:
        """Return the protocol type of the members ("consumer", "connect"); None before the first member."""

    @property
    @abstractmethod
    def state(self) -> Enum:
        """Return the state, in the enumeration of the group's type."""

    @property
    def state_name(self) -> str:
        """Return the name of the state in ListGroups and DescribeGroups."""
        name: str = self.state.value
        return name

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Return whether the shard has removed or unloaded the group."""

    @property
    @abstractmethod
    def generation_id(self) -> int:
        """Return the generation of a classic group, the epoch of other groups."""

    @property
    @abstractmethod
    def member_count(self) -> int:
        """Return the number of members, without pending ones."""

    @abstractmethod
    def find_static_member_id(self, group_instance_id: str) -> str | None:
        """Return the id of the member that has this instance id; None without one."""

    @abstractmethod
    def view(self, now_ms: int, topics: TopicsImage) -> GroupView:
        """Return the view of the group at a time. `topics` gives the names of topic ids."""

    # Commits and fetches of offsets

    @abstractmethod
    def validate_commit(self, request: CommitRequest, api_version: int) -> CommitValidation:
        """Validate the sender of a commit. Its partitions are validated by the function in the result."""

    @abstractmethod
    def validate_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Return NONE when a sender may fetch offsets as a member at an epoch, else the error.

        For a sender without a member id, `member_id` is None and `epoch` is -1.
        """

    @abstractmethod
    def on_commit_accepted(self, member_id: str, builder: OutcomeBuilder) -> None:
        """Treat a plain commit of a member ("" without one) as a heartbeat, if the type of group does so."""

    # Deletion and expiration of offsets

    @abstractmethod
    def validate_offset_delete(self) -> ErrorCode:
        """Return NONE when a request may delete offsets of topics without a subscription, else the error."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether the group needs the offsets of a topic, because a member consumes it or may do so."""

    @property
    @abstractmethod
    def offsets_may_expire(self) -> bool:
        """Return whether offsets of topics without a subscription may expire."""

    @property
    @abstractmethod
    def idle_since_ms(self) -> int | None:
        """Return the wall time from which retention counts for all offsets; None if it counts from each commit."""

    # Deadlines

    @abstractmethod
    def list_deadlines(self) -> Iterator[tuple[GroupTimerKey, int]]:
        """Iterate over the timers that are armed, each with the monotonic time at which it has an effect.

        The timer of a member that sent a heartbeat may fire earlier, without an effect.
        """

    @abstractmethod
    def extend_sessions(self, member_ids: Sequence[str], until_ms: int, builder: OutcomeBuilder) -> None:
        """Keep the sessions of members alive at least until a monotonic time. Ignores unknown ids."""

    @abstractmethod
    def shift_deadlines(self, by_ms: int, builder: OutcomeBuilder) -> None:
        """Add `by_ms` to all deadlines. The caller arms the timers of `list_deadlines` again."""

    @abstractmethod
    def session_margin(self, now_ms: int) -> float | None:
        """Return the smallest remaining share of a session, from 0 to 1; None without a session."""

    # The end

    @abstractmethod
    def validate_delete(self) -> ErrorCode:
        """Return NONE when a request may delete the group, else the error."""

    @property
    @abstractmethod
    def is_abandoned(self) -> bool:
        """Return whether the group has no members. The shard then removes it together with its last offset."""

    @abstractmethod
    def tombstones(self) -> Iterable[Fact]:
        """Return the tombstones of all records of the group, except those of offsets."""

    @abstractmethod
    def retire(self, builder: OutcomeBuilder) -> None:
        """Cancel the timers of a group without members, and mark it as dead."""

    @abstractmethod
    def unload(self, builder: OutcomeBuilder) -> None:
        """Answer parked requests with NOT_COORDINATOR, write nothing, and mark the group as dead."""
