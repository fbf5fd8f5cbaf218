"""CreateTopics. Source: KIP-4, KIP-464, KIP-525, Kafka's `ControllerApis` and `ReplicationControlManager`."""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence

from coordinator.cluster.conflict import Exists
from coordinator.cluster.ownership import Ownership
from coordinator.config.config_key import InvalidConfig
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.machine.outcome import Context, Now
from coordinator.names import COORDINATED
from coordinator.topics.answer import Answer, PartitionsRefused, TopicChange, TopicCreated
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.config import MAX_PARTITIONS, MOST_CONFIGS
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.deadline import out_of_time
from coordinator.topics.open_files import TooManyPartitions
from coordinator.topics.refusal import Refusal
from coordinator.topics.steps import Mark
from coordinator.topics.topic import Created, NewTopic
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
        prohibited = Refusal(ErrorCode.INVALID_REQUEST, f"{CLUSTER_METADATA} cannot be created by clients")
        results.append(_refused(CLUSTER_METADATA, prohibited))
    changes += too_many(created)
    return Answer(CreateTopicsResponse(topics=results), changes=changes)


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
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name '{name}' collides with topic '{other}'"
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
    factor = topic.replication_factor
    if factor < -1 or factor == 0:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 for the broker's default",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions must be larger than 0, or -1 for the broker's default",
        )
    if factor == -1:
        factor = plane.config.default_replication_factor
    check_factor(factor, topic.name, plane.ownership)
    return plane.config.num_partitions if topic.num_partitions == -1 else topic.num_partitions, factor


def check_factor(factor: int, topic: str, ownership: Ownership) -> None:
    """Whether a topic may be made with so many replicas. Raises Refusal."""
    brokers = len(ownership.brokers)
    if factor < 1:
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0")
    if factor > ownership.most_replicas(topic):
        if factor <= brokers:
            why = "records have one replica here"
        else:
            why = "there is only 1 broker" if brokers == 1 else f"only {brokers} brokers are registered"
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {factor} cannot be reached because {why}",
        )


def _assigned(topic: CreatableTopic, ownership: Ownership) -> tuple[int, int]:
    if topic.replication_factor != -1:
        raise Refusal(ErrorCode.INVALID_REQUEST, "a topic with assignments has replication factor -1")
    if topic.num_partitions != -1:
        raise Refusal(ErrorCode.INVALID_REQUEST, "a topic with assignments has partition count -1")
    seen = set()
    for assignment in topic.assignments:
        if assignment.partition_index in seen:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"more than one assignment for partition {assignment.partition_index}",
            )
        seen.add(assignment.partition_index)
        check_assignment(topic.name, assignment.broker_ids, ownership, len(topic.assignments[0].broker_ids))
    if seen != set(range(len(seen))):
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "assigned partitions must be numbered 0, 1, 2, …")
    return len(seen), len(topic.assignments[0].broker_ids)


def check_assignment(topic: str, broker_ids: Sequence[int], ownership: Ownership, factor: int) -> None:
    """Whether a partition may be assigned to these brokers: so many of those that live. Raises Refusal."""
    problem, brokers = None, ownership.brokers
    unknown = [broker_id for broker_id in broker_ids if broker_id not in brokers]
    if not broker_ids:
        problem = "an assignment must name a broker"
    elif unknown:
        problem = f"the assignment names broker {unknown[0]}, which does not exist"
    elif len(set(broker_ids)) < len(broker_ids):
        problem = f"the assignment names broker {broker_ids[0]} more than once"
    elif len(broker_ids) > ownership.most_replicas(topic):
        problem = "the assignment names more than one broker, and records have one replica here"
    elif len(broker_ids) != factor:
        problem = f"the assignment names {len(broker_ids)} replica(s), and another one {factor}"
    if problem is not None:
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


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
