"""`kafka-topics`: list, describe, create, alter and delete topics. Source: Kafka's `TopicCommand`."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from coordinator.cli.kafka_tools.cluster_client import ClusterClient, check_error
from coordinator.cli.kafka_tools.tool_call import (
    INTERNAL_TOPICS,
    compile_include_list,
    java_map_order,
    open_client,
    parse_options,
)
from coordinator.cli.kafka_tools.tool_errors import KafkaError, ToolFailure, UsageError
from coordinator.cli.kafka_tools.tool_options import (
    BOOTSTRAP,
    COMMAND_CONFIG,
    ZOOKEEPER,
    OptionTable,
    ParsedOptions,
    flag,
    ignored,
    unsupported,
    value,
)
from protocol.error_codes import ErrorCode

_REPORTS: Final = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)
OPTIONS: Final = OptionTable(
    BOOTSTRAP,
    ZOOKEEPER,
    COMMAND_CONFIG,
    flag("list", "List topics."),
    flag("describe", "Print topics and their partitions."),
    flag("create", "Create a topic."),
    flag("alter", "Raise the number of partitions."),
    flag("delete", "Delete topics."),
    value("topic", "TOPIC", "A topic; a regular expression, except with --create."),
    value("topic-id", "ID", "The id of a topic to describe."),
    value("partitions", "NUMBER", "The number of partitions."),
    value("replication-factor", "NUMBER", "The number of replicas of each partition."),
    value("replica-assignment", "ID:ID,...", "The brokers of each partition, in place of these two numbers."),
    value("config", "NAME=VALUE", "A config of the new topic; may be repeated."),
    flag("if-exists", "Do nothing where the topic does not exist."),
    flag("if-not-exists", "Do nothing where the topic exists."),
    flag("exclude-internal", "Leave internal topics out."),
    flag("under-replicated-partitions", "Describe partitions with too few replicas in sync."),
    flag("unavailable-partitions", "Describe partitions without a leader."),
    flag(
        "under-min-isr-partitions",
        "Describe partitions with fewer replicas in sync than min.insync.replicas.",
    ),
    flag(
        "at-min-isr-partitions", "Describe partitions with as many replicas in sync as min.insync.replicas."
    ),
    flag("topics-with-overrides", "Describe topics with configs of their own."),
    ignored("partition-size-limit-per-response", "NUMBER"),
    unsupported("delete-config", "NAME"),
)
UNRECOGNIZED_PREFIX: Final = ""
_SUMMARY: Final = "This tool helps to create, delete, describe, or change a topic."
_ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
_MAX_REPLICAS: Final = 32767
_TIMEOUT_MS: Final = 30_000
_TOPIC: Final = 2
"""The number of the resource type "topic" in DescribeConfigs."""
_DEFAULT_CONFIG: Final = 5
"""The source of a config with its default value."""
_COLLISION: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)


def run(arguments: Sequence[str]) -> int:
    """Run the tool and return the exit code."""
    if not arguments:
        raise UsageError("Create, delete, describe, or change a topic.")
    options = parse_options(OPTIONS, arguments, _SUMMARY)
    action = _check_options(options)
    try:
        with open_client(options) as client:
            action(client, options)
    except (KafkaError, UsageError) as error:
        raise ToolFailure(f"Error while executing topic command : {error}", is_on_stdout=True) from error
    return 0


def _check_options(options: ParsedOptions) -> Callable[[ClusterClient, ParsedOptions], None]:
    """Return the action of the call. Raises UsageError for options that exclude each other."""
    if options.count(_ACTIONS) != 1:
        raise UsageError(
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
        )
    if not options.has("bootstrap-server"):
        raise UsageError("--bootstrap-server must be specified")
    if options.has("create") or options.has("delete"):
        options.require("topic")
    if options.has("alter"):
        options.require("topic")
        options.forbid("alter", "config")
        options.require("partitions")
    if options.has("create"):
        options.forbid("replica-assignment", "partitions", "replication-factor")
    for name, actions in _ALLOWED_WITH.items():
        options.forbid(name, *(action for action in _ACTIONS if action not in actions))
    return next(action for name, action in _RUN_ACTION.items() if options.has(name))


_ALLOWED_WITH: Final = {
    "config": ("create", "alter"),
    "partitions": ("create", "alter"),
    "replication-factor": ("create",),
    "replica-assignment": ("create", "alter"),
    "if-exists": ("alter", "delete", "describe"),
    "if-not-exists": ("create",),
    "exclude-internal": ("list", "describe"),
    "topics-with-overrides": ("describe",),
    **dict.fromkeys(_REPORTS, ("describe",)),
}


def _list_topics(client: ClusterClient, options: ParsedOptions) -> None:
    print("\n".join(_find_topics(client, options)))


def _find_topics(client: ClusterClient, options: ParsedOptions) -> list[str]:
    """Return the names that --topic and --exclude-internal select, in order."""
    names = sorted(topic.name for topic in client.fetch_topics(None))
    wanted = options.get("topic")
    if wanted is not None:
        pattern = compile_include_list(wanted)
        names = [name for name in names if pattern.fullmatch(name)]
    return [name for name in names if not (options.has("exclude-internal") and name in INTERNAL_TOPICS)]


def _require_found(found: Sequence[object], options: ParsedOptions, option: str, kind: str) -> None:
    wanted = options.get(option)
    if wanted and not found and not options.has("if-exists"):
        raise KafkaError(f"{kind} '{wanted}' does not exist as expected", "IllegalArgumentException")


def _create_topic(client: ClusterClient, options: ParsedOptions) -> None:
    from protocol.messages.create_topics import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    name = options.text("topic")
    partitions, replicas = options.integer("partitions"), options.integer("replication-factor")
    replica_lists = _parse_replica_lists(options.get("replica-assignment"))
    configs = _parse_configs(options.all("config"))
    if "." in name or "_" in name:
        print(_COLLISION)
    if replicas is not None and not 1 <= replicas <= _MAX_REPLICAS:
        raise UsageError(f"The replication factor must be between 1 and {_MAX_REPLICAS} inclusive")
    if partitions is not None and partitions < 1:
        raise UsageError("The partitions must be greater than 0")
    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replicas is None else replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=replica_list)
            for index, replica_list in enumerate(replica_lists)
        ],
        configs=[CreatableTopicConfig(name=key, value=text) for key, text in configs.items()],
    )
    (result,) = client.send_request(CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)).topics
    if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and options.has("if-not-exists"):
        return
    check_error(result)
    print(f"Created topic {name}.")


def _parse_configs(pairs: Sequence[str]) -> dict[str, str]:
    configs = {}
    for pair in pairs:
        words = re.split(r"\s*=\s*", pair)
        if len(words) != 2:
            raise UsageError(
                "requirement failed: Invalid topic config: all configs to be added must be in the format "
                '"key=val".'
            )
        configs[words[0].strip()] = words[1].strip()
    return configs


def _parse_replica_lists(text: str | None) -> list[list[int]]:
    """Return the brokers of each partition of ID:ID,ID:ID. Raises UsageError."""
    found: list[list[int]] = []
    for index, words in enumerate(text.split(",") if text else ()):
        try:
            brokers = [int(word) for word in words.split(":")]
        except ValueError:
            raise UsageError(f'For input string: "{words}"') from None
        twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if twice:
            names = ",".join(map(str, twice))
            raise UsageError(f"Partition replica lists may not contain duplicate entries: {names}")
        found.append(brokers)
        if len(brokers) != len(found[0]):
            raise UsageError(f"Partition {index} has different replication factor: {brokers}")
    return found


def _alter_topics(client: ClusterClient, options: ParsedOptions) -> None:
    from protocol.messages.create_partitions import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

    count = options.integer("partitions")
    assert count is not None, "--partitions is required"
    names = _find_topics(client, options)
    _require_found(names, options, "topic", "Topic")
    if not names:
        return
    topics = [CreatePartitionsTopic(name=name, count=count) for name in names]
    replica_lists = _parse_replica_lists(options.get("replica-assignment"))
    if replica_lists:
        counts = {topic.name: len(topic.partitions) for topic in client.fetch_topics(names)}
        for topic in topics:
            new = replica_lists[counts[topic.name] :]
            topic.assignments = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in new]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=_TIMEOUT_MS, validate_only=False)
    for result in client.send_request(request).results:
        check_error(result)


def _delete_topics(client: ClusterClient, options: ParsedOptions) -> None:
    from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
    from protocol.schema import ZERO_UUID

    names = _find_topics(client, options)
    _require_found(names, options, "topic", "Topic")
    if not names:
        return
    topics = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names]
    request = DeleteTopicsRequest(topics=topics, topic_names=names, timeout_ms=_TIMEOUT_MS)
    for result in client.send_request(request).responses:
        check_error(result)


def _describe_topics(client: ClusterClient, options: ParsedOptions) -> None:
    names = _find_topics_to_describe(client, options)
    if not names:
        return
    described = _fetch_descriptions(client, java_map_order(names, len(names)))
    configs = _fetch_configs(client, names)
    reassignments = _fetch_reassignments(client)
    shows_topics = not any(map(options.has, _REPORTS))
    for topic in described:
        config = configs[topic.name]
        overrides = _format_overrides(config.configs)
        if shows_topics and (overrides or not options.has("topics-with-overrides")):
            _print_topic(topic, overrides, reassignments)
        if options.has("topics-with-overrides"):
            continue
        min_in_sync = next(int(each.value) for each in config.configs if each.name == "min.insync.replicas")
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index):
            moved = reassignments.get((topic.name, partition.partition_index))
            if shows_topics or _is_reported(partition, moved, min_in_sync, client, options):
                _print_partition(topic.name, partition, moved)


def _format_overrides(configs: Sequence[Any]) -> list[str]:
    """Return NAME=VALUE of configs that were set, in the order of Kafka's tool."""
    by_name = {each.name: each for each in configs}
    ordered = [by_name[name] for name in java_map_order(by_name)]
    return [f"{each.name}={each.value}" for each in ordered if each.config_source != _DEFAULT_CONFIG]


