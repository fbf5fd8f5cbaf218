"""A `RepeatedCommit` has the same response, records, events and timers as the whole request that it represents."""

import inspect
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from coordinator.group import group_shard
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_requests import (
    PreparedCommit,
    RepeatedCommit,
    Request,
    TopicsChanged,
    copy_commit,
)
from coordinator.group.offsets import group_offset_commit
from coordinator.group.offsets.group_offset_commit import repeat_commit
from coordinator.group.topics_image import TopicImage, TopicsImage
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.group.ask import Ask
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator

FOO, BAR = TopicImage("foo", b"f" * 16, 4), TopicImage("bar", b"b" * 16, 4)
IMAGE = TopicsImage([FOO, BAR], 1)
CONSUMERS, SIMPLE = "consumers", "simple"
SHORT_METADATA, SMALL_BATCH = {"offset_metadata_max_bytes": 3}, {"message_max_bytes": 160}
SEEDS = range(20)
STEPS = 100


class RepeatingCoordinator(Coordinator):
    """A coordinator that sends each commit after the first as a `RepeatedCommit`, and counts these."""

    def __init__(self, **arguments: Any) -> None:
        self.prepared: dict[object, PreparedCommit] = {}
        self.repetitions = 0
        super().__init__(**arguments)

    def send(self, request: Request, version: int, *who: str) -> Ask:
        if not isinstance(request, OffsetCommitRequest):
            return super().send(request, version, *who)
        partitions = [partition for topic in request.topics for partition in topic.partitions]
        key = (
            version,
            *(request.group_id, request.member_id, request.generation_id_or_member_epoch),
            *(request.group_instance_id, request.retention_time_ms),
            *((topic.name, topic.topic_id, len(topic.partitions)) for topic in request.topics),
            *((each.partition_index, len(each.committed_metadata or "")) for each in partitions),
        )
        prepared = self.prepared.get(key)
        if prepared is None:
            ask = super().send(request, version, *who)
            prepared = self.shard.prepare_commit(request, version)
            if prepared is not None:
                self.prepared[key] = prepared
            return ask
        self.repetitions += 1
        repeated = RepeatedCommit(
            prepared,
            [each.committed_offset for each in partitions],
            [each.committed_leader_epoch for each in partitions],
            [each.committed_metadata or "" for each in partitions],
        )
        return super().send(repeated, version, *who)


class Pair:
    """Two coordinators that get the same requests. Only the second one uses `RepeatedCommit`."""

    def __init__(self) -> None:
        self.plain = Coordinator(topics=IMAGE)
        self.repeating = RepeatingCoordinator(topics=IMAGE)
        self._records = 0

    def do(self, act: Callable[[Coordinator], object]) -> Any:
        """Do the same to both. Return the result of the first. Raises AssertionError if they differ."""
        plain, repeating = act(self.plain), act(self.repeating)
        if isinstance(plain, Ask):
            assert isinstance(repeating, Ask)
            assert repeating.reply == plain.reply
        assert self.repeating.log[self._records :] == self.plain.log[self._records :]
        assert self.repeating.events == self.plain.events
        assert self.repeating.timers == self.plain.timers
        for group in (GROUP, CONSUMERS):
            deadlines = self.plain.shard.list_deadlines(group)
            assert self.repeating.shard.list_deadlines(group) == deadlines
        self._records = len(self.plain.log)
        self.plain.events.clear()
        self.repeating.events.clear()
        return plain


