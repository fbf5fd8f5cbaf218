"""OffsetCommit: store how far a group has come.

Whether a sender may commit is for its group to say: `commit_verdict`. A consumer without group management needs
none: a group that only holds offsets is made for it.

Source: Kafka's OffsetMetadataManager.commitOffset.
"""

from itertools import islice
from sys import intern
from typing import Final

from coordinator.group.events import OffsetsCommitted, SimpleGroupCreated
from coordinator.group.group import ACCEPTED, CommitVerdict, Group
from coordinator.group.groups import Groups
from coordinator.group.record_size import batch_size
from coordinator.group.refusal import refuse, tell_refusal
from coordinator.group.refusal_facts import MetadataTooLong, RecordsTooLarge, RefusedOffset
from coordinator.machine.outcome import Context, Fact
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.kinds import ZERO_UUID
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.records import OffsetCommitKey, OffsetCommitValue
from protocol.records.value_version import offset_version

GROUP_ID_NOT_FOUND_VERSION: Final = 9
NOT_GIVEN: Final = -1
NONE: Final = ErrorCode.NONE
NO_LEADER_EPOCH: Final = -1
BASIC_PLANE_LAST: Final = "\uffff"
RECORD_BYTES_MAX: Final = 100
"""More than a record has besides its texts: 10 bytes in its key, 51 in its value, 32 around them."""
BATCH_BYTES_MAX: Final = 100
"""More than a batch has besides its records."""
RECORD_BYTES_MIN: Final = 40
"""What a record has at least: 10 bytes in its key, 24 in its value, 7 around them, and its texts."""
UTF_8_BYTES_MAX: Final = 4
REFUSED_OFFSETS_TOLD: Final = 10


def offset_commit(groups: Groups, request: OffsetCommitRequest, context: Context, turn: Turn) -> None:
    """Answer an OffsetCommit with an OffsetCommitResponse: an error that concerns the group stands on each
    of its partitions. Topics come by name, with their id where it is known, and are known to exist."""
    group = groups.find(request.group_id)
    verdict = _without_group(request, context) if group is None else group.commit_verdict(request)
    error = NONE if verdict is ACCEPTED else _error(groups, request, verdict)
    if error is not NONE:
        count = sum(len(topic.partitions) for topic in request.topics)
        offsets = _refused_offsets(groups, request)
        refuse(group, request, context, error, turn, verdict.detail, partitions=count, offsets=offsets)
        return
    group_id = intern(request.group_id) if group is None else group.group_id
    if group is not None:
        group.heard(request.member_id, turn)
    limit, asked = groups.config.message_max_bytes, 0
    for topic in request.topics:
        asked += len(topic.partitions)
    # Only where they are so many that this alone may be too much, is it worth a look at each.
    if asked * RECORD_BYTES_MIN > limit and (least := _least(groups, request)) * RECORD_BYTES_MIN > limit:
        too_large, error = RecordsTooLarge(limit), ErrorCode.UNKNOWN_SERVER_ERROR
        refuse(group, request, context, error, turn, too_large, partitions=least)
        return
    records, response = _read(groups, group_id, request, turn)
    if _is_too_large(records, limit):
        too_large, error = RecordsTooLarge(limit), ErrorCode.UNKNOWN_SERVER_ERROR
        refuse(group, request, context, error, turn, too_large, partitions=len(records))
        return
    if group is None:
        groups.create_classic(group_id, turn.now.wall_ms)
        group = groups.by_id[group_id]
        turn.tell(SimpleGroupCreated(group_id))
    for record in records:
        turn.write(record)
    if records:
        turn.tell(OffsetsCommitted(group.group_id, request.member_id, len(records)))
    if len(records) < asked:
        _tell_too_long(groups, group, request, context, asked - len(records), turn)
    turn.reply(context.waiter, response)


def _refused_offsets(groups: Groups, request: OffsetCommitRequest) -> tuple[RefusedOffset, ...]:
    """The first of what is not stored, with what is there."""
    of_group = groups.durable.offsets.of_group(request.group_id)
    offsets = (
        RefusedOffset(
            topic.name, part.partition_index, part.committed_offset, None if value is None else value.offset
        )
        for topic in request.topics
        for part in topic.partitions
        for value in [of_group.get(topic.name, {}).get(part.partition_index)]
    )
    return tuple(islice(offsets, REFUSED_OFFSETS_TOLD))


