"""A group that plays a history: members, topics and targets, without a coordinator."""

from coordinator.group.modern.java_order import TimelineOrder, ordered_names
from coordinator.group.modern.partition_assignors import ASSIGNORS, GroupSpec, MemberSpec, Partitions
from coordinator.group.topics_image import TopicImage, compute_group_hash
from tests.group.modern.histories import Step
from tests.group.modern.recorded import Answer


class PlayedGroup:
    """The state of a group after the steps of a history."""

    def __init__(self) -> None:
        self.order = TimelineOrder()
        self.topics: dict[str, TopicImage] = {}
        self.targets: dict[str, Partitions] = {}
        self.subscriptions: dict[str, tuple[str | None, list[str]]] = {}

    def take(self, step: Step) -> Answer | None:
        """Apply a step. Return the answer for an assignment, None for any other step."""
        match step:
            case ["topic", name, topic_id, partitions]:
                self.topics[name] = TopicImage(name, bytes.fromhex(topic_id), partitions)
            case ["delete", name]:
                del self.topics[name]
            case ["put", member_id, instance_id, names]:
                self.order.insert(member_id)
                self.subscriptions[member_id] = (instance_id, names)
            case ["remove", member_id]:
                self.order.remove(member_id)
                del self.subscriptions[member_id]
                self.targets.pop(member_id, None)
            case ["assign", assignor]:
                return self.assign(assignor)
            case _:
                raise ValueError(step)
        return None

    def assign(self, assignor: str) -> Answer:
        """Compute the targets of all members. Return them in the form of Kafka's recorded answer."""
        new = ASSIGNORS[assignor](self.spec())
        records = {
            member_id: [(topic_id.hex(), list(partitions)) for topic_id, partitions in target.items()]
            for member_id, target in new.items()
            # For a member without a target `get` returns None: its first target needs a record even if it is empty.
            if target != self.targets.get(member_id)
        }
        self.targets = new
        return Answer(order=list(self.order), hash=compute_group_hash(self.topics.values()), records=records)

    def spec(self) -> GroupSpec:
        """Return the input of an assignor."""
        subscriptions = {frozenset(names) for _, names in self.subscriptions.values()}
        return GroupSpec(
            members={member_id: self._member(member_id) for member_id in self.order},
            is_homogeneous=len(subscriptions) <= 1,
            partitions={topic.topic_id: topic.partitions for topic in self.topics.values()},
        )

    def _member(self, member_id: str) -> MemberSpec:
        instance_id, names = self.subscriptions[member_id]
        return MemberSpec(
            member_id=member_id,
            instance_id=instance_id,
            topic_ids=[self.topics[name].topic_id for name in ordered_names(names, self.topics)],
            subscribed=len(names),
            assigned=self.targets.get(member_id, {}),
        )
