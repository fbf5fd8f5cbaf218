"""Invariants of groups that the simulator checks at every step, under all faults.

1. A request gets exactly one response, at once or later.
2. By the members' responses, a generation has one leader.
3. By the members' responses, generations do not decrease during the life of a group, not even after a reload. A
   generation with a delivered assignment is not used again.
4. In one generation each partition is assigned to at most one member.
5. An acknowledged commit is not lost: a fetch returns it or a later one. A later fetch does not return an older
   offset. A fetch returns only committed offsets.
6. The durable state equals the state replayed from the log, after every outcome and for every loaded prefix.
7. An offset is removed only by a request, with its topic, or after its retention time.
8. The core's own invariants hold.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from coordinator.core.outcome import Fact, Now, Outcome
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_requests import FetchOffsets, GroupTimerKey, TopicsChanged
from coordinator.group.group_shard import GroupShard
from protocol.consumer_protocol import decode_assignment
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.offset_fetch import OffsetFetchResponseGroup
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from protocol.records.group_record_schemas import GroupMetadataKey, OffsetCommitKey
from tests.group.new_shard import new_shard
from tests.simulation.disk import Disk, producer_of, writes

Place: TypeAlias = tuple[str, str, int]


class Violation(AssertionError):
    """A run violated an invariant; the text says which one."""


def demand(holds: bool, what: str) -> None:
    """Raise Violation with the text `what` if the condition does not hold."""
    if not holds:
        raise Violation(what)


@dataclass
class History:
    """The commits for one partition of one group. `orders` has the sequence numbers of the commits by offset
    (several if the network repeats a request). `removed` and `promised` are the sequence numbers of the last
    removal, and of the commit that a fetch must return, or a later one.
    """

    orders: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    removed: int = 0
    promised: int = 0


@dataclass
class Asked:
    """A pending request. `promised` is `History.promised` by partition when the core got the request.

    `life` is the number of group deletions at the time of the core's response.
    """

    message: Any
    order: int = 0
    life: int = 0
    promised: dict[Place, int] = field(default_factory=dict)


class Checks:
    """The checks of one run; the shell calls them."""

    may_park: tuple[type[object], ...] = (JoinGroupRequest, SyncGroupRequest)
    """Classes of requests that the core may park."""

    def __init__(self, config: GroupConfig) -> None:
        self._config = config
        self._shadow = new_shard(config)
        self._prints: list[int] = []
        self._asked: dict[int, Asked] = {}
        self._answered: set[int] = set()
        self._order = 0
        self._histories: defaultdict[Place, History] = defaultdict(History)
        self._identities: dict[tuple[str, str], str] = {}
        self._lives: defaultdict[str, int] = defaultdict(int)
        self._incarnation = 0
        self._leaders: dict[tuple[int, str, int, int], str] = {}
        self._told: dict[tuple[int, str, int], int] = {}
        self._assigned_generation: dict[tuple[str, int], int] = {}
        self._owners: dict[tuple[str, int, int, str, int], str] = {}

    # --- callbacks of the shell

    def asked(self, waiter: int, message: Any) -> None:
        """Record a request that the shell passes to the core."""
        demand(waiter not in self._asked, f"waiter {waiter} is used twice")
        self._order += 1
        entry = Asked(message, self._order)
        if isinstance(message, FetchOffsets):
            entry.promised = {place: history.promised for place, history in self._histories.items()}
        self._asked[waiter] = entry

    def happened(
        self, cause: Any, waiter: int, outcome: Outcome, shard: GroupShard, disk: Disk, now: Now
    ) -> None:
        """Check an outcome of the core after its records were appended. `cause` is the request or the timer."""
        shard.check_invariants()
        for to, message in outcome.replies:
            self._answer(to, message)
        if waiter and waiter not in self._answered:
            demand(isinstance(cause, self.may_park), f"{cause} is parked")
        for to, message in outcome.replies:
            if isinstance(message, OffsetCommitResponse):
                self._take_commits(self._asked[to], message)
        for record in outcome.records:
            if record.value is None:
                self._removal(cause, record, now)
            self._shadow.replay(record, producer_of(outcome))
        if outcome.marker is not None:
            marker = outcome.marker
            self._shadow.end_transaction(marker.producer_id, is_committed=marker.is_committed)
        if writes(outcome):
            demand(
                self._shadow.snapshot_durable() == shard.snapshot_durable(),
                "live state is not what the log says",
            )
            self._prints.append(fingerprint(shard))
            demand(len(self._prints) == disk.end, "the disk has another number of batches")

    def withheld(self, waiter: int, message: Any) -> None:
        """Drop a response that the shell does not send, because its records could not be appended."""
        self._answer(waiter, message)

    def released(self, waiter: int, message: Any) -> None:
        """Check a response that the shell is about to send."""
        asked = self._asked.pop(waiter)
        match message:
            case JoinGroupResponse() if message.error_code == 0:
                self._check_join(asked.message, message, asked.life)
            case SyncGroupResponse() if message.error_code == 0:
                self._check_sync(asked.message, message, asked.life)
            case OffsetCommitResponse():
                self._promise_commits(asked, message)
            case OffsetDeleteResponse() if message.error_code == 0:
                self._promise_removals(asked, message)
            case OffsetFetchResponseGroup():
                self._check_fetch(asked, message)

    def unloaded(self, answers: list[tuple[int, Any]]) -> None:
        """Check the responses to blocked requests when the partition is unloaded."""
        for waiter, message in answers:
            self._answer(waiter, message)
        silent = set(self._asked) - self._answered
        demand(not silent, f"unload forgot {[type(self._asked[w].message).__name__ for w in silent]}")

    def forget(self) -> None:
        """Drop all pending requests, because the process lost its soft state."""
        self._asked.clear()
        self._answered.clear()
        self._incarnation += 1

    def loaded(self, shard: GroupShard, disk: Disk) -> None:
        """Check a new core that loaded the surviving part of the log."""
        del self._prints[disk.end :]
        if self._prints:
            demand(fingerprint(shard) == self._prints[-1], "loading a prefix gives another state")
        self._shadow = new_shard(self._config)
        disk.load_into(self._shadow)

    def quiet(self, disk: Disk) -> None:
        """Check the end of a run after its last fault: no request is pending, and every prefix of the log loads to
        the state that it had.
        """
        silent = set(self._asked) - self._answered
        demand(not silent, f"never answered: {[self._asked[waiter].message for waiter in silent]}")
        for end in {1, len(self._prints) // 2, len(self._prints)} - {0}:
            shard = new_shard(self._config)
            disk.load_into(shard, end)
            demand(fingerprint(shard) == self._prints[end - 1], f"the first {end} batches give another state")

    # --- answers

    def _answer(self, waiter: int, message: Any) -> None:
        demand(waiter in self._asked, f"{type(message).__name__} for {waiter}, which did not ask")
        demand(waiter not in self._answered, f"{type(message).__name__} is a second answer for {waiter}")
        asked = self._asked[waiter]
        asked.life = self._lives[getattr(asked.message, "group_id", "")]
        self._answered.add(waiter)

    # --- members

    def _identity(self, group_id: str, member_id: str) -> str:
        """Return the identity of a member: for a static member its instance id, with any member id."""
        return self._identities.get((group_id, member_id), member_id)

    def _check_join(self, request: JoinGroupRequest, response: JoinGroupResponse, life: int) -> None:
        group_id, generation = request.group_id, response.generation_id
        if request.group_instance_id is not None:
            self._identities[group_id, response.member_id] = request.group_instance_id
        told = (self._incarnation, group_id, life)
        demand(
            generation >= self._told.get(told, 0), f"{group_id}: generation {generation} after a later one"
        )
        self._told[told] = generation
        assigned = self._assigned_generation.get((group_id, life), 0)
        demand(generation >= assigned, f"{group_id}: generation {generation} after {assigned} was assigned")
        demand(bool(response.members) <= (response.leader == response.member_id), "a follower sees members")
        if response.leader == response.member_id:
            leader = self._identity(group_id, response.member_id)
            known = self._leaders.setdefault((*told, generation), leader)
            demand(known == leader, f"{group_id}: generation {generation} is led by {known} and {leader}")

    def _check_sync(self, request: SyncGroupRequest, response: SyncGroupResponse, life: int) -> None:
        group_id, generation = request.group_id, request.generation_id
        if request.group_instance_id is not None:
            self._identities[group_id, request.member_id] = request.group_instance_id
        before = self._assigned_generation.get((group_id, life), 0)
        demand(generation >= before, f"{group_id}: assignment of {generation} after that of {before}")
        self._assigned_generation[group_id, life] = generation
        if not response.assignment:
            return
        member = self._identity(group_id, request.member_id)
        for topic in decode_assignment(response.assignment).assigned_partitions:
            for partition in topic.partitions:
                place = (group_id, life, generation, topic.topic, partition)
                owner = self._owners.setdefault(place, member)
                demand(owner == member, f"{place} is given to {owner} and {member}")

    # --- offsets

    def _take_commits(self, asked: Asked, response: OffsetCommitResponse) -> None:
        """Record accepted offsets: from now on a fetch may return them, even before they are acknowledged."""
        for place, offset in accepted(asked.message, response):
            self._histories[place].orders[offset].append(asked.order)

    def _promise_commits(self, asked: Asked, response: OffsetCommitResponse) -> None:
        """Record acknowledged offsets: from now on a fetch must return them or later ones."""
        for place, _ in accepted(asked.message, response):
            history = self._histories[place]
            history.promised = max(history.promised, asked.order)

    def _promise_removals(self, asked: Asked, response: OffsetDeleteResponse) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                history = self._histories[asked.message.group_id, topic.name, partition.partition_index]
                if partition.error_code == 0:
                    history.removed = max(history.removed, asked.order)
                    history.promised = max(history.promised, asked.order)

    def _check_fetch(self, asked: Asked, response: OffsetFetchResponseGroup) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                place = (response.group_id, topic.name, partition.partition_index)
                if partition.error_code == 0:
                    self._check_shown(place, partition.committed_offset, asked)

    def _check_shown(self, place: Place, offset: int, asked: Asked) -> None:
        history = self._histories[place]
        promised = asked.promised.get(place, 0)
        if offset == -1:
            demand(history.removed >= promised, f"{place}: an acknowledged commit is lost")
            return
        demand(offset in history.orders, f"{place}: nobody committed {offset}")
        possible = [order for order in history.orders[offset] if order >= promised]
        demand(bool(possible), f"{place}: {offset} is older than what was acknowledged or shown")
        history.promised = max(history.promised, min(possible))

    def _removal(self, cause: Any, record: Fact, now: Now) -> None:
        """Check a tombstone: find its cause and, for an expiration, check that it was due."""
        self._order += 1
        key = record.key
        if isinstance(key, GroupMetadataKey):
            self._lives[key.group] += 1
            return
        by_request = isinstance(cause, OffsetDeleteRequest | DeleteGroupsRequest | TopicsChanged)
        demand(by_request or isinstance(cause, GroupTimerKey), f"{cause} removes an offset")
        demand(by_request or self._is_old(key, now.wall_ms), f"{key} went before its time")
        self._histories[key.group, key.topic, key.partition].removed = self._order

    def _is_old(self, key: OffsetCommitKey, wall_ms: int) -> bool:
        """Return whether the retention of an offset is over, counted from its commit or from the time when its
        group became Empty.
        """
        durable = self._shadow.snapshot_durable().get(key.group)
        committed = None if durable is None else durable.offsets.get((key.topic, key.partition))
        if durable is None or committed is None:
            raise Violation(f"{key} is removed but was not there")
        if committed.expire_timestamp != -1:
            return wall_ms >= committed.expire_timestamp
        since = [committed.commit_timestamp]
        if durable.metadata is not None and not durable.metadata.members:
            since.append(durable.metadata.current_state_timestamp)
        return wall_ms - min(since) >= self._config.offsets_retention_ms


def accepted(
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    response: OffsetCommitResponse | TxnOffsetCommitResponse,
) -> Iterator[tuple[Place, int]]:
    """Yield the partitions of a commit that the group accepted, with their offsets."""
    topics: list[Any] = list(request.topics)
    answers: list[Any] = list(response.topics)
    for topic, answer in zip(topics, answers, strict=True):
        for partition, result in zip(topic.partitions, answer.partitions, strict=True):
            if result.error_code == 0:
                place = (request.group_id, topic.name, partition.partition_index)
                yield place, partition.committed_offset


def fingerprint(shard: GroupShard) -> int:
    """Return a hash of the durable state."""
    return hash(repr(shard.snapshot_durable()))