class Story:
    """A random sequence of requests of one classic group, one consumer group and one group without members."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.pair = Pair()
        self.members: dict[str, str | None] = {}
        self.epochs: dict[str, int] = {}
        self.generation = 0
        self.deleted: list[TopicImage] = []
        self.commits: list[tuple[OffsetCommitRequest, int]] = []

    def play(self) -> None:
        """Send the requests."""
        steps = [self.commit] * 24 + [self.join, self.leave, self.advance, self.beat] * 2
        steps += [self.transact, self.change_topics, self.restart, self.end_transaction]
        self.join()
        self.beat()
        for _ in range(STEPS):
            self.random.choice(steps)()
        assert self.pair.repeating.shard.snapshot_durable() == self.pair.plain.shard.snapshot_durable()

    def commit(self) -> None:
        """Send a commit: one of the last commits with other offsets, or a new one."""
        random = self.random
        if len(self.commits) < 2 or random.random() < 0.25:
            self.commits = [*self.commits[-2:], self.create_commit()]
        first, version = random.choice(self.commits)
        texts = {0: (None, ""), 2: ("ab", "cd"), 4: ("long", "wide")}
        changes = (
            (
                random.randrange(1000),
                random.randrange(3),
                random.choice(texts[len(part.committed_metadata or "")]),
            )
            for topic in first.topics
            for part in topic.partitions
        )
        request = copy_commit(first, ((offset, epoch, text or "") for offset, epoch, text in changes))
        self.pair.do(lambda one: one.send(request, version))

    def create_commit(self) -> tuple[OffsetCommitRequest, int]:
        """Return a commit of a member or of another client, and its version."""
        random = self.random
        group = random.choice((GROUP, GROUP, GROUP, CONSUMERS, CONSUMERS, SIMPLE))
        member_id, instance, epoch = "", None, -1
        if group == GROUP and self.members and random.random() < 0.9:
            member_id, instance = random.choice(list(self.members.items()))
            epoch = self.generation - (random.random() < 0.1)
        elif group == CONSUMERS and random.random() < 0.9:
            member_id = random.choice(("a", "b"))
            epoch = max(0, self.epochs.get(member_id, 0) - (random.random() < 0.2))
        version = random.choice((4, 9, 9, 9, 10, 10))
        topics = []
        for topic in random.choice(([FOO], [FOO], [FOO, BAR])):
            partitions = [
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=0,
                    committed_metadata=random.choice((None, "", "", "ab", "long")),
                )
                for index in range(random.choice((1, 2)))
            ]
            topics.append(
                OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
            )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=random.choice((-1, 60_000)) if version == 4 else -1,
            topics=topics,
        )
        return request, version

    def join(self) -> None:
        """Let a new or known member join. Either all others rejoin, or the rebalance stays in progress."""
        instance = self.random.choice((None, "static"))
        joins = [self.pair.do(lambda one: one.join(version=3, instance=instance))]
        if instance is not None:
            self.members = {name: held for name, held in self.members.items() if held != instance}
        for name, held in self.members.items():
            joins.append(self.pair.do(partial(_join_again, name, held)))
        if self.random.random() < 0.3:
            return
        self.pair.do(lambda one: one.advance(3_000))
        done = [join.joined for join in joins if not join.is_parked and join.joined.error_code == 0]
        if not done:
            return
        self.generation = done[0].generation_id
        leader = done[0].leader
        self.members = {join.member_id: None for join in done}
        if instance is not None:
            self.members[done[0].member_id] = instance
        if self.random.random() < 0.7:
            for name in sorted(self.members, key=lambda name: name != leader):
                self.pair.do(partial(_sync, name, self.members[name], self.generation))

    def leave(self) -> None:
        if self.members:
            name = self.random.choice(list(self.members))
            held = self.members.pop(name)
            self.pair.do(lambda one: one.leave(MemberIdentity(member_id=name, group_instance_id=held)))

    def advance(self) -> None:
        duration_ms = self.random.choice((1, 500, 500, 4_000, 9_000, 50_000))
        self.pair.do(lambda one: one.advance(duration_ms))

    def beat(self) -> None:
        """Send a ConsumerGroupHeartbeat: a join, a leave, or a heartbeat of a member."""
        member_id = self.random.choice(("a", "b"))
        epoch = self.epochs.get(member_id, 0)
        if epoch and self.random.random() < 0.2:
            epoch = -1
        is_join = epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=CONSUMERS,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if is_join else -1,
            subscribed_topic_names=["foo"] if is_join else None,
            topic_partitions=[] if is_join else None,
        )
        ask = self.pair.do(lambda one: one.send(request, 1))
        if not ask.is_parked:
            self.epochs[member_id] = max(0, getattr(ask.reply, "member_epoch", 0))

    def transact(self) -> None:
        producer, partition = self.random.randrange(2), self.random.randrange(2)
        self.pair.do(lambda one: one.txn_commit(producer, partition=partition, offset=5))

    def end_transaction(self) -> None:
        producer, is_committed = self.random.randrange(2), self.random.random() < 0.6
        self.pair.do(lambda one: one.end(producer, is_committed=is_committed))

    def change_topics(self) -> None:
        """Delete a topic, or create it again."""
        gone: list[str] = []
        if self.deleted:
            self.deleted = []
        else:
            self.deleted = [self.random.choice((FOO, BAR))]
            gone = [topic.name for topic in self.deleted]
        version = self.pair.plain.shard.topics.version + 1
        image = TopicsImage([topic for topic in (FOO, BAR) if topic not in self.deleted], version)

        def change(one: Coordinator) -> None:
            one.topics = image
            one.send(TopicsChanged(image, gone), 0)

        self.pair.do(change)

    def restart(self) -> None:
        """Restart the coordinators, which load their logs, possibly with other limits."""
        changed = self.random.choice(({}, SHORT_METADATA, SMALL_BATCH))
        config: GroupConfig = group_config(**changed)
        self.pair.do(lambda one: one.restart(config))


def _join_again(member_id: str, instance: str | None, one: Coordinator) -> Ask:
    return one.join(member_id, instance=instance)


def _sync(member_id: str, instance: str | None, generation: int, one: Coordinator) -> Ask:
    return one.sync(member_id, generation, {}, instance=instance, version=3)


@pytest.mark.parametrize("seed", SEEDS)
def test_repeated_commits_have_the_effects_of_whole_ones(seed: int) -> None:
    story = Story(seed)
    story.play()
    assert story.pair.repeating.repetitions > 10


def find_seed(seeds: range = range(60)) -> int | None:
    """Return the first seed with a difference or a failure; None without one."""
    for seed in seeds:
        try:
            Story(seed).play()
        except Exception:  # noqa: BLE001 - any failure shows the fault
            return seed
    return None


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ("group.validate_commit(request, context.api_version) is not ACCEPTED", "False"),
        ("prepared.config is not groups.config", "False"),
        ("group.on_commit_accepted(request.member_id, builder)", "pass"),
        ("now_ms = builder.now.wall_ms", "now_ms = 5"),
        ("write_plain_commit(groups, group, request, records, builder)", "builder.records += records"),
    ],
)
def test_a_repetition_without_one_of_its_steps_is_found(
    monkeypatch: pytest.MonkeyPatch, check: str, fault: str
) -> None:
    source = inspect.getsource(repeat_commit)
    assert source.count(check) == 1
    faulty: dict[str, Any] = dict(vars(group_offset_commit))
    exec(compile(source.replace(check, fault), "planted", "exec"), faulty)
    monkeypatch.setitem(group_shard.REQUEST_HANDLERS, RepeatedCommit, faulty["repeat_commit"])
    assert find_seed() is not None


def test_a_commit_that_a_repetition_cannot_stand_for_is_not_prepared() -> None:
    coordinator = Coordinator(config=group_config(offset_metadata_max_bytes=3))

    def prepared(version: int = 9, metadata: str = "", **fields: Any) -> PreparedCommit | None:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=metadata
        )
        topics = [OffsetCommitRequestTopic(name="foo", partitions=[partition])]
        return coordinator.shard.prepare_commit(
            OffsetCommitRequest(group_id=SIMPLE, topics=topics, **fields), version
        )

    assert prepared() is None, "the group is missing"
    coordinator.commit(group=SIMPLE)
    assert prepared() is not None
    assert prepared(metadata="abc") is not None
    assert prepared(metadata="abcd") is None
    assert prepared(version=1) is None
    assert prepared(version=4, retention_time_ms=5) is None


def test_a_preparation_has_no_effect() -> None:
    coordinator = Coordinator()
    coordinator.commit(group=SIMPLE)
    before = coordinator.shard.snapshot_durable(), len(coordinator.log)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=99)
    topics = [OffsetCommitRequestTopic(name="foo", partitions=[partition])]
    coordinator.shard.prepare_commit(OffsetCommitRequest(group_id=SIMPLE, topics=topics), 9)
    assert (coordinator.shard.snapshot_durable(), len(coordinator.log)) == before
