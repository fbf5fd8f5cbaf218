"""The groups of one shard, by id. The one place that knows of the types that groups have: requests of a type's own
protocol find a group by its door, all others see a `Group`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from sys import intern
from typing import Final

from coordinator.group.classic.face import ClassicFace
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.config import GroupConfig
from coordinator.group.consumer.awaited_target import AwaitedTarget
from coordinator.group.consumer.config import ConsumerGroupConfig, ConsumerGroupTimes
from coordinator.group.consumer.face import ConsumerFace
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.durable import DurableState
from coordinator.group.group import Group
from coordinator.group.offsets.commit_kinds import CommitKinds
from coordinator.group.state import ClassicGroupState
from coordinator.group.topics_image import TopicsImage
from coordinator.machine.turn import Turn

NO_OVERRIDES: Final[Mapping[str, str]] = {}


class Groups:
    """The soft half of a shard (who is a member, who waits) beside the durable one. `by_id` has every group,
    `classic` those of the classic protocol, and `classic_states` how many of these are in which state;
    `commit_kinds` is what is known of how offsets came. `consumers` has those of the consumer protocol, `overrides`
    the configs that groups have of their own, there or not; `targets` those groups of either kind whose requests
    wait for a target. `new_topics_version` is that of the last image that brought a new topic."""

    __slots__ = (
        "_times",
        "by_id",
        "classic",
        "classic_states",
        "commit_kinds",
        "config",
        "consumer_config",
        "consumers",
        "durable",
        "new_topics_version",
        "overrides",
        "targets",
        "topics",
    )

    def __init__(
        self, config: GroupConfig, topics: TopicsImage, consumer_config: ConsumerGroupConfig
    ) -> None:
        self.config = config
        self.topics = topics
        self.new_topics_version = topics.version
        self.consumer_config = consumer_config
        self._times = consumer_config.times(NO_OVERRIDES)
        self.consumers: dict[str, ConsumerGroup] = {}
        self.overrides: dict[str, Mapping[str, str]] = {}
        self.targets: dict[str, AwaitedTarget] = {}
        self.durable = DurableState()
        self.commit_kinds = CommitKinds()
        self.by_id: dict[str, Group] = {}
        self.classic: dict[str, ClassicGroup] = {}
        self.classic_states: Counter[ClassicGroupState] = Counter()

    def find(self, group_id: str) -> Group | None:
        """The group of that id, of whatever type; None when there is none."""
        return self.by_id.get(group_id)

    def find_classic(self, group_id: str) -> ClassicGroup | None:
        """The classic group of that id; None when there is none, or one of another type. To SyncGroup, Heartbeat
        and LeaveGroup both are the same, as in Kafka: who asks is no member."""
        return self.classic.get(group_id)

    def create_classic(self, group_id: str, wall_ms: int) -> ClassicGroup:
        """A new, empty group; `wall_ms` is when it became empty. There is none of that id, of any type."""
        group = ClassicGroup(group_id, wall_ms)
        self.add_classic(group)
        return group

    def add_classic(self, group: ClassicGroup) -> None:
        """Take in a group that was made elsewhere."""
        assert group.group_id not in self.by_id, group.group_id
        self.classic[group.group_id] = group
        group.counted_in = self.classic_states
        self.classic_states[group.state] += 1
        self.by_id[group.group_id] = ClassicFace(group)

    def add_consumer(self, group_id: str) -> ConsumerGroup:
        """Take in a consumer group, of which the log says something. There is none of that id, of any type."""
        assert group_id not in self.by_id, group_id
        assert group_id in self.durable.consumers, group_id
        group = ConsumerGroup(intern(group_id), self.durable.consumers)
        self.consumers[group.group_id] = group
        self.by_id[group.group_id] = ConsumerFace(group)
        return group

    def consumer_times(self, group_id: str) -> ConsumerGroupTimes:
        """How long members of a group may be silent, and so on: its own times, else the broker's."""
        overrides = self.overrides.get(group_id)
        return self._times if overrides is None else self.consumer_config.times(overrides)

    def give_up(self, group_id: str, turn: Turn) -> None:
        """A group without members becomes one of another type: forget what it was. Its offsets stay."""
        group = self.by_id[group_id]
        group.end(turn)
        self.forget(group_id)

    def remove(self, group_id: str) -> None:
        """Forget a group that is dead."""
        assert group_id not in self.durable, group_id
        assert self.by_id[group_id].is_dead, group_id
        self.forget(group_id)
        self.commit_kinds.forget(group_id)

    def forget(self, group_id: str) -> None:
        """The group is not served any more, at least not as the type that it was."""
        del self.by_id[group_id]
        self.consumers.pop(group_id, None)
        classic = self.classic.pop(group_id, None)
        if classic is not None:
            self.classic_states[classic.state] -= 1
            classic.counted_in = None

    def all(self) -> Iterable[Group]:
        """Every group, oldest first."""
        return self.by_id.values()
