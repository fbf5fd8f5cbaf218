"""CreateTopics and CreatePartitions."""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence

from coordinator.cluster.partition_ownership import ClusterTopicExists, PartitionOwnership
from coordinator.config.config_def import InvalidConfig
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.core.outcome import Context, Now
from coordinator.core.shared_types import COORDINATOR_TOPICS
from coordinator.topics.api_error import ApiError, find_timeout_error
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import AnswerSteps, DataPlane
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
from coordinator.topics.open_files import TooManyPartitions
from coordinator.topics.stepwise_work import StepMark
from coordinator.topics.topic import CreatedTopics, GrownTopics, NewTopicSpec, Topic
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
    """A replication factor is above the number of replicas that a topic can have."""


def answer_create_topics(
    plane: DataPlane, request: CreateTopicsRequest, context: Context, now: Now
) -> AnswerSteps:
    """Each topic is created or refused on its own; with `validate_only` nothing changes."""
    timeout_error = find_timeout_error(request.timeout_ms)
    if timeout_error is not None:
        return (yield from _refuse_all(request, timeout_error))
    catalogue = plane.catalogue
    counts: Counter[str] = Counter()
    for topic in request.topics:
        counts[topic.name] += 1
        yield None
    outcomes = yield from _validate_topics(plane, request, counts)
    wanted = [outcome for outcome in outcomes.values() if isinstance(outcome, NewTopicSpec)]
    created: CreatedTopics = {}
    if wanted and not request.validate_only:
        _assign_topics(plane, request, outcomes)
        yield StepMark.CHANGES
        created = yield from catalogue.create_topics(wanted)
        _unassign_topics(plane, [new for new in wanted if isinstance(created[new.name], Exception)])
    results: list[CreatableTopicResult] = []
    changes: list[TopicChange] = []
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
            if result is not None:
                changes.append(TopicCreated(name, topic_id, outcome.partitions))
        yield None
    duplicate = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    for name, count in counts.items():
        if count > 1:
            results.append(_build_refused(name, duplicate))
            yield None
    if counts[CLUSTER_METADATA] == 1:
        prohibited = ApiError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
        )
        results.append(_build_refused(CLUSTER_METADATA, prohibited))
    changes += build_too_many_changes(created)
    changes += _build_replication_changes(plane, request, outcomes, created)
    return Answer(CreateTopicsResponse(topics=results), changes=changes)


def _build_replication_changes(
    plane: DataPlane,
    request: CreateTopicsRequest,
    outcomes: Mapping[str, ApiError | NewTopicSpec],
    created: Mapping[str, object],
) -> list[TopicChange]:
    """What the log says about replication factors that are above the number of brokers."""
    refused = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, TooFewBrokers)}
    changes: list[TopicChange] = []
    if refused:
        changes.append(ReplicationFactorRefused(tuple(refused), str(next(iter(refused.values())))))
    for topic in request.topics:
        result, requested = created.get(topic.name), _find_requested_factor(plane, topic)
        if isinstance(result, Topic) and not topic.assignments and requested > result.replication_factor:
            changes.append(ReplicationFactorReduced(topic.name, requested, result.replication_factor))
    return changes


def _assign_topics(
    plane: DataPlane, request: CreateTopicsRequest, outcomes: Mapping[str, ApiError | NewTopicSpec]
) -> None:
    for topic in request.topics:
        if topic.assignments and isinstance(outcomes.get(topic.name), NewTopicSpec):
            for assignment in topic.assignments:
                partition = TopicPartition(topic.name, assignment.partition_index)
                plane.ownership.assign_replicas(partition, assignment.broker_ids)


def _unassign_topics(plane: DataPlane, refused: Sequence[NewTopicSpec]) -> None:
    """Takes back the assignments of topics that were not created, unless another request has created them."""
    for new in refused:
        if plane.catalogue.find_topic(new.name) is None and not plane.catalogue.is_changing(new.name):
            for number in range(new.partitions):
                plane.ownership.unassign_replicas(TopicPartition(new.name, number))


def _refuse_all(request: CreateTopicsRequest, error: ApiError) -> AnswerSteps:
    results: list[CreatableTopicResult] = []
    for topic in request.topics:
        results.append(_build_refused(topic.name, error))
        yield None
    return Answer(CreateTopicsResponse(topics=results))


def _validate_topics(
    plane: DataPlane, request: CreateTopicsRequest, counts: Counter[str]
) -> Generator[None, None, dict[str, ApiError | NewTopicSpec]]:
    """By name what each topic is to be, or why it is not to be; those that are named once."""
    catalogue = plane.catalogue
    allowed = [
        topic for topic in request.topics if counts[topic.name] == 1 and topic.name != CLUSTER_METADATA
    ]
    # Names are compared with what exists before the request: Kafka lets one request create both a.b and a_b.
    refusals: dict[str, ApiError | None] = {}
    for topic in allowed:
        refusals[topic.name] = _find_creation_error(catalogue, topic.name)
        yield
    outcomes: dict[str, ApiError | NewTopicSpec] = {}
    remaining = MAX_PARTITIONS
    for topic in allowed:
        outcome: ApiError | NewTopicSpec
        try:
            outcome = refusals[topic.name] or _validate_topic(plane, topic, remaining)
        except ApiError as error:
            outcome = error.with_traceback(None)  # thousands of them are kept for a while
        if isinstance(outcome, NewTopicSpec):
            remaining -= outcome.partitions
        outcomes[topic.name] = outcome
        yield
    return outcomes


