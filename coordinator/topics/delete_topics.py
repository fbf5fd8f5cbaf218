"""DeleteTopics, by name and by id. Source: KIP-4, KIP-516, Kafka's `ControllerApis.deleteTopics`.

One difference: `__consumer_offsets` cannot be deleted, because the groups of this process live in it.
"""

from collections import Counter
from collections.abc import Sequence

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


def answer_delete_topics(plane: DataPlane, request: DeleteTopicsRequest, context: Context, now: Now) -> Steps:
    """Each topic is deleted or refused on its own, in the order of the request, one answer for a
    duplicate.
    """
    catalogue = plane.catalogue
    asked: list[tuple[str | None, bytes]] = [(name, ZERO_ID) for name in request.topic_names]
    asked += [(state.name, state.topic_id) for state in request.topics]
    late = out_of_time(request.timeout_ms)
    if late is not None:
        return (yield from _all_refused(asked, late))
    counts: Counter[tuple[str | None, bytes]] = Counter()
    for named in asked:
        counts[named] += 1
        yield None
    clashing = _given_both_ways(catalogue, counts)
    responses: list[DeletableTopicResult] = []
    found: dict[int, tuple[str | None, bytes, Topic]] = {}
    for (name, topic_id), count in counts.items():
        yield None
        if name is None and topic_id in clashing:
            continue
        outcome: Topic | Refusal
        try:
            _check_enabled(plane.config, context.api_version)
            outcome = _find(catalogue, name, topic_id, count)
            if outcome.topic_id in clashing and name is not None:
                topic_id = outcome.topic_id
                raise Refusal(ErrorCode.INVALID_REQUEST, "The topic is given by its id as well.")
            found[len(responses)] = name, topic_id, outcome
        except Refusal as error:
            outcome = error.with_traceback(None)  # it would keep this frame
        responses.append(_result(name, topic_id, outcome))
    yield Mark.CHANGES
    deleted, changes, failure = yield from _delete(catalogue, [topic for _, _, topic in found.values()])
    for number, (name, topic_id, topic) in found.items():
        if topic not in deleted:
            responses[number] = _result(name, topic_id, failure)
    gone = plane.parked.interrupted_by([part.name for topic in deleted for part in topic.partitions])
    return Answer(
        DeleteTopicsResponse(responses=responses),
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


def _all_refused(asked: Sequence[tuple[str | None, bytes]], why: Refusal) -> Steps:
    responses: list[DeletableTopicResult] = []
    for named in asked:
        responses.append(_result(*named, why))
        yield None
    return Answer(DeleteTopicsResponse(responses=responses))


def _check_enabled(config: TopicsConfig, version: int) -> None:
    """Raises Refusal where no topic is ever deleted."""
    if not config.delete_topic_enable:
        code = ErrorCode.INVALID_REQUEST if version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        raise Refusal(code, "Topic deletion is disabled.")


def _given_both_ways(catalogue: Catalogue, counts: Counter[tuple[str | None, bytes]]) -> set[bytes]:
    """The ids of the topics that are given once by name and once by id: they get one answer."""
    named = {
        topic.topic_id
        for (name, topic_id), count in counts.items()
        if name and topic_id == ZERO_ID and count == 1 and (topic := catalogue.get(name))
    }
    return {topic_id for topic_id in named if counts[(None, topic_id)] == 1}


def _result(name: str | None, topic_id: bytes, outcome: Topic | Refusal) -> DeletableTopicResult:
    if isinstance(outcome, Topic):
        return DeletableTopicResult(name=outcome.name, topic_id=outcome.topic_id, error_code=ErrorCode.NONE)
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=outcome.code, error_message=outcome.message
    )


def _find(catalogue: Catalogue, name: str | None, topic_id: bytes, count: int) -> Topic:
    """The topic to delete. Raises Refusal."""
    if name is None and topic_id == ZERO_ID:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_ID:
        raise Refusal(ErrorCode.INVALID_REQUEST, "A topic is named or given by its id, not both.")
    if count > 1:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
    topic = catalogue.get_by_id(topic_id) if name is None else catalogue.get(name)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise Refusal(unknown, unknown.message)
    if not topic.hosted:
        raise Refusal(ErrorCode.POLICY_VIOLATION, f"{topic.name} holds the groups of this server")
    return topic
