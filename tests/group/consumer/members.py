"""A coordinator with helpers to send the requests of consumer group members."""

from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.core.outcome import Context, Outcome, Work, WorkDone
from coordinator.group.consumer.regex_resolution import REGEX_WORK
from coordinator.group.consumer.target_assignment import TARGET_WORK, TargetWork, compute_target
from coordinator.group.group_config import ConsumerGroupConfig
from coordinator.group.group_requests import TopicsChanged
from coordinator.group.topics_image import TopicImage, TopicsImage
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from tests.group.ask import Ask
from tests.group.consumer.resolution import resolved
from tests.group.coordinator import GROUP, Coordinator

FOO: Final = bytes(15) + b"\1"
BAR: Final = bytes(15) + b"\2"
THREE: Final = TopicsImage([TopicImage("foo", FOO, 3)], version=1)
Partitions = Mapping[bytes, Sequence[int]]


class Members(Coordinator):
    """A coordinator for members of consumer groups.

    It does background work at once, unless `does_work` is off: then the work waits in `work`.
    """

    def __init__(
        self, topics: TopicsImage = THREE, consumer_config: ConsumerGroupConfig | None = None
    ) -> None:
        self.work: list[Work] = []
        self.does_work = True
        super().__init__(consumer_config=consumer_config, topics=topics)

    def take(self, outcome: Outcome) -> None:
        super().take(outcome)
        self.work.extend(outcome.work)
        while self.does_work and self.work:
            self.do_work()

    def do_work(self) -> None:
        """Do the first waiting work."""
        work = self.work.pop(0)
        if work.name == TARGET_WORK:
            assert isinstance(work.argument, TargetWork)
            self.tell(WorkDone(work, compute_target(work.argument)))
        else:
            assert work.name == REGEX_WORK
            self.tell(resolved(work))

    def tell(self, request: WorkDone | TopicsChanged) -> None:
        """Handle an internal event, which has no response."""
        self.take(self.shard.handle(request, Context(0, 0, "", ""), self.now))

    def topics_are(self, *topics: TopicImage) -> None:
        """Create, grow and delete topics."""
        before, self.topics = self.topics, TopicsImage(topics, self.topics.version + 1)
        self.tell(TopicsChanged(self.topics, before.find_deleted(self.topics)))

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        names: Sequence[str] | None = None,
        regex: str | None = None,
        owned: Partitions | None = None,
        instance: str | None = None,
        rack: str | None = None,
        rebalance: int = -1,
        assignor: str | None = None,
        group: str = GROUP,
        version: int = 1,
        client_id: str = "client",
    ) -> Ask:
        """Send a ConsumerGroupHeartbeat."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance,
            subscribed_topic_names=None if names is None else list(names),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in owned.items()
            ],
        )
        return self.send(request, version, client_id)

    def enter(
        self, member_id: str, names: Sequence[str] | None = ("foo",), **more: object
    ) -> tuple[object, object]:
        """Send the first heartbeat of a member."""
        given: dict[str, object] = {"rebalance": 60_000, "owned": {}, **more}
        return read_response(self.beat(member_id, 0, names=names, **given))  # type: ignore[arg-type]

    def say(self, member_id: str, epoch: int, **more: object) -> tuple[object, object]:
        """Send a heartbeat and return its result."""
        return read_response(self.beat(member_id, epoch, **more))  # type: ignore[arg-type]

    def described(self, group: str = GROUP) -> ConsumerGroupDescribeResponseGroup:
        """Describe a consumer group."""
        request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
        (described,) = self.send(request, 1).answer(ConsumerGroupDescribeResponse).groups
        return described

    def epochs(self, group: str = GROUP) -> tuple[str, int, int]:
        """Return a group's state, its epoch and the epoch of its target assignment."""
        described = self.described(group)
        return described.group_state, described.group_epoch, described.assignment_epoch


def read_response(ask: Ask) -> tuple[object, object]:
    """Return the epoch and assignment of a heartbeat response (None without one), or its error and error text."""
    response = ask.answer(ConsumerGroupHeartbeatResponse)
    if response.error_code != ErrorCode.NONE:
        assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == (None, 0, 0)
        assert response.assignment is None
        return ErrorCode(response.error_code), response.error_message
    if response.assignment is None:
        return response.member_epoch, None
    parts = {one.topic_id: one.partitions for one in response.assignment.topic_partitions}
    return response.member_epoch, parts
