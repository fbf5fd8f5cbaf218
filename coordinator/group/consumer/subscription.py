"""What a group reads once a member has changed or gone: computed beside what the log says, which stays as it is.

Source: Kafka's ConsumerGroup, computeSubscribedTopicNames, computeSubscribedRegularExpressions, subscriptionType,
computePreferredServerAssignor; ModernGroup, computeMetadataHash.
"""

from collections.abc import Collection, Iterable

from coordinator.group.consumer.counts import count
from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.modern.java_order import SMALLEST_TABLE, HashOrder, mixed_string, room_for
from coordinator.group.modern.topic_hash import group_hash
from coordinator.group.topics_image import TopicImage, TopicsImage


class Subscription:
    """Of a group in which one member is another value (`old` None: it is new), or of one that some have left."""

    __slots__ = ("members", "names", "regex_members", "regex_topics")

    def __init__(self, group: DurableConsumerGroup) -> None:
        self.members = len(group.members)
        self.names = dict(group.names)
        self.regex_topics = dict(group.regex_topics)
        self.regex_members = dict(group.regex_members)

    @classmethod
    def with_member(
        cls, group: DurableConsumerGroup, old: ConsumerMember | None, new: ConsumerMember
    ) -> "Subscription":
        """One member is another value. An expression that nobody else uses goes with the old one."""
        made = cls(group)
        if old is not None:
            made._leave(group, [old])
        made.members += 1
        count(made.names, new.subscribed_topic_names, 1)
        if new.subscribed_topic_regex:
            is_back = old is not None and old.subscribed_topic_regex == new.subscribed_topic_regex
            if is_back and new.subscribed_topic_regex not in made.regex_members:
                made._count_topics(group, new.subscribed_topic_regex, 1)
            count(made.regex_members, (new.subscribed_topic_regex,), 1)
        return made

    @classmethod
    def without(cls, group: DurableConsumerGroup, members: Iterable[ConsumerMember]) -> "Subscription":
        """These members are gone, and with them the expressions that nobody else uses."""
        made = cls(group)
        made._leave(group, members)
        return made

    def _leave(self, group: DurableConsumerGroup, members: Iterable[ConsumerMember]) -> None:
        for member in members:
            self.members -= 1
            count(self.names, member.subscribed_topic_names, -1)
            regex = member.subscribed_topic_regex
            if regex:
                count(self.regex_members, (regex,), -1)
                if regex not in self.regex_members:
                    self._count_topics(group, regex, -1)

    def _count_topics(self, group: DurableConsumerGroup, regex: str, change: int) -> None:
        resolved = group.regexes.get(regex)
        if resolved is not None:
            count(self.regex_topics, resolved.topics, change)

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics in the same way."""
        if not self.regex_members:
            return all(members == self.members for members in self.names.values())
        return (
            next(iter(self.regex_members.values())) == self.members
            and not self.names
            and all(regexes == 1 for regexes in self.regex_topics.values())
        )

    def metadata_hash(self, image: TopicsImage) -> int:
        """What the topics are that it reads."""
        return topics_hash({*self.names, *self.regex_topics}, image)


def topics_hash(names: Collection[str], image: TopicsImage) -> int:
    """What these topics are; those that do not exist say nothing."""
    found: list[TopicImage] = [image.by_name[name] for name in names if name in image.by_name]
    return group_hash(found)


def preferred_assignor(group: DurableConsumerGroup, otherwise: str) -> str:
    """The one that most members name; of several, that which comes first in Kafka's map of them."""
    return max(group.assignor_order, key=group.assignors.__getitem__, default=otherwise)


def preferred_assignor_with(
    group: DurableConsumerGroup, old: ConsumerMember | None, new: ConsumerMember, otherwise: str
) -> str:
    """The same when one member is another value. Kafka counts them in a copy that is a map of another kind: of
    several with as many members another one may come first, and the group prefers another one without a change."""
    assignors = dict(group.assignors)
    room = room_for(len(assignors)) if assignors else SMALLEST_TABLE
    order = HashOrder(mixed_string, room, group.assignor_order)
    if old is not None and old.server_assignor is not None:
        count(assignors, (old.server_assignor,), -1)
        if old.server_assignor not in assignors:
            order.remove(old.server_assignor)
    if new.server_assignor is not None:
        count(assignors, (new.server_assignor,), 1)
        order.put_first(new.server_assignor)
    return max(order, key=assignors.__getitem__, default=otherwise)


def prefers_another(
    group: DurableConsumerGroup, old: ConsumerMember | None, new: ConsumerMember, otherwise: str
) -> bool:
    """Whether the group prefers another assignor when one member is another value; it may without a change."""
    return preferred_assignor(group, otherwise) != preferred_assignor_with(group, old, new, otherwise)
