"""CreateTopics. Source: KIP-4, KIP-464, KIP-525, Kafka's `ControllerApis` and `ReplicationControlManager`."""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence

from coordinator.cluster.conflict import Exists
from coordinator.cluster.ownership import Ownership
from coordinator.config.config_key import InvalidConfig
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.machine.outcome import Context, Now
from coordinator.names import COORDINATED
from coordinator.topics.answer import (
    Answer,
    PartitionsRefused,
    ReplicationFactorReduced,
    ReplicationFactorRefused,
    TopicChange,
    TopicCreated,
)
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.config import MAX_PARTITIONS, MOST_CONFIGS
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.deadline import out_of_time
from coordinator.topics.open_files import TooManyPartitions
from coordinator.topics.refusal import Refusal
from coordinator.topics.steps import Mark
from coordinator.topics.topic import Created, NewTopic, Topic
from coordinator.topics.topic_name import CLUSTER_METADATA, why_illegal
from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from storage.topic_partition import TopicPartition


def answer_create_topics(plane: DataPlane, request: CreateTopicsRequest, context: Context, now: Now) -> Steps:
    """Each topic is created or refused on its own; with `validate_only` nothing changes."""
    late = out_of_time(request.timeout_ms)
    if late is not None:
        return (yield from _all_refused(request, late))
    catalogue = plane.catalogue
    counts: Counter[str] = Counter()
    for topic in request.topics:
        counts[topic.name] += 1
        yield None
    outcomes = yield from _validated(plane, request, counts)
    wanted = [outcome for outcome in outcomes.values() if isinstance(outcome, NewTopic)]
    created: Created = {}
    if wanted and not request.validate_only:
        _assign(plane, request, outcomes)
        yield Mark.CHANGES
        created = yield from catalogue.creating(wanted)
        _unassign(plane, [new for new in wanted if isinstance(created[new.name], Exception)])
    results: list[CreatableTopicResult] = []
    changes: list[TopicChange] = []
    configs: dict[object, list[CreatableTopicConfigs]] = {}
    for name, outcome in outcomes.items():
        made = created.get(name)
        if isinstance(outcome, Refusal):
            results.append(_refused(name, outcome))
        elif isinstance(made, Exception):
            results.append(_refused(name, _refusal(name, made)))
        else:
            topic_id = catalogue.new_id() if made is None else made.topic_id
            alike = tuple(outcome.overrides.items())
            if alike not in configs:
                configs[alike] = _configs(catalogue, outcome.overrides)
            results.append(_created(outcome, topic_id, configs[alike]))
            if made is not None:
                changes.append(TopicCreated(name, topic_id, outcome.partitions))
        yield None
    duplicate = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    for name, count in counts.items():
        if count > 1:
            results.append(_refused(name, duplicate))
            yield None
    if counts[CLUSTER_METADATA] == 1:
        prohibited = Refusal(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
        )
        results.append(_refused(CLUSTER_METADATA, prohibited))
    changes += too_many(created)
    changes += _replication_changes(plane, request, outcomes, created)
    return Answer(CreateTopicsResponse(topics=results), changes=changes)


def _replication_changes(
    plane: DataPlane,
    request: CreateTopicsRequest,
    outcomes: Mapping[str, Refusal | NewTopic],
    created: Mapping[str, object],
) -> list[TopicChange]:
    """What the log says about replication factors that are above the number of brokers."""
    refused = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, TooFewBrokers)}
    changes: list[TopicChange] = []
    if refused:
        changes.append(ReplicationFactorRefused(tuple(refused), str(next(iter(refused.values())))))
    for topic in request.topics:
        made, asked = created.get(topic.name), _asked_factor(plane, topic)
        if isinstance(made, Topic) and not topic.assignments and asked > made.replication_factor:
            changes.append(ReplicationFactorReduced(topic.name, asked, made.replication_factor))
    return changes


def _assign(
    plane: DataPlane, request: CreateTopicsRequest, outcomes: Mapping[str, Refusal | NewTopic]
) -> None:
    for topic in request.topics:
        if topic.assignments and isinstance(outcomes.get(topic.name), NewTopic):
            for assignment in topic.assignments:
                partition = TopicPartition(topic.name, assignment.partition_index)
                plane.ownership.assign(partition, assignment.broker_ids)


def _unassign(plane: DataPlane, refused: Sequence[NewTopic]) -> None:
    """Takes back the assignments of topics that were not created, unless another request has created them."""
    for new in refused:
        if plane.catalogue.get(new.name) is None and not plane.catalogue.is_changing(new.name):
            for number in range(new.partitions):
                plane.ownership.unassign(TopicPartition(new.name, number))


def _all_refused(request: CreateTopicsRequest, why: Refusal) -> Steps:
    results: list[CreatableTopicResult] = []
    for topic in request.topics:
        results.append(_refused(topic.name, why))
        yield None
    return Answer(CreateTopicsResponse(topics=results))


