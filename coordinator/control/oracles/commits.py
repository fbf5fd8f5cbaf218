"""Commits as they are stored, one by one: seen only where oracle.commits asks for it.

Then the groups of a partition are made as a `WatchedShard`, which does what a shard does and tells of each offset
what it replaced. Heartbeats do not pass through it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.group.config import GroupConfig
from coordinator.group.consumer.config import ConsumerGroupConfig
from coordinator.group.member_name import MemberName
from coordinator.group.requests import Request
from coordinator.group.shard import Shard
from coordinator.group.topics_image import TopicsImage
from coordinator.machine.outcome import Context, Now, Outcome
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.records import OffsetCommitKey


class Commit(NamedTuple):
    """An offset that was stored. `generation_id` is -1 where the writer is no member; `before` is what it replaced,
    None for nothing."""

    group_id: str
    topic: str
    partition: int
    offset: int
    before: int | None
    writer: MemberName
    generation_id: int


HearCommit = Callable[[Commit], None]


class WatchedShard(Shard):
    """See the top of this file."""

    __slots__ = ("_hear",)

    def __init__(
        self, hear: HearCommit, config: GroupConfig, topics: TopicsImage, consumer_config: ConsumerGroupConfig
    ) -> None:
        super().__init__(config, topics, consumer_config)
        self._hear = hear

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """See `Shard`."""
        if type(request) is not OffsetCommitRequest:
            return super().handle(request, context, now)
        group_id = request.group_id
        before = {
            (topic.name, part.partition_index): self.committed(group_id, topic.name, part.partition_index)
            for topic in request.topics
            for part in topic.partitions
        }
        outcome = super().handle(request, context, now)
        writer = MemberName(
            request.member_id, request.group_instance_id, context.client_id, context.client_host
        )
        for record in outcome.records:
            key: Any = record.key
            if type(key) is OffsetCommitKey:
                place = key.topic, key.partition
                self._hear(
                    Commit(
                        group_id,
                        *place,
                        record.value.offset,
                        before[place],
                        writer,
                        request.generation_id_or_member_epoch,
                    )
                )
        return outcome
