"""Users of the coordinator that are not members: a simple consumer and an administrator."""

from typing import Final

from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.simulation.client import PARTITIONS, REQUEST_TIMEOUT_MS, Caller, commit_request

SIMPLE_GROUP: Final = "simple"


class SimpleConsumer(Caller):
    """A consumer that assigns partitions to itself and uses the group only to commit offsets."""

    def act(self) -> None:
        """Commit an offset, fetch all offsets, and schedule the next call."""
        if not self.alive:
            return
        topic = self.world.random.choice(sorted(PARTITIONS))
        offsets = [(topic, number, self.world.new_value()) for number in range(PARTITIONS[topic])]
        version = self.world.random.choice([0, 1, 2, 5, 8, 9])
        request = commit_request(SIMPLE_GROUP, offsets)
        if self.world.chance(0.3):
            request.retention_time_ms = self.world.random.randint(1_000, 100_000)
        self.call(request, version, lambda _: self._read(), REQUEST_TIMEOUT_MS)
        self.world.after(self.world.random.randint(500, 5_000), self.act)

    def _read(self) -> None:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=SIMPLE_GROUP)])
        self.call(request, 8, lambda _: None, REQUEST_TIMEOUT_MS)


class Administrator(Caller):
    """An admin client that lists and describes groups and sometimes deletes a group or an offset."""

    groups: tuple[str, ...] = ()

    def act(self) -> None:
        """Send one request, and schedule the next call."""
        if not self.alive:
            return
        group_id = self.world.random.choice([*self.groups, SIMPLE_GROUP])
        kind = self.world.random.randrange(8)
        if kind == 0:
            self._ask(DeleteGroupsRequest(groups_names=[group_id]), 2)
        elif kind == 1:
            self._delete_offset(group_id)
        elif kind <= 3:
            self._ask(ListGroupsRequest(states_filter=["stable"]), 5)
        else:
            self._ask(DescribeGroupsRequest(groups=[group_id, "unheard-of"]), 5)
        self.world.after(self.world.random.randint(1_000, 10_000), self.act)

    def _delete_offset(self, group_id: str) -> None:
        topic = self.world.random.choice(sorted(PARTITIONS))
        partition = OffsetDeleteRequestPartition(
            partition_index=self.world.random.randrange(PARTITIONS[topic])
        )
        topics = [OffsetDeleteRequestTopic(name=topic, partitions=[partition])]
        self._ask(OffsetDeleteRequest(group_id=group_id, topics=topics), 0)

    def _ask(self, request: object, version: int) -> None:
        self.call(request, version, lambda _: None, REQUEST_TIMEOUT_MS)
