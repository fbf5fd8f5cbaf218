"""A member of a consumer group as a client plays one (KIP-848), and a classic consumer that Kafka understands."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.partitioner import partition_for
from tests.oracle.member import Member, commit_request
from tests.oracle.offsets import group_request, name_of
from tests.oracle.play import Play, Topic

JOIN: Final = 0
LEAVE: Final = -1
LEAVE_FOR_A_WHILE: Final = -2
OFFSETS_PARTITIONS: Final = 50
"""Of the offsets topic, in every setup."""

Owned = Mapping[Topic, Sequence[int]]


def owned(partitions: Owned) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    """Build the owned partitions of a heartbeat."""
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic.id, partitions=list(rows))
        for topic, rows in partitions.items()
    ]


@dataclass
class Consumer:
    """A member: its configuration and the state from the coordinator's responses. Its connection has its name."""

    play: Play
    name: str
    topics: Sequence[Topic | str] | None = None
    group: str = ""
    instance: str | None = None
    rack: str | None = None
    regex: str | None = None
    assignor: str | None = None
    rebalance_ms: int = 60_000
    version: int = 1
    member_id: str | None = None
    epoch: int = 0
    assigned: list[ConsumerGroupHeartbeatRequestTopicPartitions] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.group = self.group or self.play.group
        if self.member_id is None:
            self.member_id = self.name

    def join(self, note: str = "", **fields: Any) -> Any:
        """Send a full heartbeat that joins."""
        return self.heartbeat(note, **(self.join_fields() | fields))

    def join_fields(self) -> dict[str, Any]:
        """The fields of a heartbeat that joins."""
        return {"member_epoch": JOIN, **self._all(), "topic_partitions": []}

    def heartbeat(self, note: str = "", by: str = "", version: int | None = None, **fields: Any) -> Any:
        """Send a heartbeat and return its response.

        `fields` are additional fields; `owns`, partitions by topic, is short for `build_topic_partitions`.
        """
        if "owns" in fields:
            fields["topic_partitions"] = owned(fields.pop("owns"))
        who = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}
        request = ConsumerGroupHeartbeatRequest(**{**who, "instance_id": self.instance, **fields})
        answer = self.play.ask(request, self.version if version is None else version, by or self.name, note)
        return self._learn(answer)

    def full(self, note: str = "", **fields: Any) -> Any:
        """Send a full heartbeat, as after an error."""
        return self.heartbeat(note, **{**self._all(), "topic_partitions": self.assigned, **fields})

    def confirm(self, note: str = "") -> Any:
        """Send a heartbeat that reports the assigned partitions as owned."""
        return self.heartbeat(note, topic_partitions=self.assigned)

    def subscribe(self, *topics: Topic | str, note: str = "", **fields: Any) -> Any:
        """Sends a heartbeat with other topics than before."""
        self.topics = topics
        names = [name_of(topic) for topic in topics]
        return self.heartbeat(note, subscribed_topic_names=names, **fields)

    def leave(self, note: str = "", member_epoch: int = LEAVE) -> Any:
        """Sends a heartbeat that leaves, for good or for a while."""
        return self.heartbeat(note, member_epoch=member_epoch)

    def commit(
        self, offsets: dict[tuple[Topic | str, int], int], note: str = "", version: int = 9, **fields: Any
    ) -> Any:
        """Sends an OffsetCommit and waits for its answer."""
        who = {"member_id": self.member_id, "generation_id_or_member_epoch": self.epoch} | fields
        by = who.pop("by", self.name)
        return self.play.ask(commit_request(self.group, offsets, version, **who), version, by, note)

    def fetching(self, topic: Topic, version: int = 9, **fields: Any) -> Any:
        """Build its OffsetFetch request."""
        who = {"member_id": self.member_id, "member_epoch": self.epoch} | fields
        return group_request(self.group, {topic: [0, 1]}, version, **who)

    def _all(self) -> dict[str, Any]:
        names = None if self.topics is None else [name_of(topic) for topic in self.topics]
        return {
            "rack_id": self.rack,
            "rebalance_timeout_ms": self.rebalance_ms,
            "subscribed_topic_names": names,
            "server_assignor": self.assignor,
            **({"subscribed_topic_regex": self.regex} if self.regex is not None else {}),
        }

    def _learn(self, answer: Any) -> Any:
        if answer is not None and answer.error_code == ErrorCode.NONE:
            self.member_id, self.epoch = answer.member_id, answer.member_epoch
            if answer.assignment is not None:
                self.assigned = [
                    ConsumerGroupHeartbeatRequestTopicPartitions(
                        topic_id=part.topic_id, partitions=part.partitions
                    )
                    for part in answer.assignment.topic_partitions
                ]
        return answer


def look(play: Play, note: str = "", version: int = 1, group: str = "") -> Any:
    """Tells how the consumer group looks now."""
    request = ConsumerGroupDescribeRequest(
        group_ids=[group or play.group], include_authorized_operations=False
    )
    return play.ask(request, version, "admin", note)