def _without_group(request: OffsetCommitRequest, context: Context) -> CommitVerdict:
    if request.generation_id_or_member_epoch < 0:
        return ACCEPTED
    missing_is_known = context.api_version >= GROUP_ID_NOT_FOUND_VERSION
    return CommitVerdict(ErrorCode.GROUP_ID_NOT_FOUND if missing_is_known else ErrorCode.ILLEGAL_GENERATION)


def _error(groups: Groups, request: OffsetCommitRequest, verdict: CommitVerdict) -> ErrorCode:
    """One partition that is refused refuses the request, as in Kafka; those whose text is too long are not asked
    for."""
    judge = verdict.of_partition
    if judge is None:
        return verdict.error
    metadata_max = groups.config.offset_metadata_max_bytes
    for topic in request.topics:
        for partition in topic.partitions:
            if not _is_longer_than(metadata_max, partition.committed_metadata or ""):
                error = judge(topic.name, topic.topic_id, partition.partition_index)
                if error is not NONE:
                    return error
    return NONE


def _read(
    groups: Groups, group_id: str, request: OffsetCommitRequest, turn: Turn
) -> tuple[list[Fact], OffsetCommitResponse]:
    """What is to be stored, and the answer to it; a partition with too long a text is refused by itself."""
    records: list[Fact] = []
    topics = []
    metadata_max = groups.config.offset_metadata_max_bytes
    for topic in request.topics:
        name, partitions = intern(topic.name), []
        for partition in topic.partitions:
            error = NONE
            if partition.committed_metadata and _is_longer_than(metadata_max, partition.committed_metadata):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                key = OffsetCommitKey(group=group_id, topic=name, partition=partition.partition_index)
                records.append(_record(key, topic.topic_id, partition, request.retention_time_ms, turn))
            partitions.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            )
        topics.append(OffsetCommitResponseTopic(name=name, topic_id=topic.topic_id, partitions=partitions))
    return records, OffsetCommitResponse(topics=topics)


def _least(groups: Groups, request: OffsetCommitRequest) -> int:
    """How many records there will be."""
    metadata_max = groups.config.offset_metadata_max_bytes
    return sum(
        not _is_longer_than(metadata_max, partition.committed_metadata or "")
        for topic in request.topics
        for partition in topic.partitions
    )


def _is_too_large(records: list[Fact], limit: int) -> bool:
    """Whether the log would refuse the batch of these records. Commits are many and large ones rare, so
    that a bound which is cheap to find comes first."""
    bound = BATCH_BYTES_MAX
    for record in records:
        key: OffsetCommitKey = record.key
        value: OffsetCommitValue = record.value
        group, topic, text = key.group, key.topic, value.metadata
        widest = 1 if group.isascii() and topic.isascii() and text.isascii() else UTF_8_BYTES_MAX
        bound += RECORD_BYTES_MAX + widest * (len(group) + len(topic) + len(text))
    return bound > limit and batch_size(records) > limit


def _tell_too_long(
    groups: Groups,
    group: Group,
    request: OffsetCommitRequest,
    context: Context,
    too_long: int,
    turn: Turn,
) -> None:
    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
    texts = [part.committed_metadata or "" for topic in request.topics for part in topic.partitions]
    longest = max(_utf_16_length(text) for text in texts)
    detail = MetadataTooLong(longest, groups.config.offset_metadata_max_bytes)
    tell_refusal(group, request, context, error, turn, detail, partitions=too_long)


def _is_longer_than(limit: int, metadata: str) -> bool:
    """Whether a text has more UTF-16 units than allowed: the unit in which Kafka counts, its config's name
    notwithstanding."""
    return 2 * len(metadata) > limit and _utf_16_length(metadata) > limit


def _utf_16_length(text: str) -> int:
    return len(text) + sum(character > BASIC_PLANE_LAST for character in text)


def _record(
    key: OffsetCommitKey,
    topic_id: bytes,
    partition: OffsetCommitRequestPartition,
    retention_time_ms: int,
    turn: Turn,
) -> Fact:
    """The value takes the form that its content needs. One with an expire timestamp, from a retention time
    of the client's own (v2 to v4), has neither leader epoch nor topic id."""
    now_ms = turn.now.wall_ms
    chosen_ms = partition.commit_timestamp
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms if chosen_ms == NOT_GIVEN else chosen_ms,
        topic_id=topic_id,
    )
    if retention_time_ms != NOT_GIVEN:
        value.expire_timestamp = now_ms + retention_time_ms
        value.leader_epoch, value.topic_id = NO_LEADER_EPOCH, ZERO_UUID
    return Fact(key, value, offset_version(value))
