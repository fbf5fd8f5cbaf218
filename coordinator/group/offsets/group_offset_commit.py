"""OffsetCommit and TxnOffsetCommit in a group, and the end of a transaction.

A client repeats an OffsetCommit with other offsets. The parts that depend on the request alone are prepared once:
the keys of the records, the response, and the comparison with the limits. Those hold for metadata of one length.
Each repetition is validated and written like a whole request.

Source: Kafka's OffsetMetadataManager.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from sys import intern
from typing import Any, Final, TypeAlias

from msgspec import Struct

from coordinator.core.outcome import (
    Context,
    Fact,
    Now,
    OutcomeBuilder,
    TransactionMarker,
    TransactionOwner,
)
from coordinator.group.durable_groups import OffsetKey
from coordinator.group.event_details import MetadataTooLong, RecordsTooLarge, RefusedOffset
from coordinator.group.group_event_types import (
    MixedCommits,
    OffsetsCommitted,
    OffsetsPending,
    OffsetsSkipped,
    SimpleGroupCreated,
    SkippedOffset,
    TransactionEnded,
)
from coordinator.group.group_interface import (
    ACCEPTED,
    CommitRequest,
    CommitValidation,
    Group,
    ValidatePartition,
)
from coordinator.group.group_record_codec import compute_batch_size
from coordinator.group.group_request_rules import (
    add_refused_event,
    check_group_id,
    refuse_request,
)
from coordinator.group.group_requests import EndTransaction, PreparedCommit, RepeatedCommit
from coordinator.group.shard_groups import ShardGroups
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.records.group_record_schemas import OffsetCommitKey, OffsetCommitValue
from protocol.records.group_record_serde import OFFSET_VERSION, TOPIC_ID_OFFSET_VERSION, find_offset_version
from protocol.schema import ZERO_UUID

NONE: Final = ErrorCode.NONE


class CommitResponseTypes(Struct, frozen=True):
    """The classes of a response, of its topics and of their partitions."""

    response: Callable[..., Any]
    topic: Callable[..., Any]
    partition: Callable[..., Any]


OFFSET_COMMIT_TYPES: Final = CommitResponseTypes(
    OffsetCommitResponse, OffsetCommitResponseTopic, OffsetCommitResponsePartition
)
TXN_OFFSET_COMMIT_TYPES: Final = CommitResponseTypes(
    TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition
)
RECORD_BYTES_MAX: Final = 100
"""Upper bound of a record without its texts: 10 bytes in its key, 51 in its value, 32 around them."""
BATCH_BYTES_MAX: Final = 100
"""Upper bound of a batch without its records."""
RECORD_BYTES_MIN: Final = 40
"""Lower bound of a record without its texts: 10 bytes in its key, 24 in its value, 7 around them."""
TOPIC_ID_BYTES: Final = 18
"""Lower bound of the additional bytes in the value of a record with a topic id."""
UTF_8_BYTES_MAX: Final = 4
TOPIC_NAME_MAX: Final = 249
"""Characters of a topic name; the broker has looked up every topic of a commit."""
COMMIT_BYTES_MAX: Final = BATCH_BYTES_MAX + RECORD_BYTES_MAX + UTF_8_BYTES_MAX * TOPIC_NAME_MAX
"""Upper bound of a batch of one record without the group id and the metadata."""
MAX_REPORTED_REFUSED_OFFSETS: Final = 10

MAX_REPORTED_SKIPPED_OFFSETS: Final = 10

OFFSET_COMMIT_GROUP_ID_NOT_FOUND_VERSION: Final = 9

TXN_OFFSET_COMMIT_GROUP_ID_NOT_FOUND_VERSION: Final = 6
LAST_TIMESTAMP_VERSION: Final = 1
NOT_GIVEN: Final = -1
NO_LEADER_EPOCH: Final = -1

AdjustOffset: TypeAlias = Callable[[OffsetCommitValue, Any], None]
"""Called with the value to store and the partition of the request; adjusts the value in place."""

Offsets = list[tuple[OffsetKey, OffsetCommitValue]]


def offset_commit(
    groups: ShardGroups, request: OffsetCommitRequest, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer an OffsetCommit with an OffsetCommitResponse. An error of the group appears on each of its partitions.
    Requires topics by name, with their id if known, that exist.
    """
    group = groups.by_id.get(request.group_id)
    if group is None:
        validation = validate_commit_to_missing_group(
            request, context, OFFSET_COMMIT_GROUP_ID_NOT_FOUND_VERSION
        )
    else:
        validation = group.validate_commit(request, context.api_version)
    if validation is not ACCEPTED and refuse_if_invalid(groups, group, request, context, validation, builder):
        return
    if group is not None:
        group.on_commit_accepted(request.member_id, builder)
    adjust = None
    if request.retention_time_ms != NOT_GIVEN or context.api_version <= LAST_TIMESTAMP_VERSION:
        adjust = partial(_apply_client_times, builder.now.wall_ms, request.retention_time_ms)
    new = build_offset_records(groups, group, request, context, OFFSET_COMMIT_TYPES, adjust, builder)
    if new is None:
        return
    records, response, too_long = new
    if group is None:
        group = create_simple_group(groups, request.group_id, builder)
    if records:
        write_plain_commit(groups, group, request, records, builder)
    if too_long:
        report_metadata_too_long(groups, group, request, context, too_long, builder)
    builder.reply(context.waiter, response)


