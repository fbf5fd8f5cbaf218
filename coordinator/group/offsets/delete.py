"""OffsetDelete (KIP-496) and the end of topics: offsets that go before they expire.

Source: Kafka's OffsetMetadataManager, deleteOffsets and onTopicsDeleted.
"""

from coordinator.group.consumer.topics import take_topics
from coordinator.group.events import OffsetsDeleted
from coordinator.group.group import Group
from coordinator.group.groups import Groups
from coordinator.group.refusal import check_group_id
from coordinator.group.requests import TopicsChanged
from coordinator.machine.outcome import Context, Fact
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.records import OffsetCommitKey


def offset_delete(groups: Groups, request: OffsetDeleteRequest, context: Context, turn: Turn) -> None:
    """Answer an OffsetDelete with an OffsetDeleteResponse. Topics that a member reads keep their offsets;
    a partition without an offset is no error."""
    group = groups.find(request.group_id)
    error = _error(group, request)
    if group is None or error is not ErrorCode.NONE:
        turn.reply(context.waiter, OffsetDeleteResponse(error_code=error))
        return
    topics = []
    for topic in request.topics:
        is_read = group.reads(topic.name)
        outcome = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        indexes = [partition.partition_index for partition in topic.partitions]
        if not is_read:
            for index in indexes:
                delete_offset(groups, group.group_id, topic.name, index, turn)
        topics.append(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=index, error_code=outcome)
                    for index in indexes
                ],
            )
        )
    if turn.records:
        turn.tell(OffsetsDeleted(group.group_id, len(turn.records), "request"))
    turn.reply(context.waiter, OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics))


def _error(group: Group | None, request: OffsetDeleteRequest) -> ErrorCode:
    error = check_group_id(request)
    if error is not ErrorCode.NONE:
        return error
    return ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.offset_delete_error()


def topics_changed(groups: Groups, request: TopicsChanged, turn: Turn) -> None:
    """Know the topics as they are now, and remove every group's offsets of those that are gone. Whoever hears of it
    late may have committed for the next topic of that name: that stays."""
    take_topics(groups, request.image)
    offsets = groups.durable.offsets
    there = request.image.by_id
    gone_of: dict[str, list[str]] = {}
    for name in dict.fromkeys(request.gone):
        for group_id in offsets.groups_of(name):
            gone_of.setdefault(group_id, []).append(name)
    for group_id, names in gone_of.items():
        before = len(turn.records)
        for name, partition in offsets.places_of(group_id, names):
            value = offsets.get(group_id, name, partition)
            if value is not None and value.topic_id in there:
                continue
            delete_offset(groups, group_id, name, partition, turn)
        if len(turn.records) > before:
            turn.tell(OffsetsDeleted(group_id, len(turn.records) - before, "topic deleted"))


def delete_all_offsets(groups: Groups, group_id: str, turn: Turn) -> int:
    """Remove all offsets of a group, pending ones too; of how many partitions there were any."""
    doomed = groups.durable.offsets.places_of(group_id)
    for topic, partition in doomed:
        delete_offset(groups, group_id, topic, partition, turn)
    assert group_id not in groups.durable.offsets, group_id
    return len(doomed)


def delete_offset(groups: Groups, group_id: str, topic: str, partition: int, turn: Turn) -> None:
    """Remove one offset if there is one, and what is pending of that partition: no transaction brings it back."""
    offsets = groups.durable.offsets
    if offsets.get(group_id, topic, partition) is not None or offsets.is_pending(group_id, topic, partition):
        key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
        turn.write(Fact(key, None))
        groups.commit_kinds.removed((group_id, topic, partition))
