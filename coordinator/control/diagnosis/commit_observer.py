"""Commits as they are stored, one by one: seen only where oracle.commits asks for it.

Then the groups of a partition are made as a `WatchedShard`, which does what a shard does and tells of each offset
what it replaced. One of a transaction is stored when that is committed, and is told of then. Heartbeats do not pass
through it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from coordinator.group.config import GroupConfig
from coordinator.group.consumer.config import ConsumerGroupConfig
from coordinator.group.member_name import MemberName
from coordinator.group.offsets.offset_map import Place
from coordinator.group.requests import EndTransaction, Request
from coordinator.group.shard import Shard
from coordinator.group.topics_image import TopicsImage
from coordinator.machine.outcome import Context, Fact, Now, Outcome
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
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


class _Written(NamedTuple):
    """Who writes, and as a member of which generation."""

    writer: MemberName
    generation_id: int


_UNKNOWN: Final = _Written(MemberName("", None, "", ""), -1)
"""Who wrote what was pending when the groups were read: the log does not say."""


class WatchedShard(Shard):
    """See the top of this file."""

    __slots__ = ("_hear", "_pending")

    def __init__(
        self, hear: HearCommit, config: GroupConfig, topics: TopicsImage, consumer_config: ConsumerGroupConfig
    ) -> None:
        super().__init__(config, topics, consumer_config)
        self._hear = hear
        self._pending: dict[int, dict[Place, _Written]] = {}
        """By producer id: whose the offsets are that wait for the end of its transaction."""

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """See `Shard`."""
        if type(request) is OffsetCommitRequest:
            return self._commit(request, context, now)
        if type(request) is EndTransaction:
            return self._end(request, context, now)
        outcome = super().handle(request, context, now)
        if type(request) is TxnOffsetCommitRequest:
            written = _written(request, context)
            pending = {place: written for place, _ in _offsets(outcome.records)}
            if pending:
                self._pending.setdefault(request.producer_id, {}).update(pending)
        return outcome

    def _commit(self, request: OffsetCommitRequest, context: Context, now: Now) -> Outcome:
        group_id, value_of = request.group_id, self._groups.durable.offsets.get
        before = {
            (topic.name, part.partition_index): value_of(group_id, topic.name, part.partition_index)
            for topic in request.topics
            for part in topic.partitions
        }
        outcome = super().handle(request, context, now)
        if outcome.records:
            writer, generation_id = _written(request, context)
            for (_, topic, partition), offset in _offsets(outcome.records):
                value = before[topic, partition]
                replaced = None if value is None else value.offset
                self._hear(Commit(group_id, topic, partition, offset, replaced, writer, generation_id))
        return outcome

    def _end(self, request: EndTransaction, context: Context, now: Now) -> Outcome:
        offsets = self._groups.durable.offsets
        pending = offsets.pending.by_producer.get(request.producer_id, {})
        before = {place: (value, self.committed(*place)) for place, (_, value) in pending.items()}
        outcome = super().handle(request, context, now)
        written = self._pending.pop(request.producer_id, {})
        for place, (value, replaced) in before.items():
            if offsets.get(*place) is value:  # else it was dropped, or a newer one stays
                self._hear(Commit(*place, value.offset, replaced, *written.get(place, _UNKNOWN)))
        return outcome


def _written(request: OffsetCommitRequest | TxnOffsetCommitRequest, context: Context) -> _Written:
    writer = MemberName(request.member_id, request.group_instance_id, context.client_id, context.client_host)
    return _Written(writer, request.generation_id_or_member_epoch)


def _offsets(records: Iterable[Fact]) -> Iterable[tuple[Place, int]]:
    for record in records:
        key: Any = record.key
        if type(key) is OffsetCommitKey:
            yield (key.group, key.topic, key.partition), record.value.offset