def write_plain_commit(
    groups: ShardGroups,
    group: Group,
    request: OffsetCommitRequest,
    records: Sequence[Fact],
    builder: OutcomeBuilder,
) -> None:
    """Write the records of an accepted OffsetCommit outside of transactions, at least one."""
    if request.generation_id_or_member_epoch < 0:
        places = [(record.key.group, record.key.topic, record.key.partition) for record in records]
        groups.commit_kinds.record_external_commit(group.group_id, places, builder.now.wall_ms)
    elif groups.durable.offsets.pending.by_producer or groups.commit_kinds.transactional:
        report_mixed_plain_commit(groups, request, records, builder)
    for record in records:
        builder.write_fact(record)
    builder.add_event(OffsetsCommitted(group.group_id, request.member_id, len(records)))


def prepare_commit(
    groups: ShardGroups, request: OffsetCommitRequest, api_version: int
) -> PreparedCommit | None:
    """Prepare the repetitions of an OffsetCommit, without an effect. Return None for a request that a repetition
    cannot stand for: to a missing group, with times from the client, or beyond a limit.
    """
    group = groups.by_id.get(request.group_id)
    if group is None or request.retention_time_ms != NOT_GIVEN or api_version <= LAST_TIMESTAMP_VERSION:
        return None
    context, unused = Context(0, api_version, "", ""), OutcomeBuilder(Now(0, 0), _refuse_to_apply)
    new = build_offset_records(groups, group, request, context, OFFSET_COMMIT_TYPES, None, unused)
    if new is None:
        return None
    records, response, too_long = new
    if too_long:
        return None
    assert isinstance(response, OffsetCommitResponse), response
    places = tuple((record.key, record.value.topic_id, record.value_version) for record in records)
    return PreparedCommit(request, places, response, groups.config)


def _refuse_to_apply(fact: Fact, _: int) -> None:
    raise AssertionError(f"a preparation writes nothing: {fact}")


