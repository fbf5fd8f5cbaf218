"""The groups of one shard, by id. The one place that says which type a group is: today every group is a
classic one; a group of another type (KIP-848 consumer, share) would be found, and refused to the requests
of the classic protocol, here."""

from collections.abc import Iterable
from enum import StrEnum

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.config import GroupConfig
from coordinator.group.durable import DurableState


class GroupType(StrEnum):
    """A type of group; its value is the name that ListGroups gives it."""

    CLASSIC = "classic"


class Groups:
    """The soft half of a shard (`classic`: who is a member, who waits) beside the durable one."""

    __slots__ = ("classic", "config", "durable")

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.durable = DurableState()
        self.classic: dict[str, ClassicGroup] = {}

    def find_classic(self, group_id: str) -> ClassicGroup | None:
        """The classic group of that id; None when there is none."""
        return self.classic.get(group_id)

    def create_classic(self, group_id: str, wall_ms: int) -> ClassicGroup:
        """A new, empty group; `wall_ms` is when it became empty."""
        assert group_id not in self.classic, group_id
        group = ClassicGroup(group_id, wall_ms)
        self.classic[group_id] = group
        return group

    def remove(self, group_id: str) -> None:
        """Forget a group that was made Dead."""
        assert group_id not in self.durable.metadata.group_ids(), group_id
        assert group_id not in self.durable.offsets.group_ids(), group_id
        del self.classic[group_id]

    def all(self) -> Iterable[ClassicGroup]:
        """Every group, oldest first."""
        return self.classic.values()

    def type_of(self, group_id: str) -> GroupType | None:
        """Which type a group is; None when there is no such group."""
        return GroupType.CLASSIC if group_id in self.classic else None
