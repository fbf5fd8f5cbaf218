"""DeleteTopics, by name and by id. Source: KIP-4, KIP-516, Kafka's `ControllerApis.deleteTopics`.

One difference: `__consumer_offsets` cannot be deleted, because the groups of this process live in it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer, FilesLeft, TopicChange, TopicDeleted
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.config import TopicsConfig
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.deadline import out_of_time
from coordinator.topics.refusal import Refusal
from coordinator.topics.steps import Mark, Work
from coordinator.topics.topic import ZERO_ID, Topic
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from storage.errors import StorageError
from storage.os_error import reason_of

Key = tuple[str | None, bytes]
"""How a request gives a topic: its name, or None, and its id, or zeros."""
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def answer_delete_topics(plane: DataPlane, request: DeleteTopicsRequest, context: Context, now: Now) -> Steps:
    """Delete or refuse each topic on its own, in the order of the request; a duplicate gets one result."""
    catalogue = plane.catalogue
    asked: list[Key] = [(name, ZERO_ID) for name in request.topic_names]
    asked += [(state.name, state.topic_id) for state in request.topics]
    refusal = _why_none_is_deleted(plane.config, request.timeout_ms, context.api_version)
    if refusal is not None:
        return (yield from _all_refused(asked, refusal))
    counts: Counter[Key] = Counter()
    for key in asked:
        counts[key] += 1
        yield None
    results: dict[Key, DeletableTopicResult] = {}
    found: dict[Key, Topic] = {}
    for key, count in counts.items():
        yield None
        outcome = _find(catalogue, context, key, count)
        if isinstance(outcome, Topic):
            found[key] = outcome
        results[key] = _deleted(outcome) if isinstance(outcome, Topic) else outcome
    _refuse_given_both_ways(counts, results, found)
    yield Mark.CHANGES
    deleted, changes, failure = yield from _delete(catalogue, list(found.values()))
    for key, topic in found.items():
        if topic not in deleted:
            results[key] = _refused(key, failure.code, failure.message)
    gone = plane.parked.interrupted_by([part.name for topic in deleted for part in topic.partitions])
    return Answer(
        DeleteTopicsResponse(responses=list(results.values())),
        changes=changes,
        completions=plane.complete(gone, now.monotonic_ms),
    )


def _delete(
    catalogue: Catalogue, doomed: Sequence[Topic]
) -> Work[tuple[list[Topic], list[TopicChange], Refusal]]:
    """The topics that are deleted, what changed, and why the others are not deleted."""
    # Another request may have deleted some since they were found.
    there = [topic for topic in doomed if catalogue.get_by_id(topic.topic_id) is topic]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    why_not = Refusal(unknown, unknown.message)
    if not there:
        return [], [], why_not
    try:
        deleted, problem = yield from catalogue.deleting(there)
    except (OSError, StorageError) as error:
        return [], [], Refusal(ErrorCode.KAFKA_STORAGE_ERROR, reason_of(error))
    changes: list[TopicChange] = [TopicDeleted(topic.name, topic.topic_id) for topic in deleted]
    if problem is not None:
        changes.append(FilesLeft(reason_of(problem)))
    return deleted, changes, why_not


def _why_none_is_deleted(config: TopicsConfig, timeout_ms: int, version: int) -> Refusal | None:
    """The error of the whole request. Kafka checks this before any right."""
    if not config.delete_topic_enable:
        code = ErrorCode.INVALID_REQUEST if version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        return Refusal(code)
    return out_of_time(timeout_ms)


def _all_refused(asked: Sequence[Key], why: Refusal) -> Steps:
    responses: list[DeletableTopicResult] = []
    for key in asked:
        responses.append(_refused(key, why.code, why.message))
        yield None
    return Answer(DeleteTopicsResponse(responses=responses))


def _find(catalogue: Catalogue, context: Context, key: Key, count: int) -> Topic | DeletableTopicResult:
    """Return the topic to delete, or the refusal. A topic that is named has to be describable before anything is
    said of it; one that is given by its id has to be deletable only."""
    name, topic_id = key
    invalid = ErrorCode.INVALID_REQUEST
    if name is None and topic_id == ZERO_ID:
        return _refused(key, invalid, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_ID:
        return _refused(key, invalid, "You may not specify both topic name and topic id.")
    if count > 1:
        return _refused(key, invalid, f"Duplicate topic {'id' if name is None else 'name'}.")
    topic = catalogue.get_by_id(topic_id) if name is None else catalogue.get(name)
    if topic is None and name is None:
        return _refused(key, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID.message)
    described = name if topic is None else topic.name
    assert described is not None
    may_describe = context.may_describe is None or context.may_describe(described)
    may_delete = context.may_delete is None or context.may_delete(described)
    if name is not None and not may_describe:
        return _refused(key, _DENIED, _DENIED.message)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _refused(key, unknown, unknown.message)
    if not may_delete:
        return _refused((topic.name if may_describe else None, topic_id), _DENIED, _DENIED.message)
    if not topic.hosted:
        return _refused(key, ErrorCode.POLICY_VIOLATION, f"{topic.name} holds the groups of this server")
    return topic


def _refuse_given_both_ways(
    counts: Mapping[Key, int], results: dict[Key, DeletableTopicResult], found: dict[Key, Topic]
) -> None:
    """Refuse the topics that are named and given by their ids as well; both together get one result."""
    by_id = {topic.topic_id: key for key, topic in found.items() if key[0] is None}
    for key, topic in list(found.items()):
        topic_id = topic.topic_id
        if key[0] is None or not counts.get((None, topic_id)):
            continue
        results[key] = _refused(
            (topic.name, topic_id),
            ErrorCode.INVALID_REQUEST,
            "The provided topic name maps to an ID that was already supplied.",
        )
        del found[key]
        if topic_id in by_id:
            del found[by_id[topic_id]], results[by_id[topic_id]]


def _deleted(topic: Topic) -> DeletableTopicResult:
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.NONE)


def _refused(key: Key, code: ErrorCode, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(name=key[0], topic_id=key[1], error_code=code, error_message=message)
