"""The groups of one `__consumer_offsets` partition: the face of the core.

A shard has two halves. The durable one (`durable.py`) is what the log says; `replay` alone writes it, for
records that handlers emit as for those read back. The soft one (`groups.py`: members, parked requests,
deadlines) is written by the handlers; after a restart `loaded` makes it from the durable half, and what
was not written, such as a rebalance under way, is forgotten, as in Kafka.

To follow a request: `handle` finds the handler by the request's class; the file has the request's name.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from coordinator.group.admin.delete_groups import delete_groups
from coordinator.group.admin.describe_groups import describe_groups
from coordinator.group.admin.list_groups import list_groups
from coordinator.group.classic import heartbeat as classic_heartbeat
from coordinator.group.classic.heartbeat import fire_heartbeat
from coordinator.group.classic.rebalance import fire_join, fire_sync
from coordinator.group.classic.report import fire_report
from coordinator.group.classic_requests import classic_request
from coordinator.group.config import GroupConfig
from coordinator.group.consumer import beat as consumer_beat
from coordinator.group.consumer.config import ConsumerGroupConfig
from coordinator.group.consumer.configs_changed import group_configs_changed
from coordinator.group.consumer.describe import consumer_group_describe
from coordinator.group.consumer.fence import (
    fire_classic_join,
    fire_classic_sync,
    fire_rebalance,
    fire_session,
)
from coordinator.group.consumer.heartbeat import consumer_group_heartbeat
from coordinator.group.consumer.regular_expressions import REGEX_WORK, regexes_resolved
from coordinator.group.consumer.state import ConsumerGroupState
from coordinator.group.consumer.target import TARGET_WORK
from coordinator.group.consumer.target_computed import target_computed, unload_targets
from coordinator.group.durable import DurableGroup, DurableState
from coordinator.group.group import NowOf
from coordinator.group.groups import Groups
from coordinator.group.invariants import check_invariants
from coordinator.group.load import load_groups
from coordinator.group.offsets.commit import offset_commit
from coordinator.group.offsets.delete import offset_delete, topics_changed
from coordinator.group.offsets.end_transaction import end_transaction
from coordinator.group.offsets.expire import arm_expiry, expire_offsets, fire_expire_offsets
from coordinator.group.offsets.fetch import fetch_offsets
from coordinator.group.offsets.txn_commit import txn_offset_commit
from coordinator.group.requests import (
    EndTransaction,
    ExpireMember,
    ExpireOffsets,
    FetchOffsets,
    GroupConfigsChanged,
    KeepAlive,
    MoveTimes,
    Request,
    TopicsChanged,
)
from coordinator.group.state import ClassicGroupState
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.group.times import deadlines, expire_member, keep_alive, move_times
from coordinator.group.topics_image import TopicsImage
from coordinator.group.view import GroupStanding, GroupView
from coordinator.machine.outcome import NO_PRODUCER_ID, Context, Fact, Now, Outcome, WorkDone
from coordinator.machine.turn import Turn
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

Handler: TypeAlias = Callable[[Groups, Any, Context, Turn], None]

HANDLERS: Final[dict[type[object], Handler]] = {
    JoinGroupRequest: classic_request,
    SyncGroupRequest: classic_request,
    HeartbeatRequest: classic_request,
    LeaveGroupRequest: classic_request,
    ConsumerGroupHeartbeatRequest: consumer_group_heartbeat,
    ConsumerGroupDescribeRequest: consumer_group_describe,
    OffsetCommitRequest: offset_commit,
    TxnOffsetCommitRequest: txn_offset_commit,
    EndTransaction: end_transaction,
    FetchOffsets: fetch_offsets,
    OffsetDeleteRequest: offset_delete,
    DescribeGroupsRequest: describe_groups,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
    ExpireMember: expire_member,
    KeepAlive: keep_alive,
    MoveTimes: move_times,
    ExpireOffsets: expire_offsets,
}

BEATS: Final[dict[type[object], Callable[[Groups, Any, Context, int], object | None]]] = {
    HeartbeatRequest: classic_heartbeat.beat,
    ConsumerGroupHeartbeatRequest: consumer_beat.beat,
}
"""The shortcuts of requests that come again and again."""

FIRES: Final[dict[TimerKind, Callable[[Groups, TimerKey, Turn], None]]] = {
    TimerKind.HEARTBEAT: fire_heartbeat,
    TimerKind.JOIN: fire_join,
    TimerKind.SYNC: fire_sync,
    TimerKind.REPORT: fire_report,
    TimerKind.CONSUMER_SESSION: fire_session,
    TimerKind.CONSUMER_REBALANCE: fire_rebalance,
    TimerKind.CLASSIC_MEMBER_JOIN: fire_classic_join,
    TimerKind.CLASSIC_MEMBER_SYNC: fire_classic_sync,
}
"""The timers of one group each."""

TOLD: Final[dict[type[object], Callable[[Groups, Any, Turn], None]]] = {
    TopicsChanged: topics_changed,
    GroupConfigsChanged: group_configs_changed,
    WorkDone: lambda groups, done, turn: RESULTS[done.work.name](groups, done, turn),
}
"""What nobody waits for."""

RESULTS: Final[dict[str, Callable[[Groups, WorkDone, Turn], None]]] = {
    TARGET_WORK: target_computed,
    REGEX_WORK: regexes_resolved,
}
"""What was done somewhere else, by the name of the work."""


class Shard:
    """All groups of one partition. Not for several threads; every call returns without waiting."""

    __slots__ = ("_groups", "beat")

    def __init__(
        self, config: GroupConfig, topics: TopicsImage, consumer_config: ConsumerGroupConfig
    ) -> None:
        """In: the topics as they are now; TopicsChanged says when they are others."""
        self._groups = Groups(config, topics, consumer_config)
        self.beat: Callable[[Any, Context, int], object | None] = partial(_beat, self._groups)
        """Take a request of `BEATS`, at a monotonic time in milliseconds, from which nothing follows but its
        answer. None: nothing was done, and `handle` has to be asked."""

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """Act on a request. It is answered among the outcome's replies, or parked: then a later outcome
        answers its waiter. Every waiter is answered exactly once; TopicsChanged, GroupConfigsChanged and WorkDone
        have no reply."""
        turn = Turn(now, self._groups.durable.replay)
        handler = HANDLERS.get(type(request))
        if handler is not None:
            handler(self._groups, request, context, turn)
        else:
            TOLD[type(request)](self._groups, request, turn)
        return turn.outcome()

    def fire(self, key: TimerKey, now: Now, now_of: NowOf | None = None) -> Outcome:
        """Act on a timer whose deadline has passed. One that was cancelled or moved may fire all the same:
        it does nothing, or is set anew. In: what time it is for each group, where that is not the same."""
        turn = Turn(now, self._groups.durable.replay)
        if key.kind is TimerKind.EXPIRE_OFFSETS:
            fire_expire_offsets(self._groups, turn, now_of)
        else:
            FIRES[key.kind](self._groups, key, turn)
        return turn.outcome()

    def replay(self, record: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log to the durable state; one of a transaction waits there for its end.
        While loading; live records are applied already."""
        self._groups.durable.replay(record, producer_id)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Apply the marker at the end of a producer's transaction. While loading."""
        self._groups.durable.end_transaction(producer_id, is_committed=is_committed)

    @property
    def has_open_transactions(self) -> bool:
        """Whether records wait for the end of their transaction."""
        return self._groups.durable.has_open_transactions

    def loaded(self, now: Now, now_of: NowOf | None = None) -> Outcome:
        """The last record was replayed: make the groups from the durable state, with a full session for
        every member. ValueError when a record cannot be of a group. In: what time it is for each group, where
        that is not the same."""
        turn = Turn(now, self._groups.durable.replay)
        load_groups(self._groups, turn, now_of)
        arm_expiry(self._groups, turn)
        return turn.outcome()

    def unload(self) -> list[tuple[int, object]]:
        """Give the groups up: NOT_COORDINATOR for everyone who is parked. The shard answers nothing useful
        any more."""
        turn = Turn(Now(0, 0), self._groups.durable.replay)
        for group in self._groups.all():
            group.unload(turn)
        unload_targets(self._groups, turn)
        assert not turn.records, turn.records
        return turn.replies

    def group_ids(self) -> list[str]:
        """Those of every group, oldest first."""
        return list(self._groups.by_id)

    def view(self, group_id: str, now: Now) -> GroupView | None:
        """A group as it is now, as values; None when there is none of that id."""
        group = self._groups.find(group_id)
        if group is None:
            return None
        view, pending = (
            group.view(now.monotonic_ms, self._groups.topics),
            self._groups.durable.offsets.pending_by_producer(group_id),
        )
        return replace(view, pending_offsets=pending) if pending else view

    def standing(self, group_id: str) -> GroupStanding | None:
        """A group in few words; None when there is none of that id."""
        group = self._groups.find(group_id)
        return None if group is None else GroupStanding(group.type, group.state_name, group.member_count)

    def session_margin(self, group_id: str, now: Now) -> float | None:
        """The least share of its session, from 0 to 1, that a member of a group has left; None where no member's
        session runs, or there is no such group."""
        group = self._groups.find(group_id)
        return None if group is None else group.session_margin(now.monotonic_ms)

    def deadlines(self, group_id: str) -> dict[TimerKey, int]:
        """What time alone will bring about in a group, with its monotonic time; nothing when there is no such
        group."""
        return dict(deadlines(self._groups, group_id))

    def committed(self, group_id: str, topic: str, partition: int) -> int | None:
        """The committed offset of a partition; None when there is none."""
        value = self._groups.durable.offsets.get(group_id, topic, partition)
        return None if value is None else value.offset

    def committed_offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """All that a group has committed, by topic and partition."""
        return {
            (topic, partition): value.offset
            for topic, partitions in self._groups.durable.offsets.of_group(group_id).items()
            for partition, value in partitions.items()
        }

    def topic_ids(self) -> dict[str, set[bytes]]:
        """The topics that offsets were committed of, by name; zeros where it was not known which."""
        return self._groups.durable.offsets.topic_ids()

    def last_commit_ms(self, group_id: str) -> int | None:
        """When a group committed the newest of its offsets, Unix time; None when it has none."""
        offsets = self._groups.durable.offsets.of_group(group_id)
        return max(
            (value.commit_timestamp for partitions in offsets.values() for value in partitions.values()),
            default=None,
        )

    @property
    def group_count(self) -> int:
        """How many groups there are, empty ones included."""
        return len(self._groups.by_id)

    @property
    def classic_states(self) -> Mapping[ClassicGroupState, int]:
        """How many classic groups are in which state."""
        return self._groups.classic_states

    @property
    def consumer_states(self) -> Mapping[ConsumerGroupState, int]:
        """How many consumer groups are in which state."""
        return Counter(group.state for group in self._groups.consumers.values())

    @property
    def topics(self) -> TopicsImage:
        """The topics that it knows."""
        return self._groups.topics

    @property
    def durable_keys(self) -> int:
        """How many keys have a value in the log."""
        return len(self._groups.durable)

    def copy_durable(self) -> DurableState:
        """What the log says, as it is now: to be written down while the shard goes on. No transaction is open."""
        return self._groups.durable.copy()

    def durable_state(self) -> dict[str, DurableGroup]:
        """What the log says, by group: for comparison with what another shard made of the same records."""
        return self._groups.durable.snapshot()

    def check_invariants(self) -> None:
        """Assert what must hold between calls. Looks at everything: for tests and simulations."""
        check_invariants(self._groups)


def _beat(groups: Groups, request: Any, context: Context, monotonic_ms: int) -> object | None:
    return BEATS[type(request)](groups, request, context, monotonic_ms)
