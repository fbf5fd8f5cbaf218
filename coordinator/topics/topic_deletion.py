"""DeleteTopics and DeleteRecords."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from coordinator.core.outcome import Context
from coordinator.topics.api_error import ApiError, find_timeout_error
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import Answer, FilesLeft, TopicChange, TopicDeleted
from coordinator.topics.data_plane_config import DataPlaneConfig
from coordinator.topics.long_work import LongWork, run_directory_steps
from coordinator.topics.partition import HostedPartition
from coordinator.topics.topic import ZERO_ID, Topic
from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from storage.log import PartitionLog
from storage.storage_errors import StorageError, catch_storage_error, format_error_reason
from storage.topic_partition import TopicPartition

TopicKey = tuple[str | None, bytes]
"""The name, or None, and the id, or zeros, of a topic in a request."""
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED

HIGH_WATERMARK: Final = -1
NO_LOW_WATERMARK: Final = -1


async def answer_delete_topics(
    plane: DataPlane, request: DeleteTopicsRequest, context: Context, work: LongWork
) -> Answer:
    """Delete or reject each topic independently, in the order of the request. Duplicates share one result."""
    catalogue = plane.catalogue
    requested: list[TopicKey] = [(name, ZERO_ID) for name in request.topic_names]
    requested += [(state.name, state.topic_id) for state in request.topics]
    request_error = _find_request_error(plane.config, request.timeout_ms, context.api_version)
    if request_error is not None:
        return await _refuse_all(work, requested, request_error)
    counts: Counter[TopicKey] = Counter()
    for key in requested:
        counts[key] += 1
        await work.checkpoint()
    results: dict[TopicKey, DeletableTopicResult] = {}
    found: dict[TopicKey, Topic] = {}
    for key, count in counts.items():
        await work.checkpoint()
        outcome = _find_topic(catalogue, context, key, count)
        if isinstance(outcome, Topic):
            found[key] = outcome
        results[key] = _build_deleted(outcome) if isinstance(outcome, Topic) else outcome
    _refuse_named_twice(counts, results, found)
    work.begin_changes()
    deleted, changes, failure = await _delete_topics(work, catalogue, list(found.values()))
    for key, topic in found.items():
        if topic not in deleted:
            results[key] = _build_unknown(key) if failure is None else _build_storage_error(key, failure)
    interrupted = plane.fetch_purgatory.pop_interrupted(
        [part.name for topic in deleted for part in topic.partitions]
    )
    return Answer(
        DeleteTopicsResponse(responses=list(results.values())),
        changes=changes,
        completions=plane.complete_fetches(interrupted, work.now().monotonic_ms),
    )


async def _delete_topics(
    work: LongWork, catalogue: Catalogue, requested: Sequence[Topic]
) -> tuple[list[Topic], list[TopicChange], OSError | StorageError | None]:
    """Delete topics. Return the deleted ones, the changes, and the disk error for the others, or None if another
    request deleted them.
    """
    existing = [topic for topic in requested if catalogue.find_topic_by_id(topic.topic_id) is topic]
    if not existing:
        return [], [], None
    try:
        deleted, problem = await catalogue.delete_topics(work, existing)
    except (OSError, StorageError) as error:
        return [], [], error
    changes: list[TopicChange] = [TopicDeleted(topic.name, topic.topic_id) for topic in deleted]
    if problem is not None:
        changes.append(FilesLeft(format_error_reason(problem)))
    return deleted, changes, None


def _find_request_error(config: DataPlaneConfig, timeout_ms: int, version: int) -> ApiError | None:
    """Return the error of the whole request. Kafka checks this before authorization."""
    if not config.delete_topic_enable:
        code = ErrorCode.INVALID_REQUEST if version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        return ApiError(code)
    return find_timeout_error(timeout_ms)


async def _refuse_all(work: LongWork, requested: Sequence[TopicKey], error: ApiError) -> Answer:
    responses: list[DeletableTopicResult] = []
    for key in requested:
        responses.append(_build_refused(key, error.code, error.message))
        await work.checkpoint()
    return Answer(DeleteTopicsResponse(responses=responses))


def _find_topic(
    catalogue: Catalogue, context: Context, key: TopicKey, count: int
) -> Topic | DeletableTopicResult:
    """Return the topic to delete, or the error. A topic given by name requires the right to describe it before the
    response reveals its existence; one given by id requires only the right to delete.
    """
    name, topic_id = key
    invalid = ErrorCode.INVALID_REQUEST
    if name is None and topic_id == ZERO_ID:
        return _build_refused(key, invalid, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_ID:
        return _build_refused(key, invalid, "You may not specify both topic name and topic id.")
    if count > 1:
        return _build_refused(key, invalid, f"Duplicate topic {'id' if name is None else 'name'}.")
    topic = catalogue.find_topic_by_id(topic_id) if name is None else catalogue.find_topic(name)
    if topic is None and name is None:
        return _build_unknown(key)
    described = name if topic is None else topic.name
    assert described is not None
    may_describe = context.may_describe is None or context.may_describe(described)
    may_delete = context.may_delete is None or context.may_delete(described)
    if name is not None and not may_describe:
        return _build_refused(key, _DENIED, _DENIED.message)
    if topic is None:
        return _build_unknown(key)
    if not may_delete:
        return _build_refused((topic.name if may_describe else None, topic_id), _DENIED, _DENIED.message)
    if not topic.hosted:
        return _build_refused(
            key, ErrorCode.POLICY_VIOLATION, f"{topic.name} is an internal topic and cannot be deleted"
        )
    return topic


def _refuse_named_twice(
    counts: Mapping[TopicKey, int],
    results: dict[TopicKey, DeletableTopicResult],
    found: dict[TopicKey, Topic],
) -> None:
    """Reject topics that the request gives both by name and by id. Both entries share one result."""
    by_id = {topic.topic_id: key for key, topic in found.items() if key[0] is None}
    for key, topic in list(found.items()):
        topic_id = topic.topic_id
        if key[0] is None or not counts.get((None, topic_id)):
            continue
        results[key] = _build_refused(
            (topic.name, topic_id),
            ErrorCode.INVALID_REQUEST,
            "The provided topic name maps to an ID that was already supplied.",
        )
        del found[key]
        if topic_id in by_id:
            del found[by_id[topic_id]], results[by_id[topic_id]]


def _build_deleted(topic: Topic) -> DeletableTopicResult:
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.NONE)


def _build_refused(key: TopicKey, code: ErrorCode, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(name=key[0], topic_id=key[1], error_code=code, error_message=message)


def _build_unknown(key: TopicKey) -> DeletableTopicResult:
    code = ErrorCode.UNKNOWN_TOPIC_ID if key[0] is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _build_refused(key, code, code.message)


def _build_storage_error(key: TopicKey, error: OSError | StorageError) -> DeletableTopicResult:
    return _build_refused(key, ErrorCode.KAFKA_STORAGE_ERROR, format_error_reason(error))


class _RecordDeletion(NamedTuple):
    """A partition, its requested log start offset, and its result in the response."""

    partition: HostedPartition
    start: int
    result: DeleteRecordsPartitionResult

    def refuse(self, error: ErrorCode) -> None:
        """Set the error of the result."""
        self.result.error_code, self.result.low_watermark = error, NO_LOW_WATERMARK


async def answer_delete_records(
    plane: DataPlane, request: DeleteRecordsRequest, context: Context, work: LongWork
) -> Answer:
    """Delete the records of each partition independently. The new log start offsets are stored before any log
    changes.

    As in Kafka the response omits topics without partitions, and the last of duplicate partitions counts.
    """
    deletions: dict[TopicPartition, _RecordDeletion] = {}
    topics = []
    work.begin_changes()
    for topic in request.topics:
        topic_result = DeleteRecordsTopicResult(name=topic.name, partitions=[])
        for wanted in {each.partition_index: each for each in topic.partitions}.values():
            result = DeleteRecordsPartitionResult(
                partition_index=wanted.partition_index,
                low_watermark=NO_LOW_WATERMARK,
                error_code=ErrorCode.NONE,
            )
            try:
                partition = _find_partition(plane, context, topic.name, wanted.partition_index)
                result.low_watermark = start = _find_new_start(partition, wanted.offset)
                deletions[partition.name] = _RecordDeletion(partition, start, result)
            except ApiError as error:
                result.error_code = error.code
            topic_result.partitions.append(result)
            await work.checkpoint()
        if topic_result.partitions:
            topics.append(topic_result)
    await _delete_records(plane, context, work, deletions)
    return Answer(DeleteRecordsResponse(topics=topics))


async def _delete_records(
    plane: DataPlane, context: Context, work: LongWork, deletions: dict[TopicPartition, _RecordDeletion]
) -> None:
    """Store the new log start offsets, then delete the records before them."""
    for name, deletion in list(deletions.items()):
        if plane.catalogue.find_partition(*name) is not deletion.partition:  # deleted at a checkpoint
            deletion.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            del deletions[name]
    if not deletions:
        return
    starts = {name: deletion.start for name, deletion in deletions.items()}
    if await run_directory_steps(work, plane.directory.record_log_starts(starts)) is not None:
        for deletion in deletions.values():
            deletion.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
        return
    moved: dict[TopicPartition, PartitionLog] = {}
    for name, deletion in deletions.items():
        log = deletion.partition.log
        if log is None or not plane.is_leader(name, context):
            deletion.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif not log.is_deleted:
            # The records are deleted even if a segment's file remains; retention removes it later.
            error = catch_storage_error(partial(log.delete_records_before, deletion.start))
            if isinstance(error, StorageError):
                deletion.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                moved[name] = log
    plane.directory.on_log_starts_raised(moved)
    for name, log in moved.items():
        try:
            await work.call_in_thread(partial(deletions[name].partition.store_log_start, log))
        except OSError:
            deletions[name].refuse(ErrorCode.KAFKA_STORAGE_ERROR)


def _find_partition(plane: DataPlane, context: Context, name: str, number: int) -> HostedPartition:
    topic = plane.catalogue.find_topic(name)
    if topic is None or not 0 <= number < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.is_internal:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not topic.values.log.deletes:
        raise ApiError(ErrorCode.POLICY_VIOLATION)
    partition = topic.hosted[number]
    if not plane.is_leader(partition.name, context):
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return partition


def _find_new_start(partition: HostedPartition, offset: int) -> int:
    """Return the new log start offset.

    Raises:
        ApiError: the offset is invalid.
    """
    log = partition.log
    if log is None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    wanted = partition.high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= wanted <= partition.high_watermark:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return max(wanted, log.log_start_offset)
