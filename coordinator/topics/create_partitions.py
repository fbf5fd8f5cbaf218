"""CreatePartitions: a topic grows. Source: KIP-195, Kafka's `ReplicationControlManager.createPartitions`.

One difference: `__consumer_offsets` cannot grow, because a group's partition depends on how many there are.
"""

from collections import Counter
from collections.abc import Mapping

from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer, PartitionsAdded, TopicChange
from coordinator.topics.config import MAX_PARTITIONS
from coordinator.topics.create_topics import check_assignment, too_many
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.deadline import out_of_time
from coordinator.topics.refusal import Refusal
from coordinator.topics.steps import Mark
from coordinator.topics.topic import Grown, Topic
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from storage.os_error import reason_of
from storage.topic_partition import TopicPartition


def answer_create_partitions(
    plane: DataPlane, request: CreatePartitionsRequest, context: Context, now: Now
) -> Steps:
    """Each topic grows or is refused on its own; with `validate_only` nothing changes."""
    late = out_of_time(request.timeout_ms)
    if late is not None:
        refused: list[CreatePartitionsTopicResult] = []
        for entry in request.topics:
            refused.append(_result(entry.name, late))
            yield None
        return Answer(CreatePartitionsResponse(results=refused))
    catalogue = plane.catalogue
    counts: Counter[str] = Counter()
    for entry in request.topics:
        counts[entry.name] += 1
        yield None
    duplicate = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results: list[CreatePartitionsTopicResult] = []
    for name, count in counts.items():
        if count > 1:
            results.append(_result(name, duplicate))
            yield None
    wanted: dict[Topic, int] = {}
    outcomes: Grown = {}
    for entry in request.topics:
        if counts[entry.name] > 1:
            continue
        outcomes[entry.name] = None
        try:
            wanted[_validate(plane, entry)] = entry.count
        except Refusal as error:
            outcomes[entry.name] = error.with_traceback(None)  # thousands of them are kept for a while
        yield None
    changes: list[TopicChange] = []
    if wanted and not request.validate_only:
        _assign(plane, request, {topic.name: topic for topic in wanted})
        yield Mark.CHANGES
        grown = yield from catalogue.growing(wanted)
        _unassign(plane, wanted, grown)
        outcomes |= grown
        changes += [
            PartitionsAdded(topic.name, topic.topic_id, count)
            for topic, count in wanted.items()
            if grown[topic.name] is None
        ]
        changes += too_many(grown)
    for name, outcome in outcomes.items():
        results.append(_result(name, outcome))
        yield None
    return Answer(CreatePartitionsResponse(results=results), changes=changes)


def _assign(plane: DataPlane, request: CreatePartitionsRequest, growing: Mapping[str, Topic]) -> None:
    for entry in request.topics:
        topic = growing.get(entry.name)
        for number, assignment in enumerate(() if topic is None else entry.assignments or ()):
            assert topic is not None
            partition = TopicPartition(topic.name, len(topic.partitions) + number)
            plane.ownership.assign(partition, assignment.broker_ids)


def _unassign(plane: DataPlane, wanted: Mapping[Topic, int], grown: Grown) -> None:
    """Takes back the assignments of partitions that were not added."""
    for topic, count in wanted.items():
        if grown[topic.name] is not None:
            for number in range(len(topic.partitions), count):
                plane.ownership.unassign(TopicPartition(topic.name, number))


def _result(name: str, error: Exception | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)
    if not isinstance(error, Refusal):
        error = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, reason_of(error))
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)


def _validate(plane: DataPlane, entry: CreatePartitionsTopic) -> Topic:
    topic = plane.catalogue.get(entry.name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not topic.hosted:
        raise Refusal(ErrorCode.POLICY_VIOLATION, f"{topic.name} cannot grow: its groups would change places")
    current = len(topic.partitions)
    if entry.count == current:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if entry.count < current:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); "
            f"{entry.count} would not be an increase.",
        )
    added = entry.count - current
    if added > MAX_PARTITIONS:
        raise Refusal(ErrorCode.POLICY_VIOLATION, f"one request adds at most {MAX_PARTITIONS} partitions")
    if entry.assignments is not None:
        if len(entry.assignments) != added:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), "
                f"but only {len(entry.assignments)} assignment(s) were specified.",
            )
        factor = len(plane.ownership.replicas(topic.partitions[0].name)) or 1
        for assignment in entry.assignments:
            check_assignment(topic.name, assignment.broker_ids, plane.ownership, factor)
    return topic
