"""Observes each stored commit, if `oracle.commits` is on.

The groups of a partition are then a `WatchedShard`, which decorates the shard and reports each stored offset
with the offset that it replaced. The offset of a transaction is reported when the transaction is committed.
Heartbeats bypass the decorator.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from coordinator.core.outcome import Context, Fact, Now, Outcome
from coordinator.group.durable_groups import OffsetKey
from coordinator.group.event_details import MemberName
from coordinator.group.group_config import ConsumerGroupConfig, GroupConfig
from coordinator.group.group_requests import EndTransaction, Request
from coordinator.group.group_shard import GroupShard
from coordinator.group.topics_image import TopicsImage
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.records.group_record_schemas import OffsetCommitKey


class StoredCommit(NamedTuple):
    """A stored offset. `generation_id` is -1 if the writer is not a member. `before` is the replaced offset
    or None."""

    group_id: str
    topic: str
    partition: int
    offset: int
    before: int | None
    writer: MemberName
    generation_id: int


CommitListener = Callable[[StoredCommit], None]


class _CommitWriter(NamedTuple):
    """Who writes, and as a member of which generation."""

    writer: MemberName
    generation_id: int


_UNKNOWN: Final = _CommitWriter(MemberName("", None, "", ""), -1)
"""The writer of offsets that were pending when the log was loaded. The log does not name it."""


class WatchedShard(GroupShard):
    __slots__ = ("_hear", "_pending")

    def __init__(
        self,
        hear: CommitListener,
        config: GroupConfig,
        topics: TopicsImage,
        consumer_config: ConsumerGroupConfig,
    ) -> None:
        super().__init__(config, topics, consumer_config)
        self._hear = hear
        self._pending: dict[int, dict[OffsetKey, _CommitWriter]] = {}
        """The writers of pending offsets, by producer id."""

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        if type(request) is OffsetCommitRequest:
            return self._commit(request, context, now)
        if type(request) is EndTransaction:
            return self._end(request, context, now)
        outcome = super().handle(request, context, now)
        if type(request) is TxnOffsetCommitRequest:
            written = _read_writer(request, context)
            pending = {place: written for place, _ in _iterate_offsets(outcome.records)}
            if pending:
                self._pending.setdefault(request.producer_id, {}).update(pending)
        return outcome

    def _commit(self, request: OffsetCommitRequest, context: Context, now: Now) -> Outcome:
        group_id, value_of = request.group_id, self._groups.durable.offsets.find_offset
        before = {
            (topic.name, part.partition_index): value_of(group_id, topic.name, part.partition_index)
            for topic in request.topics
            for part in topic.partitions
        }
        outcome = super().handle(request, context, now)
        if outcome.records:
            writer, generation_id = _read_writer(request, context)
            for (_, topic, partition), offset in _iterate_offsets(outcome.records):
                value = before[topic, partition]
                replaced = None if value is None else value.offset
                self._hear(StoredCommit(group_id, topic, partition, offset, replaced, writer, generation_id))
        return outcome

    def _end(self, request: EndTransaction, context: Context, now: Now) -> Outcome:
        offsets = self._groups.durable.offsets
        pending = offsets.pending.by_producer.get(request.producer_id, {})
        before = {place: (value, self.find_committed_offset(*place)) for place, (_, value) in pending.items()}
        outcome = super().handle(request, context, now)
        written = self._pending.pop(request.producer_id, {})
        for place, (value, replaced) in before.items():
            if offsets.find_offset(*place) is value:  # else it was dropped, or a newer one stays
                self._hear(StoredCommit(*place, value.offset, replaced, *written.get(place, _UNKNOWN)))
        return outcome


def _read_writer(request: OffsetCommitRequest | TxnOffsetCommitRequest, context: Context) -> _CommitWriter:
    writer = MemberName(request.member_id, request.group_instance_id, context.client_id, context.client_host)
    return _CommitWriter(writer, request.generation_id_or_member_epoch)


def _iterate_offsets(records: Iterable[Fact]) -> Iterable[tuple[OffsetKey, int]]:
    for record in records:
        key: Any = record.key
        if type(key) is OffsetCommitKey:
            yield (key.group, key.topic, key.partition), record.value.offset
