"""CreateTopics and CreatePartitions."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence

from coordinator.cluster.partition_ownership import ClusterTopicExists, PartitionOwnership
from coordinator.config.config_def import InvalidConfig
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.core.outcome import Context
from coordinator.core.shared_types import COORDINATOR_TOPICS
from coordinator.topics.api_error import ApiError, find_timeout_error
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import (
    Answer,
    PartitionsAdded,
    PartitionsRefused,
    ReplicationFactorReduced,
    ReplicationFactorRefused,
    TopicChange,
    TopicCreated,
)
from coordinator.topics.data_plane_config import MAX_CONFIGS, MAX_PARTITIONS
from coordinator.topics.long_work import LongWork
from coordinator.topics.open_files import TooManyPartitions
from coordinator.topics.topic import GrownTopics, NewTopicSpec, Topic
from coordinator.topics.topic_name import CLUSTER_METADATA, find_name_error
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from storage.storage_errors import format_error_reason
from storage.topic_partition import TopicPartition


class TooFewBrokers(ApiError):
    """A replication factor exceeds the possible number of replicas."""


async def answer_create_topics(
    plane: DataPlane, request: CreateTopicsRequest, context: Context, work: LongWork
) -> Answer:
    """Create or reject each topic independently. With `validate_only` nothing changes."""
    timeout_error = find_timeout_error(request.timeout_ms)
    if timeout_error is not None:
        return await _refuse_all(work, request, timeout_error)
    catalogue = plane.catalogue
    counts: Counter[str] = Counter()
    for topic in request.topics:
        counts[topic.name] += 1
        await work.checkpoint()
    if not request.validate_only:
        work.begin_changes()
    outcomes, reserved = await _reserve_topics(plane, work, request, counts)
    created = await catalogue.create_reserved(work, reserved)
    # From now on another request may delete these topics.
    work.publish_changes(
        [
            TopicCreated(name, topic.topic_id, outcome.partitions)
            for name, topic in created.items()
            if isinstance(topic, Topic) and isinstance(outcome := outcomes[name], NewTopicSpec)
        ]
    )
    results: list[CreatableTopicResult] = []
    configs: dict[object, list[CreatableTopicConfigs]] = {}
    for name, outcome in outcomes.items():
        result = created.get(name)
        if isinstance(outcome, ApiError):
            results.append(_build_refused(name, outcome))
        elif isinstance(result, Exception):
            results.append(_build_refused(name, _convert_to_api_error(name, result)))
        else:
            topic_id = catalogue.new_id() if result is None else result.topic_id
            config_key = tuple(outcome.overrides.items())
            if config_key not in configs:
                configs[config_key] = _build_configs(catalogue, outcome.overrides)
            results.append(_build_created(outcome, topic_id, configs[config_key]))
        await work.checkpoint()
    duplicate = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    for name, count in counts.items():
        if count > 1:
            results.append(_build_refused(name, duplicate))
            await work.checkpoint()
    if counts[CLUSTER_METADATA] == 1:
        prohibited = ApiError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
        )
        results.append(_build_refused(CLUSTER_METADATA, prohibited))
    changes = build_too_many_changes(outcomes)
    changes += await _build_replication_changes(plane, work, request, outcomes, created)
    return Answer(CreateTopicsResponse(topics=results), changes=changes)


async def _build_replication_changes(
    plane: DataPlane,
    work: LongWork,
    request: CreateTopicsRequest,
    outcomes: Mapping[str, ApiError | NewTopicSpec],
    created: Mapping[str, object],
) -> list[TopicChange]:
    """Return log messages for replication factors above the number of brokers."""
    refused: list[str] = []
    for name, outcome in outcomes.items():
        if isinstance(outcome, TooFewBrokers):
            refused.append(name)
        await work.checkpoint()
    changes: list[TopicChange] = []
    if refused:
        changes.append(ReplicationFactorRefused(tuple(refused), str(outcomes[refused[0]])))
    for topic in request.topics:
        await work.checkpoint()
        result, requested = created.get(topic.name), _find_requested_factor(plane, topic)
        if isinstance(result, Topic) and not topic.assignments and requested > result.replication_factor:
            changes.append(ReplicationFactorReduced(topic.name, requested, result.replication_factor))
    return changes


async def _refuse_all(work: LongWork, request: CreateTopicsRequest, error: ApiError) -> Answer:
    results: list[CreatableTopicResult] = []
    for topic in request.topics:
        results.append(_build_refused(topic.name, error))
        await work.checkpoint()
    return Answer(CreateTopicsResponse(topics=results))


async def _reserve_topics(
    plane: DataPlane, work: LongWork, request: CreateTopicsRequest, counts: Counter[str]
) -> tuple[dict[str, ApiError | NewTopicSpec], dict[Topic, int]]:
    """Validate the topics that the request names once, and reserve them unless it only validates. No other request
    runs between the validation of a topic and its reservation.

    Return by name the specification of each topic or its refusal, and the reserved topics with their numbers of
    partitions."""
    allowed: dict[str, CreatableTopic] = {}
    for topic in request.topics:
        if counts[topic.name] == 1 and topic.name != CLUSTER_METADATA:
            allowed[topic.name] = topic
        await work.checkpoint()
    outcomes: dict[str, ApiError | NewTopicSpec] = {}
    reserved: dict[Topic, int] = {}
    remaining = MAX_PARTITIONS
    for name, topic in allowed.items():
        try:
            _check_name(plane.catalogue, name, allowed)
            new = _validate_topic(plane, topic, remaining)
            remaining -= new.partitions
            outcomes[name] = new
            if not request.validate_only:
                reserved[plane.catalogue.reserve_topic(new)] = new.partitions
                for assignment in topic.assignments:
                    partition = TopicPartition(name, assignment.partition_index)
                    plane.ownership.assign_replicas(partition, assignment.broker_ids)
        except ApiError as error:
            outcomes[name] = error.with_traceback(None)  # there may be thousands of errors
        await work.checkpoint()
    return outcomes, reserved


def build_too_many_changes(outcomes: Mapping[str, object]) -> list[TopicChange]:
    """Return the changes for topics that lack file descriptors for their partitions."""
    refusals = [outcome for outcome in outcomes.values() if isinstance(outcome, TooManyPartitions)]
    return [PartitionsRefused(len(refusals), str(refusals[0]))] if refusals else []


def _check_name(catalogue: Catalogue, name: str, siblings: Container[str]) -> None:
    """Check the name of a new topic. As in Kafka one request may create both a.b and a_b: names do not collide with
    `siblings`, the other topics of the request.

    Raises:
        ApiError: the name is invalid or taken.
    """
    illegal = find_name_error(name)
    if illegal is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    if catalogue.find_topic(name) is not None or name in COORDINATOR_TOPICS:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = catalogue.metric_names.find_collision(name, siblings)
    if other is not None:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
        )


def _validate_topic(plane: DataPlane, topic: CreatableTopic, remaining: int) -> NewTopicSpec:
    """Return the specification of a topic with an unused name.

    Raises:
        ApiError: the topic is invalid.
    """
    if len(topic.configs) > MAX_CONFIGS:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a topic of more than {MAX_CONFIGS} configs")
    nulls = [entry.name for entry in topic.configs if entry.value is None]
    if nulls:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}"
        )
    overrides = {entry.name: entry.value for entry in topic.configs if entry.value is not None}
    try:
        plane.catalogue.defaults.validate(overrides)
    except InvalidConfig as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    _check_partition_count(len(topic.assignments), MAX_PARTITIONS)
    partitions, factor = _find_counts(plane, topic)
    _check_partition_count(partitions, remaining)
    return NewTopicSpec(topic.name, partitions, overrides, replication_factor=factor)


def _check_partition_count(count: int, remaining: int) -> None:
    if count > remaining:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"one request creates at most {MAX_PARTITIONS} partitions")


def _find_counts(plane: DataPlane, topic: CreatableTopic) -> tuple[int, int]:
    """Return the number of partitions and the replication factor."""
    if topic.assignments:
        return _check_assignments(topic, plane.ownership)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    factor = _limit_factor(plane, _find_requested_factor(plane, topic), topic.name)
    return plane.config.num_partitions if topic.num_partitions == -1 else topic.num_partitions, factor


def _find_requested_factor(plane: DataPlane, topic: CreatableTopic) -> int:
    factor = topic.replication_factor
    return plane.config.default_replication_factor if factor == -1 else factor


def _limit_factor(plane: DataPlane, factor: int, topic: str) -> int:
    """Return the replication factor of a topic that requests `factor`.

    Raises:
        ApiError: there are too few brokers; the text is that of Kafka's `StripedReplicaPlacer`.
    """
    brokers, most = len(plane.ownership.brokers), plane.ownership.max_replicas(topic)
    text = f"Unable to replicate the partition {factor} time(s): "
    if factor < 1:
        text += f"Invalid replication factor {factor}: the replication factor must be positive."
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if factor > min(brokers, most) >= 1 and plane.config.accept_any_replication_factor:
        return min(brokers, most)
    target = f"The target replication factor of {factor} cannot be reached"
    if factor > brokers:
        text += (
            f"{target} because only {brokers} broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        )
        raise TooFewBrokers(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if factor > most:
        text += f"{target}: partitions have one replica here."
        raise TooFewBrokers(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return factor


def _check_assignments(topic: CreatableTopic, ownership: PartitionOwnership) -> tuple[int, int]:
    if topic.replication_factor != -1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != -1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    seen = set()
    for assignment in topic.assignments:
        if assignment.partition_index in seen:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        seen.add(assignment.partition_index)
        check_assignment(topic.name, assignment.broker_ids, ownership, len(topic.assignments[0].broker_ids))
    if seen != set(range(len(seen))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return len(seen), len(topic.assignments[0].broker_ids)


def check_assignment(
    topic: str, broker_ids: Sequence[int], ownership: PartitionOwnership, factor: int
) -> None:
    """Check that a partition may be assigned to these brokers: `factor` of the live ones.

    Raises:
        ApiError: with the text of Kafka's `ReplicationControlManager.validateManualPartitionAssignment`.
    """
    problem = None
    if not broker_ids:
        problem = "an empty replica list."
    seen: set[int] = set()
    for broker_id in sorted(broker_ids):
        if broker_id not in ownership.brokers:
            problem = f"broker {broker_id}, but no such broker is registered."
        elif broker_id in seen:
            problem = f"the broker {broker_id} more than once."
        if problem is not None:
            break
        seen.add(broker_id)
    count = len(broker_ids)
    if problem is None and count > ownership.max_replicas(topic):
        problem = f"a partition with {count} replica(s), but partitions have one replica here."
    if problem is None and count != factor:
        problem = (
            f"a partition with {count} replica(s), but this is not consistent with previous partitions, which have "
            f"{factor} replica(s)."
        )
    if problem is not None:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}"
        )


def _convert_to_api_error(name: str, problem: Exception) -> ApiError:
    """Convert the reason why a topic was not created to an error for the client."""
    if isinstance(problem, ApiError):
        return problem
    if isinstance(problem, ClusterTopicExists):
        return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))


def _build_refused(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message, configs=[])


def _build_created(
    new: NewTopicSpec, topic_id: bytes, configs: list[CreatableTopicConfigs]
) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=new.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        num_partitions=new.partitions,
        replication_factor=new.replication_factor,
        configs=configs,
    )


def _build_configs(catalogue: Catalogue, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    entries = [catalogue.defaults.find_effective(key, overrides) for key in TOPIC_CONFIG_KEYS.values()]
    return [
        CreatableTopicConfigs(
            name=entry.key.name,
            # The unparsed text: as in Kafka only later descriptions show the parsed form.
            value=overrides.get(entry.key.name, entry.value),
            read_only=False,
            config_source=entry.source,
            is_sensitive=False,
        )
        for entry in entries
    ]


async def answer_create_partitions(
    plane: DataPlane, request: CreatePartitionsRequest, context: Context, work: LongWork
) -> Answer:
    """Add partitions to each topic, or reject it, independently. With `validate_only` nothing changes."""
    timeout_error = find_timeout_error(request.timeout_ms)
    if timeout_error is not None:
        refused: list[CreatePartitionsTopicResult] = []
        for entry in request.topics:
            refused.append(_build_growth_result(entry.name, timeout_error))
            await work.checkpoint()
        return Answer(CreatePartitionsResponse(results=refused))
    counts: Counter[str] = Counter()
    for entry in request.topics:
        counts[entry.name] += 1
        await work.checkpoint()
    duplicate = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results: list[CreatePartitionsTopicResult] = []
    for name, count in counts.items():
        if count > 1:
            results.append(_build_growth_result(name, duplicate))
            await work.checkpoint()
    if not request.validate_only:
        work.begin_changes()
    outcomes, reserved = await _reserve_growths(plane, work, request, counts)
    outcomes |= await plane.catalogue.grow_reserved(work, reserved)
    # From now on another request may delete these topics.
    work.publish_changes(
        [
            PartitionsAdded(topic.name, topic.topic_id, count)
            for topic, count in reserved.items()
            if outcomes[topic.name] is None
        ]
    )
    changes = build_too_many_changes(outcomes)
    for name, outcome in outcomes.items():
        results.append(_build_growth_result(name, outcome))
        await work.checkpoint()
    return Answer(CreatePartitionsResponse(results=results), changes=changes)


async def _reserve_growths(
    plane: DataPlane, work: LongWork, request: CreatePartitionsRequest, counts: Counter[str]
) -> tuple[GrownTopics, dict[Topic, int]]:
    """Validate the topics that the request names once, and reserve their growth unless it only validates. No other
    request runs between the validation of a topic and its reservation.

    Return by name the refusals, None for others, and the topics that grow with their new numbers of partitions."""
    outcomes: GrownTopics = {}
    reserved: dict[Topic, int] = {}
    for entry in request.topics:
        if counts[entry.name] > 1:
            continue
        outcomes[entry.name] = None
        try:
            topic = _validate_growth(plane, entry)
            if not request.validate_only:
                plane.catalogue.reserve_growth(topic, entry.count)
                reserved[topic] = entry.count
                for number, assignment in enumerate(entry.assignments or (), len(topic.partitions)):
                    partition = TopicPartition(topic.name, number)
                    plane.ownership.assign_replicas(partition, assignment.broker_ids)
        except ApiError as error:
            outcomes[entry.name] = error.with_traceback(None)  # there may be thousands of errors
        await work.checkpoint()
    return outcomes, reserved


def _validate_growth(plane: DataPlane, entry: CreatePartitionsTopic) -> Topic:
    topic = plane.catalogue.find_topic(entry.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not topic.hosted:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{topic.name}: adding partitions would move groups or transactions to other coordinators",
        )
    current = len(topic.partitions)
    if entry.count == current:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if entry.count < current:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); "
            f"{entry.count} would not be an increase.",
        )
    added = entry.count - current
    if added > MAX_PARTITIONS:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"one request adds at most {MAX_PARTITIONS} partitions")
    if entry.assignments is not None:
        if len(entry.assignments) != added:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), "
                f"but only {len(entry.assignments)} assignment(s) were specified.",
            )
        factor = len(plane.ownership.find_replicas(topic.partitions[0].name)) or 1
        for assignment in entry.assignments:
            check_assignment(topic.name, assignment.broker_ids, plane.ownership, factor)
    return topic


def _build_growth_result(name: str, error: Exception | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)
    if not isinstance(error, ApiError):
        error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, format_error_reason(error))
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)
