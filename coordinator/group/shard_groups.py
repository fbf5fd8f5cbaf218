"""The groups of one shard by id, changes of topics and configs that concern them, and the invariants of all
of them.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from sys import intern
from typing import Final

from coordinator.core.outcome import OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_group_adapter import ClassicGroupAdapter
from coordinator.group.classic.classic_state_machine import ClassicGroupState
from coordinator.group.consumer.consumer_group import NEVER, ConsumerGroup
from coordinator.group.consumer.consumer_group_adapter import ConsumerGroupAdapter
from coordinator.group.consumer.target_assignment import PendingTarget
from coordinator.group.durable_groups import CommitKinds, DurableGroups, OffsetKey
from coordinator.group.group_config import ConsumerGroupConfig, ConsumerGroupTimes, GroupConfig
from coordinator.group.group_event_types import TopicChange
from coordinator.group.group_interface import Group
from coordinator.group.group_requests import GroupConfigsChanged
from coordinator.group.group_types import GroupType
from coordinator.group.topics_image import TopicsImage

NO_OVERRIDES: Final[Mapping[str, str]] = {}


class ShardGroups:
    """The soft half of a shard (who is a member, who waits) beside the durable one. `by_id` has every group,
    `classic` those of the classic protocol, and `classic_states` how many of these are in which state;
    `commit_kinds` is what is known of how offsets came. `consumers` has those of the consumer protocol, `overrides`
    the configs that groups have of their own, there or not; `pending_targets` those groups of either kind
    whose requests wait for a target. `new_topics_version` is that of the last image that brought a new topic.
    `groups_to_expire` lists the groups that the present pass of retention has not reached. `topics_to_delete` lists
    deleted topics by group, and `offsets_to_delete` the offsets of deleted topics that the next calls remove."""

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
        "groups_to_expire",
        "new_topics_version",
        "offsets_to_delete",
        "overrides",
        "pending_targets",
        "topics",
        "topics_to_delete",
    )

    def __init__(
        self, config: GroupConfig, topics: TopicsImage, consumer_config: ConsumerGroupConfig
    ) -> None:
        self.config = config
        self.topics = topics
        self.new_topics_version = topics.version
        self.consumer_config = consumer_config
        self._times = consumer_config.resolve_times(NO_OVERRIDES)
        self.consumers: dict[str, ConsumerGroup] = {}
        self.overrides: dict[str, Mapping[str, str]] = {}
        self.pending_targets: dict[str, PendingTarget] = {}
        self.groups_to_expire: deque[str] = deque()
        self.topics_to_delete: deque[tuple[str, list[str]]] = deque()
        self.offsets_to_delete: deque[OffsetKey] = deque()
        self.durable = DurableGroups()
        self.commit_kinds = CommitKinds()
        self.by_id: dict[str, Group] = {}
        self.classic: dict[str, ClassicGroup] = {}
        self.classic_states: Counter[ClassicGroupState] = Counter()

    def find_group(self, group_id: str) -> Group | None:
        """The group of that id, of whatever type; None when there is none."""
        return self.by_id.get(group_id)

    def find_classic_group(self, group_id: str) -> ClassicGroup | None:
        """The classic group of that id; None when there is none, or one of another type. To SyncGroup, Heartbeat
        and LeaveGroup both are the same, as in Kafka: who asks is no member."""
        return self.classic.get(group_id)

    def create_classic_group(self, group_id: str, wall_ms: int) -> ClassicGroup:
        """A new, empty group; `wall_ms` is when it became empty. There is none of that id, of any type."""
        group = ClassicGroup(group_id, wall_ms)
        self.add_classic_group(group)
        return group

    def add_classic_group(self, group: ClassicGroup) -> None:
        """Take in a group that was made elsewhere."""
        assert group.group_id not in self.by_id, group.group_id
        self.classic[group.group_id] = group
        group.counted_in = self.classic_states
        self.classic_states[group.state] += 1
        self.by_id[group.group_id] = ClassicGroupAdapter(group)

    def add_consumer_group(self, group_id: str) -> ConsumerGroup:
        """Take in a consumer group, of which the log says something. There is none of that id, of any type."""
        assert group_id not in self.by_id, group_id
        assert group_id in self.durable.consumers, group_id
        group = ConsumerGroup(intern(group_id), self.durable.consumers)
        self.consumers[group.group_id] = group
        self.by_id[group.group_id] = ConsumerGroupAdapter(group)
        return group

    def resolve_consumer_times(self, group_id: str) -> ConsumerGroupTimes:
        """How long members of a group may be silent, and so on: its own times, else the broker's."""
        overrides = self.overrides.get(group_id)
        return self._times if overrides is None else self.consumer_config.resolve_times(overrides)

    def release_for_conversion(self, group_id: str, builder: OutcomeBuilder) -> None:
        """A group without members becomes one of another type: forget what it was. Its offsets stay."""
        group = self.by_id[group_id]
        group.retire(builder)
        self.forget_group(group_id)

    def remove_group(self, group_id: str) -> None:
        """Forget a group that is dead."""
        assert group_id not in self.durable, group_id
        assert self.by_id[group_id].is_dead, group_id
        self.forget_group(group_id)
        self.commit_kinds.forget_group(group_id)

    def forget_group(self, group_id: str) -> None:
        """The group is not served any more, at least not as the type that it was."""
        del self.by_id[group_id]
        self.consumers.pop(group_id, None)
        classic = self.classic.pop(group_id, None)
        if classic is not None:
            self.classic_states[classic.state] -= 1
            classic.counted_in = None

    def iterate_groups(self) -> Iterable[Group]:
        """Every group, oldest first."""
        return self.by_id.values()


