"""Topics that were made, have grown or are gone: the next heartbeat of a group that reads them looks again.

Source: Kafka's GroupMetadataManager.onMetadataUpdate.
"""

from coordinator.group.consumer.group import NEVER
from coordinator.group.groups import Groups
from coordinator.group.topics_image import TopicsImage


def take_topics(groups: Groups, image: TopicsImage) -> None:
    """Know the topics as they are now. Groups learn of it with their next heartbeat."""
    before, groups.topics = groups.topics, image
    if before.has_new_in(image):
        groups.new_topics_version = image.version
    changed = before.changed_in(image)
    for group in groups.consumers.values():
        if any(group.durable.is_subscribed_to(name) for name in changed):
            group.metadata_deadline_ms = NEVER