def _find_topics_to_describe(client: ClusterClient, options: ParsedOptions) -> list[str]:
    from storage.topic_partition import uuid_to_text

    topic_id = options.get("topic-id")
    if topic_id is None:
        names = _find_topics(client, options)
        _require_found(names, options, "topic", "Topic")
        return names
    if options.has("topic"):
        print(
            "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
            "Uuid.ZERO_UUID"
        )
    topics = client.fetch_topics(None)
    found = [topic.name for topic in topics if uuid_to_text(topic.topic_id) == topic_id]
    _require_found(found, options, "topic-id", "TopicId")
    return found


def _fetch_descriptions(client: ClusterClient, names: Sequence[str]) -> list[Any]:
    """Return the descriptions of topics, in the order of the names."""
    from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest

    found: dict[str, Any] = {}
    cursor = None
    while True:
        topics = [
            TopicRequest(name=name) for name in sorted(names) if cursor is None or name >= cursor.topic_name
        ]
        answer = client.send_request(DescribeTopicPartitionsRequest(topics=topics, cursor=cursor))
        for topic in answer.topics:
            check_error(topic)
            if topic.name in found:
                found[topic.name].partitions.extend(topic.partitions)
            else:
                found[topic.name] = topic
        cursor = answer.next_cursor
        if cursor is None:
            return [found[name] for name in names if name in found]