def build_too_many_changes(outcomes: Mapping[str, object]) -> list[TopicChange]:
    """What is told of topics, by name, for whose partitions there are no descriptors."""
    refusals = [outcome for outcome in outcomes.values() if isinstance(outcome, TooManyPartitions)]
    return [PartitionsRefused(len(refusals), str(refusals[0]))] if refusals else []


def _find_creation_error(catalogue: Catalogue, name: str) -> ApiError | None:
    illegal = find_name_error(name)
    if illegal is not None:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    if catalogue.find_topic(name) is not None or name in COORDINATOR_TOPICS:
        return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = catalogue.metric_names.find_collision(name)
    if other is not None:
        return ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
        )
    return None


def _validate_topic(plane: DataPlane, topic: CreatableTopic, remaining: int) -> NewTopicSpec:
    """What a topic whose name is free is to be. Raises ApiError."""
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
    partitions, factor = _find_counts(plane, topic)
    if partitions > remaining:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"one request creates at most {MAX_PARTITIONS} partitions")
    return NewTopicSpec(topic.name, partitions, overrides, replication_factor=factor)


def _find_counts(plane: DataPlane, topic: CreatableTopic) -> tuple[int, int]:
    """How many partitions, and replicas of each."""
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
    """Return how many replicas a topic gets that is to have `factor`.

    Raises ApiError, with the text of Kafka's `StripedReplicaPlacer` where there are too few brokers.
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
    """Check that a partition may be assigned to these brokers: `factor` of the live ones. Raises ApiError, with the
    texts of Kafka's `ReplicationControlManager.validateManualPartitionAssignment`."""
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
        problem = f"a partition with {count} replica(s), but partitions have one here."
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
    """Why a topic was not made."""
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
            # As it came: only what is described later has the form of a parsed value, as in Kafka.
            value=overrides.get(entry.key.name, entry.value),
            read_only=False,
            config_source=entry.source,
            is_sensitive=False,
        )
        for entry in entries
    ]


def answer_create_partitions(
    plane: DataPlane, request: CreatePartitionsRequest, context: Context, now: Now
) -> AnswerSteps:
    """Each topic grows or is refused on its own; with `validate_only` nothing changes."""
    timeout_error = find_timeout_error(request.timeout_ms)
    if timeout_error is not None:
        refused: list[CreatePartitionsTopicResult] = []
        for entry in request.topics:
            refused.append(_build_growth_result(entry.name, timeout_error))
            yield None
        return Answer(CreatePartitionsResponse(results=refused))
    catalogue = plane.catalogue
    counts: Counter[str] = Counter()
    for entry in request.topics:
        counts[entry.name] += 1
        yield None
    duplicate = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results: list[CreatePartitionsTopicResult] = []
    for name, count in counts.items():
        if count > 1:
            results.append(_build_growth_result(name, duplicate))
            yield None
    wanted: dict[Topic, int] = {}
    outcomes: GrownTopics = {}
    for entry in request.topics:
        if counts[entry.name] > 1:
            continue
        outcomes[entry.name] = None
        try:
            wanted[_validate_growth(plane, entry)] = entry.count
        except ApiError as error:
            outcomes[entry.name] = error.with_traceback(None)  # thousands of them are kept for a while
        yield None
    changes: list[TopicChange] = []
    if wanted and not request.validate_only:
        _assign_new_partitions(plane, request, {topic.name: topic for topic in wanted})
        yield StepMark.CHANGES
        grown = yield from catalogue.grow_topics(wanted)
        _unassign_new_partitions(plane, wanted, grown)
        outcomes |= grown
        changes += [
            PartitionsAdded(topic.name, topic.topic_id, count)
            for topic, count in wanted.items()
            if grown[topic.name] is None
        ]
        changes += build_too_many_changes(grown)
    for name, outcome in outcomes.items():
        results.append(_build_growth_result(name, outcome))
        yield None
    return Answer(CreatePartitionsResponse(results=results), changes=changes)


def _validate_growth(plane: DataPlane, entry: CreatePartitionsTopic) -> Topic:
    topic = plane.catalogue.find_topic(entry.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not topic.hosted:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, f"{topic.name} cannot grow: its groups would change places"
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


def _assign_new_partitions(
    plane: DataPlane, request: CreatePartitionsRequest, growing: Mapping[str, Topic]
) -> None:
    for entry in request.topics:
        topic = growing.get(entry.name)
        for number, assignment in enumerate(() if topic is None else entry.assignments or ()):
            assert topic is not None
            partition = TopicPartition(topic.name, len(topic.partitions) + number)
            plane.ownership.assign_replicas(partition, assignment.broker_ids)


def _unassign_new_partitions(plane: DataPlane, wanted: Mapping[Topic, int], grown: GrownTopics) -> None:
    """Takes back the assignments of partitions that were not added."""
    for topic, count in wanted.items():
        if grown[topic.name] is not None:
            for number in range(len(topic.partitions), count):
                plane.ownership.unassign_replicas(TopicPartition(topic.name, number))


def _build_growth_result(name: str, error: Exception | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)
    if not isinstance(error, ApiError):
        error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, format_error_reason(error))
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)
