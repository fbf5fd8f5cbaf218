"""Topics that were made, have grown or are gone: the next heartbeat of a group that reads them looks again.

Source: Kafka's GroupMetadataManager.onMetadataUpdate.
"""

from coordinator.group.consumer.events import TopicChange
from coordinator.group.consumer.group import NEVER, ConsumerGroup
from coordinator.group.groups import Groups
from coordinator.group.topics_image import TopicsImage


def take_topics(groups: Groups, image: TopicsImage) -> None:
    """Know the topics as they are now. Groups learn of it with their next heartbeat."""
    before, groups.topics = groups.topics, image
    if before.has_new_in(image):
        groups.new_topics_version = image.version
    changed = before.changed_in(image)
    for group in groups.consumers.values():
        read = [name for name in changed if group.durable.is_subscribed_to(name)]
        if read:
            group.metadata_deadline_ms = NEVER
            for name in read:
                _note(group, name, _change(before, image, name))


def _note(group: ConsumerGroup, name: str, change: TopicChange) -> None:
    """One that is new, and has grown since, is new."""
    if change is not TopicChange.GREW or name not in group.topic_changes:
        group.topic_changes[name] = change


def _change(before: TopicsImage, after: TopicsImage, name: str) -> TopicChange:
    old, new = before.by_name.get(name), after.by_name.get(name)
    if new is None:
        return TopicChange.DELETED
    is_same = old is not None and old.topic_id == new.topic_id
    return TopicChange.GREW if is_same else TopicChange.CREATED