def _validated(
    plane: DataPlane, request: CreateTopicsRequest, counts: Counter[str]
) -> Generator[None, None, dict[str, Refusal | NewTopic]]:
    """By name what each topic is to be, or why it is not to be; those that are named once."""
    catalogue = plane.catalogue
    allowed = [
        topic for topic in request.topics if counts[topic.name] == 1 and topic.name != CLUSTER_METADATA
    ]
    # Names are compared with what exists before the request: Kafka lets one request create both a.b and a_b.
    refusals: dict[str, Refusal | None] = {}
    for topic in allowed:
        refusals[topic.name] = _why_not_named(catalogue, topic.name)
        yield
    outcomes: dict[str, Refusal | NewTopic] = {}
    left = MAX_PARTITIONS
    for topic in allowed:
        outcome: Refusal | NewTopic
        try:
            outcome = refusals[topic.name] or _validate(plane, topic, left)
        except Refusal as error:
            outcome = error.with_traceback(None)  # thousands of them are kept for a while
        if isinstance(outcome, NewTopic):
            left -= outcome.partitions
        outcomes[topic.name] = outcome
        yield
    return outcomes


def too_many(outcomes: Mapping[str, object]) -> list[TopicChange]:
    """What is told of topics, by name, for whose partitions there are no descriptors."""
    refusals = [outcome for outcome in outcomes.values() if isinstance(outcome, TooManyPartitions)]
    return [PartitionsRefused(len(refusals), str(refusals[0]))] if refusals else []


def _why_not_named(catalogue: Catalogue, name: str) -> Refusal | None:
    illegal = why_illegal(name)
    if illegal is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    if catalogue.get(name) is not None or name in COORDINATED:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = catalogue.metric_names.collides(name)
    if other is not None:
        return Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
        )
    return None


def _validate(plane: DataPlane, topic: CreatableTopic, left: int) -> NewTopic:
    """What a topic whose name is free is to be. Raises Refusal."""
    if len(topic.configs) > MOST_CONFIGS:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"a topic of more than {MOST_CONFIGS} configs")
    nulls = [entry.name for entry in topic.configs if entry.value is None]
    if nulls:
        raise Refusal(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}"
        )
    overrides = {entry.name: entry.value for entry in topic.configs if entry.value is not None}
    try:
        plane.catalogue.defaults.validate(overrides)
    except InvalidConfig as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from error
    partitions, factor = _shape(plane, topic)
    if partitions > left:
        raise Refusal(ErrorCode.POLICY_VIOLATION, f"one request creates at most {MAX_PARTITIONS} partitions")
    return NewTopic(topic.name, partitions, overrides, replication_factor=factor)


def _shape(plane: DataPlane, topic: CreatableTopic) -> tuple[int, int]:
    """How many partitions, and replicas of each."""
    if topic.assignments:
        return _assigned(topic, plane.ownership)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    factor = _possible_factor(plane, _asked_factor(plane, topic), topic.name)
    return plane.config.num_partitions if topic.num_partitions == -1 else topic.num_partitions, factor


def _asked_factor(plane: DataPlane, topic: CreatableTopic) -> int:
    factor = topic.replication_factor
    return plane.config.default_replication_factor if factor == -1 else factor


class TooFewBrokers(Refusal):
    """A replication factor is above the number of replicas that a topic can have."""


def _possible_factor(plane: DataPlane, factor: int, topic: str) -> int:
    """Return how many replicas a topic gets that is to have `factor`.

    Raises Refusal, with the text of Kafka's `StripedReplicaPlacer` where there are too few brokers.
    """
    brokers, most = len(plane.ownership.brokers), plane.ownership.most_replicas(topic)
    text = f"Unable to replicate the partition {factor} time(s): "
    if factor < 1:
        text += f"Invalid replication factor {factor}: the replication factor must be positive."
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
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


def _assigned(topic: CreatableTopic, ownership: Ownership) -> tuple[int, int]:
    if topic.replication_factor != -1:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != -1:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    seen = set()
    for assignment in topic.assignments:
        if assignment.partition_index in seen:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        seen.add(assignment.partition_index)
        check_assignment(topic.name, assignment.broker_ids, ownership, len(topic.assignments[0].broker_ids))
    if seen != set(range(len(seen))):
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return len(seen), len(topic.assignments[0].broker_ids)


def check_assignment(topic: str, broker_ids: Sequence[int], ownership: Ownership, factor: int) -> None:
    """Check that a partition may be assigned to these brokers: `factor` of the live ones. Raises Refusal, with the
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
    if problem is None and count > ownership.most_replicas(topic):
        problem = f"a partition with {count} replica(s), but partitions have one here."
    if problem is None and count != factor:
        problem = (
            f"a partition with {count} replica(s), but this is not consistent with previous partitions, which have "
            f"{factor} replica(s)."
        )
    if problem is not None:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}"
        )


def _refusal(name: str, problem: Exception) -> Refusal:
    """Why a topic was not made."""
    if isinstance(problem, Refusal):
        return problem
    if isinstance(problem, Exists):
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))


def _refused(name: str, error: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message, configs=[])


def _created(new: NewTopic, topic_id: bytes, configs: list[CreatableTopicConfigs]) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=new.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        num_partitions=new.partitions,
        replication_factor=new.replication_factor,
        configs=configs,
    )


def _configs(catalogue: Catalogue, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    entries = [catalogue.defaults.effective(key, overrides) for key in TOPIC_CONFIG_KEYS.values()]
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