def update_topics(groups: ShardGroups, image: TopicsImage) -> None:
    """Know the topics as they are now. Groups learn of it with their next heartbeat."""
    before, groups.topics = groups.topics, image
    if before.has_new_topics(image):
        groups.new_topics_version = image.version
    for name in before.find_changed(image):
        change = _find_topic_change(before, image, name)
        for group_id in groups.durable.consumers.find_subscribed_groups(name):
            group = groups.consumers.get(group_id)
            if group is not None:
                group.metadata_deadline_ms = NEVER
                _record_topic_change(group, name, change)


def _record_topic_change(group: ConsumerGroup, name: str, change: TopicChange) -> None:
    """One that is new, and has grown since, is new."""
    if change is not TopicChange.GREW or name not in group.topic_changes:
        group.topic_changes[name] = change


def _find_topic_change(before: TopicsImage, after: TopicsImage, name: str) -> TopicChange:
    old, new = before.by_name.get(name), after.by_name.get(name)
    if new is None:
        return TopicChange.DELETED
    is_same = old is not None and old.topic_id == new.topic_id
    return TopicChange.GREW if is_same else TopicChange.CREATED


def update_group_configs(groups: ShardGroups, request: GroupConfigsChanged, builder: OutcomeBuilder) -> None:
    """Know the configs that a group has of its own. No reply."""
    if request.overrides:
        groups.overrides[request.group_id] = dict(request.overrides)
    else:
        groups.overrides.pop(request.group_id, None)


def check_invariants(groups: ShardGroups) -> None:
    """Raise AssertionError naming the group when something is not as it must be."""
    waiters: set[int] = set()
    for group_id, group in groups.by_id.items():
        assert group_id == group.group_id, (group_id, group.group_id)
        group.check_invariants(groups.durable, waiters)
    consumers = {group_id for group_id, group in groups.by_id.items() if group.type is GroupType.CONSUMER}
    assert groups.consumers.keys() == consumers, "the consumer groups among the groups"
    classic = {group_id for group_id, group in groups.by_id.items() if group.type is GroupType.CLASSIC}
    assert groups.classic.keys() == classic, "the classic ones among the groups"
    states = Counter(group.state for group in groups.classic.values())
    assert groups.classic_states == states, "the classic groups by state"
    groups.durable.offsets.check_invariants()
    groups.durable.consumers.check_invariants()
    if not any(group.is_dead for group in groups.iterate_groups()):
        for group_id in groups.durable.group_ids():
            assert group_id in groups.by_id, f"{group_id} is in the log but not in memory"
