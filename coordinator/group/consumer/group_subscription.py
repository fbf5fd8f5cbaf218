"""The subscription of a group after a change or departure of members, computed without changing the durable state.

Source: Kafka's ConsumerGroup, computeSubscribedTopicNames, computeSubscribedRegularExpressions, subscriptionType,
computePreferredServerAssignor; ModernGroup, computeMetadataHash.
"""

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet

from coordinator.group.consumer.consumer_member import ConsumerMember
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup, add_to_counts
from coordinator.group.modern.java_order import SMALLEST_TABLE, HashOrder, compute_capacity, mix_string
from coordinator.group.topics_image import TopicsImage, compute_group_hash


class GroupSubscription:
    """The subscription of a group after one member has changed (`old` is None for a new one), or after some have
    left. It stores only the differences of topic names, because a group may name a million topics.
    """

    __slots__ = ("_group", "_name_changes", "members", "regex_members", "regex_topics")

    def __init__(self, group: DurableConsumerGroup) -> None:
        self._group = group
        self._name_changes: dict[str, int] = {}
        self.members = len(group.members)
        self.regex_topics = dict(group.regex_topics)
        self.regex_members = dict(group.regex_members)

    @classmethod
    def with_member(
        cls, group: DurableConsumerGroup, old: ConsumerMember | None, new: ConsumerMember
    ) -> "GroupSubscription":
        """Return the subscription after a change of one member from `old` to `new`. The topics of an expression no
        longer count if only `old` had it.
        """
        subscription = cls(group)
        names = frozenset[str]() if old is None else old.subscribed_topic_names
        if old is not None:
            subscription._remove_expressions([old])
            subscription.members -= 1
        subscription.members += 1
        subscription._change_names(names - new.subscribed_topic_names, -1)
        subscription._change_names(new.subscribed_topic_names - names, 1)
        if new.subscribed_topic_regex:
            is_back = old is not None and old.subscribed_topic_regex == new.subscribed_topic_regex
            if is_back and new.subscribed_topic_regex not in subscription.regex_members:
                subscription._count_topics(new.subscribed_topic_regex, 1)
            add_to_counts(subscription.regex_members, (new.subscribed_topic_regex,), 1)
        return subscription

    @classmethod
    def without_members(
        cls, group: DurableConsumerGroup, members: Collection[ConsumerMember]
    ) -> "GroupSubscription":
        """Return the subscription without these members and without the expressions that only they use."""
        subscription = cls(group)
        subscription._remove_expressions(members)
        subscription.members -= len(members)
        for member in members:
            subscription._change_names(member.subscribed_topic_names, -1)
        return subscription

    def _change_names(self, names: Collection[str], change: int) -> None:
        changes = self._name_changes
        for name in names:
            changes[name] = changes.get(name, 0) + change

    def _remove_expressions(self, members: Iterable[ConsumerMember]) -> None:
        for member in members:
            regex = member.subscribed_topic_regex
            if regex:
                add_to_counts(self.regex_members, (regex,), -1)
                if regex not in self.regex_members:
                    self._count_topics(regex, -1)

    def _count_topics(self, regex: str, change: int) -> None:
        resolved = self._group.regexes.get(regex)
        if resolved is not None:
            add_to_counts(self.regex_topics, resolved.topics, change)

    def _count_members(self, name: str) -> int:
        """Return the number of members that subscribe to a topic by name."""
        count = self._group.names.get(name, 0) + self._name_changes.get(name, 0)
        assert count >= 0, name
        return count

    def _iterate_counts(self) -> Iterator[int]:
        """Yield the number of members for each topic that a member subscribes to by name, or did before."""
        changes = self._name_changes
        yield from map(self._count_members, changes)
        for name, count in self._group.names.items():
            if name not in changes:
                yield count

    @property
    def is_homogeneous(self) -> bool:
        """Return whether all members have the same subscription."""
        members = self.members
        if not self.regex_members:
            return all(count in (0, members) for count in self._iterate_counts())
        return (
            next(iter(self.regex_members.values())) == members
            and not any(self._iterate_counts())
            and all(regexes == 1 for regexes in self.regex_topics.values())
        )

    def compute_metadata_hash(self, image: TopicsImage) -> int:
        """Return the hash of the subscribed topics."""
        return compute_topics_hash(image, self._find_named(image), self.regex_topics.keys())

    def count_partitions(self, image: TopicsImage) -> int:
        """Return the number of partitions of all subscribed topics."""
        names = self._find_named(image) | image.find_existing(self.regex_topics.keys())
        return sum(image.by_name[name].partitions for name in names)

    def _find_named(self, image: TopicsImage) -> set[str]:
        """Return the existing topics that a member subscribes to by name."""
        changes = self._name_changes
        unread = {name for name in changes if not self._count_members(name)}
        named = {*image.find_existing(self._group.names.keys()), *image.find_existing(changes.keys())}
        return named - unread


def compute_topics_hash(image: TopicsImage, *names: AbstractSet[str]) -> int:
    """Return the hash of topics; missing topics do not count."""
    existing = set[str]().union(*map(image.find_existing, names))
    return compute_group_hash(image.by_name[name] for name in existing)


def find_preferred_assignor(group: DurableConsumerGroup, default: str) -> str:
    """Return the assignor that most members prefer; on a tie, the first one in Kafka's map."""
    return max(group.assignor_order, key=group.assignors.__getitem__, default=default)


def find_preferred_assignor_after(
    group: DurableConsumerGroup, old: ConsumerMember | None, new: ConsumerMember, default: str
) -> str:
    """Return the preferred assignor after a change of one member.

    Kafka counts assignors in a copy, which is another kind of map. On a tie another assignor may come first, and
    the preference changes without a cause.
    """
    assignors = dict(group.assignors)
    room = compute_capacity(len(assignors)) if assignors else SMALLEST_TABLE
    order = HashOrder(mix_string, room, group.assignor_order)
    if old is not None and old.server_assignor is not None:
        add_to_counts(assignors, (old.server_assignor,), -1)
        if old.server_assignor not in assignors:
            order.remove(old.server_assignor)
    if new.server_assignor is not None:
        add_to_counts(assignors, (new.server_assignor,), 1)
        order.insert_first(new.server_assignor)
    return max(order, key=assignors.__getitem__, default=default)


def changes_preferred_assignor(
    group: DurableConsumerGroup, old: ConsumerMember | None, new: ConsumerMember, default: str
) -> bool:
    """Return whether the preferred assignor changes with a member. It may change even if the member does not."""
    return find_preferred_assignor(group, default) != find_preferred_assignor_after(group, old, new, default)
