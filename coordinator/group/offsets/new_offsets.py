"""What a commit brings, plain or in a transaction: who may, how much, and which records it becomes.

Whether a sender may commit is for its group to say: `commit_verdict`. A consumer without group management needs
none: a group that only holds offsets is made for it.

Source: Kafka's OffsetMetadataManager, validateOffsetCommit and what follows it.
"""

from collections.abc import Callable
from itertools import islice
from sys import intern
from typing import Any, Final, TypeAlias

from coordinator.group.events import SimpleGroupCreated
from coordinator.group.group import ACCEPTED, CommitRequest, CommitVerdict, Group
from coordinator.group.groups import Groups
from coordinator.group.offsets.commit_form import CommitForm
from coordinator.group.record_size import batch_size
from coordinator.group.refusal import refuse, tell_refusal
from coordinator.group.refusal_facts import MetadataTooLong, RecordsTooLarge, RefusedOffset
from coordinator.machine.outcome import Context, Fact
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.records import OffsetCommitKey, OffsetCommitValue
from protocol.records.value_version import offset_version

NONE: Final = ErrorCode.NONE
BASIC_PLANE_LAST: Final = "\uffff"
RECORD_BYTES_MAX: Final = 100
"""More than a record has besides its texts: 10 bytes in its key, 51 in its value, 32 around them."""
BATCH_BYTES_MAX: Final = 100
"""More than a batch has besides its records."""
RECORD_BYTES_MIN: Final = 40
"""What a record has at least: 10 bytes in its key, 24 in its value, 7 around them, and its texts."""
UTF_8_BYTES_MAX: Final = 4
REFUSED_OFFSETS_TOLD: Final = 10

Adjust: TypeAlias = Callable[[OffsetCommitValue, Any], None]
"""Takes what would be stored and the partition of the request; makes of it what is."""


def missing_group_verdict(
    request: CommitRequest, context: Context, error_since_version: int
) -> CommitVerdict:
    """Whether a commit may make its group, which is not there. In: since which version of the request it is told
    that, if it may not."""
    if request.generation_id_or_member_epoch < 0:
        return ACCEPTED
    missing_is_known = context.api_version >= error_since_version
    return CommitVerdict(ErrorCode.GROUP_ID_NOT_FOUND if missing_is_known else ErrorCode.ILLEGAL_GENERATION)


def is_refused(
    groups: Groups,
    group: Group | None,
    request: CommitRequest,
    context: Context,
    verdict: CommitVerdict,
    turn: Turn,
) -> bool:
    """Whether a verdict is not in favour of a commit; then it is answered. In: the group, None if there is none."""
    error = NONE if verdict is ACCEPTED else _error(groups, request, verdict)
    if error is NONE:
        return False
    count = sum(len(topic.partitions) for topic in request.topics)
    offsets = _refused_offsets(groups, request)
    refuse(group, request, context, error, turn, verdict.detail, partitions=count, offsets=offsets)
    return True


def new_offsets(
    groups: Groups,
    group: Group | None,
    request: CommitRequest,
    context: Context,
    form: CommitForm,
    adjust: Adjust | None,
    turn: Turn,
) -> tuple[list[Fact], object, int] | None:
    """Reads a commit that is admitted. Out: what is to be stored, in the form that it needs, the answer, and how
    many partitions are refused by themselves, because their text is too long. None: the log would not take so much,
    and the commit is answered."""
    limit, asked = groups.config.message_max_bytes, 0
    for topic in request.topics:
        asked += len(topic.partitions)
    # Only where they are so many that this alone may be too much, is it worth a look at each.
    if asked * RECORD_BYTES_MIN > limit and (least := _least(groups, request)) * RECORD_BYTES_MIN > limit:
        _refuse_too_large(group, request, context, limit, least, turn)
        return None
    group_id = intern(request.group_id) if group is None else group.group_id
    records: list[Fact] = []
    topics = []
    now_ms, metadata_max = turn.now.wall_ms, groups.config.offset_metadata_max_bytes
    response_type, topic_type, partition_type = form.response, form.topic, form.partition
    for topic in request.topics:
        name, topic_id, partitions = intern(topic.name), topic.topic_id, []
        for partition in topic.partitions:
            index, metadata, error = partition.partition_index, partition.committed_metadata or "", NONE
            if metadata and _is_longer_than(metadata_max, metadata):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now_ms,
                    topic_id=topic_id,
                )
                if adjust is not None:
                    adjust(value, partition)
                key = OffsetCommitKey(group=group_id, topic=name, partition=index)
                records.append(Fact(key, value, offset_version(value)))
            partitions.append(partition_type(partition_index=index, error_code=error))
        topics.append(topic_type(name=name, topic_id=topic_id, partitions=partitions))
    if _is_too_large(records, limit):
        _refuse_too_large(group, request, context, limit, len(records), turn)
        return None
    return records, response_type(topics=topics), asked - len(records)


def _refuse_too_large(
    group: Group | None, request: CommitRequest, context: Context, limit: int, records: int, turn: Turn
) -> None:
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    refuse(group, request, context, error, turn, RecordsTooLarge(limit), partitions=records)


def simple_group(groups: Groups, group_id: str, turn: Turn) -> Group:
    """A group that only holds offsets, made for a commit to one that is not there."""
    group_id = intern(group_id)
    groups.create_classic(group_id, turn.now.wall_ms)
    turn.tell(SimpleGroupCreated(group_id))
    return groups.by_id[group_id]


def _refused_offsets(groups: Groups, request: CommitRequest) -> tuple[RefusedOffset, ...]:
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


def _error(groups: Groups, request: CommitRequest, verdict: CommitVerdict) -> ErrorCode:
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


def _least(groups: Groups, request: CommitRequest) -> int:
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


def tell_too_long(
    groups: Groups,
    group: Group,
    request: CommitRequest,
    context: Context,
    too_long: int,
    turn: Turn,
) -> None:
    """State that so many partitions of a commit came with too long a text."""
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
