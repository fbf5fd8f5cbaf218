"""Observes each stored commit, if `oracle.commits` is on.

A `CommitObserver` intercepts the calls of each partition's shard, and reports each stored offset with the offset
that it replaced. The offset of a transaction is reported when the transaction is committed.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from coordinator.core.interceptors import InterceptorRank
from coordinator.core.outcome import Context, Fact, Now, Outcome
from coordinator.group.durable_groups import OffsetKey
from coordinator.group.event_details import MemberName
from coordinator.group.group_interface import GroupTimeSource
from coordinator.group.group_requests import EndTransaction, Request
from coordinator.group.group_shard import GroupShard, ShardDecorator
from coordinator.runtime.runtime import Runtime
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.records.group_record_schemas import OffsetCommitKey

MAX_KEPT_COMMITS: Final = 20_000
"""The maximum number of stored commits that wait for a subscriber. groupd drops the oldest ones beyond this
number."""


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
    """The writer of a commit, with the generation of its membership."""

    writer: MemberName
    generation_id: int


_UNKNOWN: Final = _CommitWriter(MemberName("", None, "", ""), -1)
"""The writer of offsets that were pending when the log was loaded. The log does not name it."""


class CommitObserver:
    """Intercepts the calls of one partition's shards, and reports stored commits.

    The writers of pending offsets outlive a change of the interceptors, but not a load.
    """

    def __init__(self, on_commit: CommitListener) -> None:
        """Create an observer. `on_commit` gets each stored commit."""
        self._on_commit = on_commit
        self._pending: dict[int, dict[OffsetKey, _CommitWriter]] = {}
        """The writers of pending offsets, by producer id."""

    def intercept(self, shard: GroupShard) -> GroupShard:
        """Return a shard that reports its stored commits. Heartbeats bypass it."""
        return _ObservedShard(shard, self)

    def on_loaded(self) -> None:
        """Forget the writers of pending offsets: the log does not name them."""
        self._pending.clear()

    def handle_commit(
        self, shard: GroupShard, request: OffsetCommitRequest, context: Context, now: Now
    ) -> Outcome:
        """Handle an OffsetCommit, and report its stored offsets."""
        group_id = request.group_id
        before = {
            (topic.name, part.partition_index): shard.find_committed_offset(
                group_id, topic.name, part.partition_index
            )
            for topic in request.topics
            for part in topic.partitions
        }
        outcome = shard.handle(request, context, now)
        if outcome.records:
            writer, generation_id = _read_writer(request, context)
            for (_, topic, partition), offset in _iterate_offsets(outcome.records):
                replaced = before[topic, partition]
                self._on_commit(
                    StoredCommit(group_id, topic, partition, offset, replaced, writer, generation_id)
                )
        return outcome

    def handle_pending_commit(
        self, shard: GroupShard, request: TxnOffsetCommitRequest, context: Context, now: Now
    ) -> Outcome:
        """Handle a TxnOffsetCommit, and remember the writer of its offsets."""
        outcome = shard.handle(request, context, now)
        written = _read_writer(request, context)
        pending = {place: written for place, _ in _iterate_offsets(outcome.records)}
        if pending:
            self._pending.setdefault(request.producer_id, {}).update(pending)
        return outcome

    def handle_end(self, shard: GroupShard, request: EndTransaction, context: Context, now: Now) -> Outcome:
        """Handle the end of a transaction, and report the offsets that it has committed."""
        pending = shard.list_pending_values(request.producer_id)
        before = {place: (value, shard.find_committed_offset(*place)) for place, value in pending.items()}
        outcome = shard.handle(request, context, now)
        written = self._pending.pop(request.producer_id, {})
        for place, (value, replaced) in before.items():
            if shard.find_committed_value(*place) is value:  # else it was dropped, or a newer one stays
                writer = written.get(place, _UNKNOWN)
                self._on_commit(StoredCommit(*place, value.offset, replaced, *writer))
        return outcome


class _ObservedShard(ShardDecorator):
    __slots__ = ("_observer",)

    def __init__(self, inner: GroupShard, observer: CommitObserver) -> None:
        super().__init__(inner)
        self._observer = observer

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        if type(request) is OffsetCommitRequest:
            return self._observer.handle_commit(self.inner, request, context, now)
        if type(request) is TxnOffsetCommitRequest:
            return self._observer.handle_pending_commit(self.inner, request, context, now)
        if type(request) is EndTransaction:
            return self._observer.handle_end(self.inner, request, context, now)
        return self.inner.handle(request, context, now)

    def on_loaded(self, now: Now, time_source: GroupTimeSource | None = None) -> Outcome:
        self._observer.on_loaded()
        return self.inner.on_loaded(now, time_source)


class CommitFeed:
    """The stored commits of all partitions of a server, for one subscriber."""

    def __init__(self, runtime: Runtime[GroupShard]) -> None:
        """Observe the partitions of a runtime from now on. Commits are kept until `subscribe`."""
        self._on_commit: CommitListener | None = None
        self._kept: deque[StoredCommit] = deque(maxlen=MAX_KEPT_COMMITS)
        for partition in runtime.partitions:
            partition.interceptors.add(InterceptorRank.ORACLES, CommitObserver(self._report_commit).intercept)

    def subscribe(self, on_commit: CommitListener) -> None:
        """Pass the kept commits, and each later one, to the subscriber."""
        assert self._on_commit is None, "a feed has one subscriber"
        self._on_commit = on_commit
        for commit in self._kept:
            on_commit(commit)
        self._kept.clear()

    def _report_commit(self, commit: StoredCommit) -> None:
        if self._on_commit is None:
            self._kept.append(commit)
        else:
            self._on_commit(commit)


def _read_writer(request: OffsetCommitRequest | TxnOffsetCommitRequest, context: Context) -> _CommitWriter:
    writer = MemberName(request.member_id, request.group_instance_id, context.client_id, context.client_host)
    return _CommitWriter(writer, request.generation_id_or_member_epoch)


def _iterate_offsets(records: Iterable[Fact]) -> Iterable[tuple[OffsetKey, int]]:
    for record in records:
        key: Any = record.key
        if type(key) is OffsetCommitKey:
            yield (key.group, key.topic, key.partition), record.value.offset
