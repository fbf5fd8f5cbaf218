"""What members of consumers' groups subscribe to and were assigned, for people."""

from collections.abc import Iterable, Mapping

from coordinator.control.member_bytes import partitions_of, topics_of
from coordinator.group.topics_image import TopicsImage
from coordinator.group.view import GroupView, MemberView
from protocol.consumer_protocol import PROTOCOL_TYPE


def subscription_of(view: GroupView, member: MemberView) -> list[str] | None:
    """The topics that a member wants, by name; None where it says nothing of the consumer protocol's."""
    if view.protocol_type != PROTOCOL_TYPE or not (member.metadata or member.consumer):
        return None
    topics = topics_of(member)
    return None if topics is None else sorted(topics)


def assignment_of(view: GroupView, member: MemberView) -> dict[str, list[int]] | None:
    """The partitions that a member was assigned, by topic; None as above, and where it has none yet."""
    if view.protocol_type != PROTOCOL_TYPE or not (member.assignment or member.consumer):
        return None
    partitions = partitions_of(member)
    if partitions is None:
        return None
    return {topic: sorted(set(numbers)) for topic, numbers in sorted(partitions.items())}


def unowned_of(
    subscriptions: Iterable[list[str] | None],
    assignments: Iterable[Mapping[str, list[int]] | None],
    topics: TopicsImage,
) -> dict[str, list[int]]:
    """The partitions of subscribed topics that nobody was assigned, by topic. None: has none, or wants nothing."""
    owned: dict[str, set[int]] = {}
    for assignment in assignments:
        for topic, partitions in (assignment or {}).items():
            owned.setdefault(topic, set()).update(partitions)
    wanted = {topic for subscription in subscriptions for topic in subscription or ()}
    unowned = {}
    for topic in sorted(wanted & topics.by_name.keys()):
        taken = owned.get(topic, set())
        left = [number for number in range(topics.by_name[topic].partitions) if number not in taken]
        if left:
            unowned[topic] = left
    return unowned