def repeat_commit(
    groups: ShardGroups, repeated: RepeatedCommit, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer the repetition of an OffsetCommit, as `offset_commit` answers the request that it stands for."""
    prepared = repeated.prepared
    request = prepared.request
    group = groups.by_id.get(request.group_id)
    if (
        group is None
        or prepared.config is not groups.config
        or group.validate_commit(request, context.api_version) is not ACCEPTED
    ):
        offset_commit(groups, repeated.build_request(), context, builder)
        return
    group.on_commit_accepted(request.member_id, builder)
    now_ms = builder.now.wall_ms
    records = [
        Fact(
            key,
            OffsetCommitValue(
                offset=offset,
                leader_epoch=leader_epoch,
                metadata=metadata,
                commit_timestamp=now_ms,
                topic_id=topic_id,
            ),
            version,
        )
        for (key, topic_id, version), offset, leader_epoch, metadata in zip(
            prepared.places, repeated.offsets, repeated.leader_epochs, repeated.metadata, strict=True
        )
    ]
    write_plain_commit(groups, group, request, records, builder)
    builder.reply(context.waiter, prepared.response)


def _apply_client_times(
    now_ms: int, retention_time_ms: int, value: OffsetCommitValue, partition: OffsetCommitRequestPartition
) -> None:
    """Apply the commit timestamp (v1) or retention time (v2 to v4) from the client. A value with an expire
    timestamp has neither leader epoch nor topic id.
    """
    if partition.commit_timestamp != NOT_GIVEN:
        value.commit_timestamp = partition.commit_timestamp
    if retention_time_ms != NOT_GIVEN:
        value.expire_timestamp = now_ms + retention_time_ms
        value.leader_epoch, value.topic_id = NO_LEADER_EPOCH, ZERO_UUID


def txn_offset_commit(
    groups: ShardGroups, request: TxnOffsetCommitRequest, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer a TxnOffsetCommit with a TxnOffsetCommitResponse. An error of the group appears on each of its
    partitions. Requires topics by name, with their id if known, that exist.
    """
    error = check_group_id(request)
    if error is not ErrorCode.NONE:
        refuse_request(None, request, context, error, builder)
        return
    group = groups.by_id.get(request.group_id)
    if group is None:
        validation = validate_commit_to_missing_group(
            request, context, TXN_OFFSET_COMMIT_GROUP_ID_NOT_FOUND_VERSION
        )
    else:
        validation = group.validate_commit(request, context.api_version)
    if validation is not ACCEPTED and refuse_if_invalid(groups, group, request, context, validation, builder):
        return
    new = build_offset_records(groups, group, request, context, TXN_OFFSET_COMMIT_TYPES, None, builder)
    if new is None:
        return
    records, response, too_long = new
    if group is None:
        group = create_simple_group(groups, request.group_id, builder)
    if records:
        builder.in_transaction = TransactionOwner(request.producer_id, request.producer_epoch)
        report_mixed_transactional_commit(groups, request, records, builder)
        for record in records:
            builder.write_fact(record)
        builder.add_event(
            OffsetsPending(group.group_id, request.member_id, request.producer_id, len(records))
        )
    if too_long:
        report_metadata_too_long(groups, group, request, context, too_long, builder)
    builder.reply(context.waiter, response)


def validate_commit_to_missing_group(
    request: CommitRequest, context: Context, error_since_version: int
) -> CommitValidation:
    """Validate a commit to a missing group, which it creates. Only a commit without a generation may do so.

    The error of a refusal is GROUP_ID_NOT_FOUND from `error_since_version` on, and ILLEGAL_GENERATION before.
    """
    if request.generation_id_or_member_epoch < 0:
        return ACCEPTED
    missing_is_known = context.api_version >= error_since_version
    return CommitValidation(
        ErrorCode.GROUP_ID_NOT_FOUND if missing_is_known else ErrorCode.ILLEGAL_GENERATION
    )


def refuse_if_invalid(
    groups: ShardGroups,
    group: Group | None,
    request: CommitRequest,
    context: Context,
    validation: CommitValidation,
    builder: OutcomeBuilder,
) -> bool:
    """Answer a commit with its error if it is invalid; return whether it was. `group` is None if it does not
    exist.
    """
    validate_partition = validation.validate_partition
    assert (validation.error is NONE) == (validate_partition is not None), validation
    error = validation.error
    if validate_partition is not None:
        error = _find_partition_error(groups, request, validate_partition)
    if error is NONE:
        return False
    count = sum(len(topic.partitions) for topic in request.topics)
    offsets = _list_refused_offsets(groups, request)
    refuse_request(
        group, request, context, error, builder, validation.detail, partitions=count, offsets=offsets
    )
    return True


def _find_partition_error(
    groups: ShardGroups, request: CommitRequest, validate_partition: ValidatePartition
) -> ErrorCode:
    """Return the first error of a partition, which refuses the whole request, as in Kafka. A partition with too
    long metadata does not count: only that partition is refused.
    """
    metadata_max = groups.config.offset_metadata_max_bytes
    for topic in request.topics:
        for partition in topic.partitions:
            if not _is_longer_than(metadata_max, partition.committed_metadata or ""):
                error = validate_partition(topic.name, topic.topic_id, partition.partition_index)
                if error is not NONE:
                    return error
    return NONE


def _list_refused_offsets(groups: ShardGroups, request: CommitRequest) -> tuple[RefusedOffset, ...]:
    """Return the first refused offsets, with the committed offsets of their partitions."""
    of_group = groups.durable.offsets.find_group_offsets(request.group_id)
    offsets = (
        RefusedOffset(
            topic.name, part.partition_index, part.committed_offset, None if value is None else value.offset
        )
        for topic in request.topics
        for part in topic.partitions
        for value in [of_group.get(topic.name, {}).get(part.partition_index)]
    )
    return tuple(islice(offsets, MAX_REPORTED_REFUSED_OFFSETS))


def build_offset_records(
    groups: ShardGroups,
    group: Group | None,
    request: CommitRequest,
    context: Context,
    types: CommitResponseTypes,
    adjust: AdjustOffset | None,
    builder: OutcomeBuilder,
) -> tuple[list[Fact], object, int] | None:
    """Build the records of a valid commit.

    Returns:
        The records, the response, and the number of partitions that are refused for too long metadata. None if the
        records exceed the batch limit of the log; the commit is then already answered.
    """
    limit, requested = groups.config.message_max_bytes, 0
    for topic in request.topics:
        requested += len(topic.partitions)
    group_id = intern(request.group_id) if group is None else group.group_id
    metadata_max = groups.config.offset_metadata_max_bytes
    # Nearly every commit is far below the limit, whatever its texts contain.
    longest = COMMIT_BYTES_MAX + UTF_8_BYTES_MAX * (len(group_id) + metadata_max)
    may_be_too_large = requested * longest > limit
    # A lower bound refuses a commit that is far too large before its records are built.
    if may_be_too_large:
        least, least_bytes = _count_minimum_records(groups, request, len(group_id))
        if least_bytes > limit:
            _refuse_too_large(group, request, context, limit, least, builder)
            return None
    records: list[Fact] = []
    topics = []
    now_ms = builder.now.wall_ms
    response_type, topic_type, partition_type = types.response, types.topic, types.partition
    for topic in request.topics:
        name, topic_id, partitions = intern(topic.name), topic.topic_id, []
        version = OFFSET_VERSION if topic_id == ZERO_UUID else TOPIC_ID_OFFSET_VERSION
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
                    version = find_offset_version(value)
                key = OffsetCommitKey(group=group_id, topic=name, partition=index)
                records.append(Fact(key, value, version))
            partitions.append(partition_type(partition_index=index, error_code=error))
        topics.append(topic_type(name=name, topic_id=topic_id, partitions=partitions))
    if may_be_too_large and _is_too_large(records, limit):
        _refuse_too_large(group, request, context, limit, len(records), builder)
        return None
    return records, response_type(topics=topics), requested - len(records)


def _count_minimum_records(
    groups: ShardGroups, request: CommitRequest, group_id_length: int
) -> tuple[int, int]:
    """Count the records of a commit; return their number and their minimum size in bytes."""
    metadata_max = groups.config.offset_metadata_max_bytes
    records = least_bytes = 0
    for topic in request.topics:
        record_bytes = RECORD_BYTES_MIN + group_id_length + len(topic.name)
        if topic.topic_id != ZERO_UUID:
            record_bytes += TOPIC_ID_BYTES
        for partition in topic.partitions:
            metadata = partition.committed_metadata
            if not metadata:
                records += 1
                least_bytes += record_bytes
            elif not _is_longer_than(metadata_max, metadata):
                records += 1
                least_bytes += record_bytes + len(metadata)
    return records, least_bytes


def _is_too_large(records: list[Fact], limit: int) -> bool:
    """Return whether the batch of these records exceeds the limit of the log. Checks a cheap bound first, because
    commits are many and large ones rare.
    """
    bound = BATCH_BYTES_MAX
    for record in records:
        key: OffsetCommitKey = record.key
        value: OffsetCommitValue = record.value
        group, topic, text = key.group, key.topic, value.metadata
        widest = 1 if group.isascii() and topic.isascii() and text.isascii() else UTF_8_BYTES_MAX
        bound += RECORD_BYTES_MAX + widest * (len(group) + len(topic) + len(text))
    return bound > limit and compute_batch_size(records) > limit


def _refuse_too_large(
    group: Group | None,
    request: CommitRequest,
    context: Context,
    limit: int,
    records: int,
    builder: OutcomeBuilder,
) -> None:
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    refuse_request(group, request, context, error, builder, RecordsTooLarge(limit), partitions=records)


def create_simple_group(groups: ShardGroups, group_id: str, builder: OutcomeBuilder) -> Group:
    """Create a group that only holds offsets, for a commit to a missing group."""
    group_id = intern(group_id)
    groups.create_classic_group(group_id, builder.now.wall_ms)
    builder.add_event(SimpleGroupCreated(group_id))
    return groups.by_id[group_id]


def report_metadata_too_long(
    groups: ShardGroups,
    group: Group,
    request: CommitRequest,
    context: Context,
    too_long: int,
    builder: OutcomeBuilder,
) -> None:
    """Report that the metadata of `too_long` partitions of a commit exceeds the limit."""
    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
    texts = [part.committed_metadata or "" for topic in request.topics for part in topic.partitions]
    longest = max(_utf_16_length(text) for text in texts)
    detail = MetadataTooLong(longest, groups.config.offset_metadata_max_bytes)
    add_refused_event(group, request, context, error, builder, detail, partitions=too_long)


def _is_longer_than(limit: int, metadata: str) -> bool:
    """Return whether metadata has more UTF-16 units than `limit`. Kafka counts these units, although the property
    is called offset.metadata.max.bytes.
    """
    return len(metadata) > limit or (2 * len(metadata) > limit and _utf_16_length(metadata) > limit)


def _utf_16_length(text: str) -> int:
    """Return the number of UTF-16 units of a text, without a loop over its characters: a request has up to 100 MB
    of them.
    """
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def report_mixed_plain_commit(
    groups: ShardGroups, request: OffsetCommitRequest, records: Iterable[Fact], builder: OutcomeBuilder
) -> None:
    """Report a member's plain commit of a partition that has a transactional offset, current or pending. `records`
    are not written yet.
    """
    group_id, kinds = request.group_id, groups.commit_kinds
    current = kinds.find_transactional(group_id)
    pending = groups.durable.offsets.find_pending_partitions(group_id)
    if not (current or pending) or kinds.is_mixed(group_id):
        return
    for record in records:
        key: OffsetCommitKey = record.key
        if (key.topic, key.partition) in current or key.partition in pending.get(key.topic, ()):
            _add_mixed_commits_event(groups, request, key, builder)
            return


def report_mixed_transactional_commit(
    groups: ShardGroups, request: CommitRequest, records: Iterable[Fact], builder: OutcomeBuilder
) -> None:
    """Report a transactional commit of a partition with an offset from outside of transactions. `records`
    are not written yet.
    """
    kinds, offsets = groups.commit_kinds, groups.durable.offsets
    if kinds.is_mixed(request.group_id):
        return
    for record in records:
        key: OffsetCommitKey = record.key
        place = key.group, key.topic, key.partition
        value = offsets.find_offset(*place)
        if value is not None and kinds.is_plain_commit(place, value, builder.now.wall_ms):
            _add_mixed_commits_event(groups, request, key, builder)
            return


def _add_mixed_commits_event(
    groups: ShardGroups, request: CommitRequest, key: OffsetCommitKey, builder: OutcomeBuilder
) -> None:
    is_transactional = type(request) is not OffsetCommitRequest
    groups.commit_kinds.mark_mixed(key.group)
    builder.add_event(MixedCommits(key.group, request.member_id, key.topic, key.partition, is_transactional))


def end_transaction(
    groups: ShardGroups, request: EndTransaction, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer an EndTransaction with NONE once its marker is durable. A pending offset is committed unless the
    record of the current offset is later in the log.
    """
    offsets, producer_id = groups.durable.offsets, request.producer_id
    counts: dict[str, int] = {}
    for group_id, _, _ in offsets.pending.by_producer.get(producer_id, ()):
        counts[group_id] = counts.get(group_id, 0) + 1
    ended = groups.durable.end_transaction(producer_id, is_committed=request.is_committed)
    groups.commit_kinds.record_transactional_commit(place for place, _ in ended.committed)
    skipped: dict[str, Offsets] = {}
    for place, value in ended.superseded:
        skipped.setdefault(place[0], []).append((place, value))
    for group_id, count in counts.items():
        superseded = skipped.get(group_id, [])
        committed_count = count - len(superseded)
        builder.add_event(TransactionEnded(group_id, producer_id, request.is_committed, committed_count))
        if superseded:
            builder.add_event(
                OffsetsSkipped(
                    group_id, producer_id, len(superseded), _list_first_skipped(groups, superseded)
                )
            )
    builder.marker = TransactionMarker(
        producer_id, request.producer_epoch, request.coordinator_epoch, request.is_committed
    )
    builder.reply(context.waiter, ErrorCode.NONE)


def _list_first_skipped(groups: ShardGroups, skipped: Offsets) -> tuple[SkippedOffset, ...]:
    """Return the first skipped offsets, with the offsets that remain committed."""
    offsets = groups.durable.offsets
    return tuple(
        SkippedOffset(topic, partition, value.offset, current.offset)
        for (group_id, topic, partition), value in islice(skipped, MAX_REPORTED_SKIPPED_OFFSETS)
        for current in [offsets.find_offset(group_id, topic, partition)]
        if current is not None
    )