def group_of(play: Play, group: str = "") -> Any:
    """Return the present state of the consumer group; not recorded."""
    with play.quietly():
        return look(play, group=group).groups[0]


def settle(*members: Consumer) -> None:
    """Let all members heartbeat and revoke partitions until the group is Stable, without recording."""
    play, group = members[0].play, members[0].group

    def settled() -> bool:
        for each in members:
            each.confirm()
        return bool(group_of(play, group).group_state == "Stable")

    play.until(settled)


def stable(*members: Consumer) -> None:
    """Form a Stable group of these members; not recorded."""
    with members[0].play.quietly():
        for each in members:
            each.join()
    settle(*members)


def tell_group(play: Play, *members: Consumer, note: str = "") -> None:
    """Wait until the members are stable, and record the state of the group."""
    settle(*members)
    look(play, note)


def known_topic(play: Play, short: str = "orders", partitions: int = 2) -> Topic:
    """Makes a topic and waits until the coordinator of the session's group knows it.

    Kafka tells its coordinators of topics a while after others: a member of another group of the same coordinator
    waits for its partitions, those of this topic and not of one that had its name before.
    """
    topic = play.topic(short, partitions=partitions)
    names = (f"probe {play.suffix[1:]} {number}" for number in itertools.count())
    there = partition_for(play.group, OFFSETS_PARTITIONS)
    group = next(name for name in names if partition_for(name, OFFSETS_PARTITIONS) == there)
    probe = Consumer(play, "probe", [topic], group=group)
    with play.quietly():
        probe.join()

    def known() -> bool:
        probe.confirm()
        return any(part.topic_id == topic.id for part in probe.assigned)

    play.until(known)
    with play.quietly():
        probe.leave()
    return topic


@dataclass
class ClassicConsumer(Member):
    """A member that speaks the classic protocol, with subscriptions and assignments that Kafka reads."""

    topics: Sequence[Topic | str] = ()
    part: dict[Topic, Sequence[int]] = field(default_factory=dict)
    """What the leader of a classic group gives it."""
    owns: list[TopicPartitions] = field(default_factory=list)
    metadata_version: int = 1

    def metadata(self) -> bytes:
        """Its subscription as it stands in a JoinGroup."""
        names = [name_of(topic) for topic in self.topics]
        wanted = ConsumerProtocolSubscription(topics=names, owned_partitions=self.owns)
        return encode_subscription(wanted, self.metadata_version)

    def assignment(self) -> bytes:
        """Its part as the leader writes it."""
        parts = [
            TopicPartitions(topic=topic.name, partitions=list(rows)) for topic, rows in self.part.items()
        ]
        return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts), self.metadata_version)

    def join_request(self, fields: dict[str, Any]) -> tuple[JoinGroupRequest, int]:
        """As a consumer's; `metadata` may be given, or `offered` protocols."""
        metadata = fields.pop("metadata", self.metadata())
        offered = fields.pop("offered", self.protocols)
        request, version = super().join_request(fields)
        request.protocols = [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in offered]
        return request, version

    def sync_request(
        self, others: tuple[Member, ...], fields: dict[str, Any]
    ) -> tuple[SyncGroupRequest, int]:
        """As a consumer's."""
        request, version = super().sync_request(others, fields)
        if self.leads and "assignments" not in fields:
            request.assignments = [
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=each.assignment())
                for each in (self, *others)
                if isinstance(each, ClassicConsumer)
            ]
        return request, version

    def sync(self, *others: Member, note: str = "", **fields: Any) -> Any:
        """Send SyncGroup and store the owned partitions of its response."""
        answer = super().sync(*others, note=note, **fields)
        if answer is not None and answer.error_code == ErrorCode.NONE and answer.assignment:
            self.owns = decode_assignment(answer.assignment).assigned_partitions
        return answer

    def rejoin(self) -> None:
        """Joins and syncs, of a consumer group or a classic one of one member."""
        self.join()
        self.sync()


def mixed(play: Play, orders: Topic) -> tuple[Consumer, ClassicConsumer]:
    """Form a Stable group of one member of each protocol; not recorded."""
    a, k = Consumer(play, "a", [orders]), ClassicConsumer(play, "k", topics=[orders])
    stable(a)
    with play.quietly():
        k.enter()
        k.sync()

    def settled() -> bool:
        a.confirm()
        if k.heartbeat().error_code:
            k.rejoin()
        return bool(group_of(play).group_state == "Stable")

    play.until(settled)
    return a, k


def settle_all(play: Play, consumers: Sequence[Consumer], members: Sequence[ClassicConsumer]) -> None:
    """All members send heartbeats, join and sync until the group is Stable; not recorded."""

    def settled() -> bool:
        for consumer in consumers:
            consumer.confirm()
        for each in members:
            if each.heartbeat().error_code:
                each.rejoin()
        return bool(group_of(play).group_state == "Stable")

    play.until(settled)