def _fetch_configs(client: ClusterClient, names: Sequence[str]) -> dict[str, Any]:
    from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resources = [DescribeConfigsResource(resource_type=_TOPIC, resource_name=name) for name in names]
    results = client.send_request(DescribeConfigsRequest(resources=resources)).results
    for result in results:
        check_error(result)
    return {result.resource_name: result for result in results}


def _fetch_reassignments(client: ClusterClient) -> dict[tuple[str, int], Any]:
    """Return the reassignments in progress by partition; none if the broker does not support or allow the
    request."""
    from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

    try:
        answer = client.send_request(ListPartitionReassignmentsRequest())
        check_error(answer)
    except KafkaError as error:
        if error.java_class not in ("UnsupportedVersionException", "ClusterAuthorizationException"):
            raise
        return {}
    return {
        (topic.name, partition.partition_index): partition
        for topic in answer.topics
        for partition in topic.partitions
    }


def _count_replicas(partition: Any, moved: Any) -> int:
    if moved is None:
        return len(partition.replica_nodes)
    return len(moved.replicas) - len(moved.adding_replicas)


def _is_reported(
    partition: Any, moved: Any, min_in_sync: int, client: ClusterClient, options: ParsedOptions
) -> bool:
    """Return whether a partition belongs to one of the requested reports."""
    in_sync, has_leader = len(partition.isr_nodes), partition.leader_id >= 0
    facts = {
        "under-replicated-partitions": in_sync < _count_replicas(partition, moved),
        "unavailable-partitions": partition.leader_id not in client.brokers,
        "under-min-isr-partitions": not has_leader or in_sync < min_in_sync,
        "at-min-isr-partitions": in_sync == min_in_sync,
    }
    return any(options.has(report) and is_so for report, is_so in facts.items())


def _print_topic(topic: Any, overrides: Sequence[str], reassignments: dict[tuple[str, int], Any]) -> None:
    from storage.topic_partition import uuid_to_text

    first = min(topic.partitions, key=lambda each: each.partition_index)
    replicas = _count_replicas(first, reassignments.get((topic.name, first.partition_index)))
    print(
        f"Topic: {topic.name}\tTopicId: {uuid_to_text(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replicas}\tConfigs: {','.join(overrides)}"
    )


def _print_partition(topic: str, partition: Any, moved: Any) -> None:
    words = [
        f"Topic: {topic}",
        f"Partition: {partition.partition_index}",
        f"Leader: {partition.leader_id if partition.leader_id >= 0 else 'none'}",
        f"Replicas: {_format_nodes(partition.replica_nodes)}",
        f"Isr: {_format_nodes(partition.isr_nodes)}",
    ]
    if moved is not None:
        words.append(f"Adding Replicas: {_format_nodes(moved.adding_replicas)}")
        words.append(f"Removing Replicas: {_format_nodes(moved.removing_replicas)}")
    words.append(f"Elr: {_format_nodes(partition.eligible_leader_replicas)}")
    words.append(f"LastKnownElr: {_format_nodes(partition.last_known_elr)}")
    print("\t" + "\t".join(words))


def _format_nodes(nodes: Sequence[int] | None) -> str:
    return "N/A" if nodes is None else ",".join(map(str, nodes))


_RUN_ACTION: Final = {
    "list": _list_topics,
    "describe": _describe_topics,
    "create": _create_topic,
    "alter": _alter_topics,
    "delete": _delete_topics,
}
