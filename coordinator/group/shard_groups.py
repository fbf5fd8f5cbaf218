"""The groups of one shard, and their reactions to changes of topics and configs."""

from collections import Counter, deque
from collections.abc import Mapping
from sys import intern
from typing import Final, TypeVar

from coordinator.core.outcome import OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_state_machine import ClassicGroupState
from coordinator.group.consumer.consumer_group import NEVER, ConsumerGroup
from coordinator.group.consumer.target_assignment import PendingTarget
from coordinator.group.durable_groups import CommitKinds, DurableGroups, OffsetKey
from coordinator.group.group_config import ConsumerGroupConfig, ConsumerGroupTimes, GroupConfig
from coordinator.group.group_event_types import TopicChange
from coordinator.group.group_interface import Group
from coordinator.group.group_requests import GroupConfigsChanged
from coordinator.group.topics_image import TopicsImage

NO_OVERRIDES: Final[Mapping[str, str]] = {}

GroupT = TypeVar("GroupT", bound=Group)


class ShardGroups:
    """The groups of a shard with their soft state (members, parked requests, deadlines), and the durable state.

    - `by_id` has the groups of every type, in the order of their creation.
    - `classic_states` has the number of classic groups in each state.
    - `commit_kinds` records how groups committed their offsets.
    - `overrides` has the configs of single groups, also of missing ones.
    - `pending_targets` has the requests that wait for a target.
    - `new_topics_version` is the version of the last image with a new topic.
    - `groups_to_expire` lists the groups that the current pass of retention has not reached.
    - `topics_to_delete` lists deleted topics by group.
    - `offsets_to_delete` lists the offsets of deleted topics that the next calls remove.
    """

    __slots__ = (
        "_times",
        "by_id",
        "classic_states",
        "commit_kinds",
        "config",
        "consumer_config",
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
        self.overrides: dict[str, Mapping[str, str]] = {}
        self.pending_targets: dict[str, PendingTarget] = {}
        self.groups_to_expire: deque[str] = deque()
        self.topics_to_delete: deque[tuple[str, list[str]]] = deque()
        self.offsets_to_delete: deque[OffsetKey] = deque()
        self.durable = DurableGroups()
        self.commit_kinds = CommitKinds()
        self.by_id: dict[str, Group] = {}
        self.classic_states: Counter[ClassicGroupState] = Counter()

    def find_typed_group(self, group_type: type[GroupT], group_id: str) -> GroupT | None:
        """Return the group of an id if it has the given type; None for a missing group and for another type."""
        group = self.by_id.get(group_id)
        return group if isinstance(group, group_type) else None

    def add_group(self, group: Group) -> None:
        """Add a group. Its id must be new among groups of all types."""
        assert group.group_id not in self.by_id, group.group_id
        assert not group.is_dead, group.group_id
        self.by_id[group.group_id] = group
        if isinstance(group, ClassicGroup):
            group.counted_in = self.classic_states
            self.classic_states[group.state] += 1

    def create_classic_group(self, group_id: str, wall_ms: int) -> ClassicGroup:
        """Create an empty group; `wall_ms` is the time of its state."""
        group = ClassicGroup(group_id, wall_ms)
        self.add_group(group)
        return group

    def create_consumer_group(self, group_id: str) -> ConsumerGroup:
        """Create a consumer group that has records in the log."""
        assert group_id in self.durable.consumers, group_id
        group = ConsumerGroup(intern(group_id), self.durable.consumers)
        self.add_group(group)
        return group

    def resolve_consumer_times(self, group_id: str) -> ConsumerGroupTimes:
        """Return the timeouts and intervals of a group: its own, else the broker's."""
        overrides = self.overrides.get(group_id)
        return self._times if overrides is None else self.consumer_config.resolve_times(overrides)

    def remove_group(self, group_id: str) -> None:
        """Forget a dead group without records in the log."""
        assert group_id not in self.durable, group_id
        self.forget_group(group_id)
        self.commit_kinds.forget_group(group_id)

    def forget_group(self, group_id: str) -> None:
        """Forget a dead group, whether the log has records of it or not."""
        group = self.by_id.pop(group_id)
        assert group.is_dead, group_id
        if isinstance(group, ClassicGroup):
            self.classic_states[group.state] -= 1
            group.counted_in = None


def update_topics(groups: ShardGroups, image: TopicsImage) -> None:
    """Replace the image of the topics. Consumer groups react to it with their next heartbeat."""
    before, groups.topics = groups.topics, image
    if before.has_new_topics(image):
        groups.new_topics_version = image.version
    for name in before.find_changed(image):
        change = _find_topic_change(before, image, name)
        for group_id in groups.durable.consumers.find_subscribed_groups(name):
            group = groups.find_typed_group(ConsumerGroup, group_id)
            if group is not None:
                group.metadata_deadline_ms = NEVER
                _record_topic_change(group, name, change)


def _record_topic_change(group: ConsumerGroup, name: str, change: TopicChange) -> None:
    """Record the change of a topic. A topic that was created and has grown since counts as created."""
    if change is not TopicChange.GREW or name not in group.topic_changes:
        group.topic_changes[name] = change


def _find_topic_change(before: TopicsImage, after: TopicsImage, name: str) -> TopicChange:
    old, new = before.by_name.get(name), after.by_name.get(name)
    if new is None:
        return TopicChange.DELETED
    is_same = old is not None and old.topic_id == new.topic_id
    return TopicChange.GREW if is_same else TopicChange.CREATED


def update_group_configs(groups: ShardGroups, request: GroupConfigsChanged, builder: OutcomeBuilder) -> None:
    """Replace the configs of a single group. No reply."""
    if request.overrides:
        groups.overrides[request.group_id] = dict(request.overrides)
    else:
        groups.overrides.pop(request.group_id, None)
