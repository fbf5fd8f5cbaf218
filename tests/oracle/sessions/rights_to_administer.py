"""What clients may do as administrators: topics, configs, the cluster, users."""

from collections.abc import Callable
from typing import Any

from protocol.messages import alter_configs, incremental_alter_configs
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.oracle.guarded import CLIENT, NAMES, ONE, Guarded, Stage, cases, of_each, play_guarded
from tests.oracle.peers import SECURED
from tests.oracle.play import Play
from tests.oracle.rights import grant
from tests.oracle.secured import enter, make_users, upsertion
from tests.oracle.session import session
from tests.oracle.sessions.reassignments import elect, reassign

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
"""What has configs."""
_TIMEOUT_MS = 20_000
_IN_STATES_SINCE = 6


def _create(*names: str) -> Any:
    def asked(stage: Stage) -> Any:
        topics = [
            CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
            for name in ([stage.play.name(each) for each in names] or stage.names)
        ]
        return CreateTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS, validate_only=False)

    return asked


def _delete(stage: Stage) -> Any:
    if stage.version >= _IN_STATES_SINCE:
        states = [DeleteTopicState(name=name, topic_id=bytes(16)) for name in stage.names]
        return DeleteTopicsRequest(topics=states, timeout_ms=_TIMEOUT_MS)
    return DeleteTopicsRequest(topic_names=stage.names, timeout_ms=_TIMEOUT_MS)


def _delete_by_id(stage: Stage) -> Any:
    ids = [*(topic.id for topic in stage.topics), b"a topic that no-"]
    states = [DeleteTopicState(name=None, topic_id=each) for each in ids]
    return DeleteTopicsRequest(topics=states, timeout_ms=_TIMEOUT_MS)


def _enlarge(stage: Stage) -> Any:
    topics = [CreatePartitionsTopic(name=name, count=3) for name in stage.names]
    return CreatePartitionsRequest(topics=topics, timeout_ms=_TIMEOUT_MS, validate_only=True)


Settings = list[tuple[int, str, str, str]]
"""Type and name of a resource with configs, one of its configs and another value."""


def _of_clients(stage: Stage) -> Settings:
    return [
        *((TOPIC, name, "retention.ms", "1000000") for name in stage.names),
        (GROUP, stage.name, "consumer.session.timeout.ms", "46000"),
    ]


def _of_brokers(stage: Stage) -> Settings:
    return [
        (BROKER, "1", "group.max.size", "7"),
        (LOGGER, "1", "kafka.log", "INFO"),
        (METRICS, stage.play.name("metrics"), "interval.ms", "5000"),
    ]


def _describe(settings: Settings) -> Any:
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[config])
        for kind, name, config, _ in settings
    ]
    return DescribeConfigsRequest(resources=resources)


def _alter(settings: Settings) -> Any:
    resources = [
        alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[alter_configs.AlterableConfig(name=config, value=value)],
        )
        for kind, name, config, value in settings
    ]
    return AlterConfigsRequest(resources=resources, validate_only=True)


def _incremental(settings: Settings) -> Any:
    resources = [
        incremental_alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[incremental_alter_configs.AlterableConfig(name=config, config_operation=0, value=value)],
        )
        for kind, name, config, value in settings
    ]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=True)


def _about(
    request: Callable[[Settings], Any], *settings: Callable[[Stage], Settings]
) -> Callable[[Stage], Any]:
    return lambda stage: request([each for some in settings for each in some(stage)])


def _log_dirs(stage: Stage) -> Any:
    return DescribeLogDirsRequest(topics=[])


def _cluster(stage: Stage) -> Any:
    return DescribeClusterRequest(include_cluster_authorized_operations=True)


def _config_resources(stage: Stage) -> Any:
    return ListConfigResourcesRequest(resource_types=[TOPIC] if stage.version else [])


def _reassign(stage: Stage) -> Any:
    return reassign((stage.name, 0, [1]), (stage.name, 1, None), (stage.names[0], 0, [1]))


def _reassignments(stage: Stage) -> Any:
    topics = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 1]) for name in stage.names[:2]
    ]
    return ListPartitionReassignmentsRequest(topics=topics)


def _all_reassignments(stage: Stage) -> Any:
    return ListPartitionReassignmentsRequest(topics=None)


def _elect(stage: Stage) -> Any:
    return elect(*((name, [0]) for name in stage.names))


def _elect_all(stage: Stage) -> Any:
    return ElectLeadersRequest(topic_partitions=None)


def _users(stage: Stage) -> Any:
    return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in stage.names[:2]])


def _alter_users(stage: Stage) -> Any:
    removed = ScramCredentialDeletion(name=stage.play.name("nobody"), mechanism=1)
    return AlterUserScramCredentialsRequest(deletions=[removed], upsertions=[upsertion(stage.name)])


def _two_users(stage: Stage) -> None:
    make_users(stage.play, *stage.names[:2])


def topics_of(answer: Any) -> list[str | bytes]:
    """The topics of an answer, in its order."""
    for array in ("topics", "responses", "results"):
        found = getattr(answer, array, None)
        if found:
            return [each.name or each.topic_id for each in found]
    return []


CONFIGS = ("DESCRIBE_CONFIGS", "ALTER_CONFIGS")
DESCRIBING, ALTERING = (
    {
        ONE: (f"{operation} TOPIC {NAMES[1]}",),
        "the cluster": (f"{operation} CLUSTER",),
        "all": (f"{operation} TOPIC *", f"{operation} GROUP *"),
    }
    for operation in CONFIGS
)
TABLE = {
    "CreateTopics": Guarded((2, 5, 7), _create(), of_each("CREATE"), has_topics=False),
    "CreateTopics-and-see": Guarded(
        (5, 7),
        _create(),
        {ONE: (f"CREATE TOPIC {NAMES[1]}", f"DESCRIBE_CONFIGS TOPIC {NAMES[1]}")},
        topics_of,
        has_topics=False,
    ),
    "CreateTopics-in-a-cluster": Guarded(
        (2, 7), _create(), {"the cluster": ("CREATE CLUSTER",)}, has_topics=False
    ),
    "CreateTopics-twice": Guarded(
        (7,), _create("once", "twice", "twice"), {"one": ("CREATE TOPIC twice",)}, has_topics=False
    ),
    "DeleteTopics": Guarded((1, 5, 6), _delete, of_each("DELETE")),
    "DeleteTopics-in-a-cluster": Guarded((6,), _delete, {"the cluster": ("DELETE CLUSTER",)}),
    "DeleteTopics-by-id": Guarded(
        (6,), _delete_by_id, {"seeing one": (f"DESCRIBE TOPIC {NAMES[1]}",), **of_each("DELETE")}
    ),
    "CreatePartitions": Guarded((0, 2, 3), _enlarge, of_each("ALTER"), topics_of),
    "DescribeConfigs": Guarded((1, 3, 4), _about(_describe, _of_clients), DESCRIBING),
    "DescribeConfigs-by-altering": Guarded((4,), _about(_describe, _of_clients), ALTERING),
    "DescribeConfigs-of-a-broker": Guarded((4,), _about(_describe, _of_brokers, _of_clients), {}),
    "AlterConfigs": Guarded((0, 1, 2), _about(_alter, _of_clients), ALTERING),
    "AlterConfigs-of-a-broker": Guarded((2,), _about(_alter, _of_brokers, _of_clients), {}),
    "IncrementalAlterConfigs": Guarded((0, 1), _about(_incremental, _of_clients), ALTERING),
    "IncrementalAlterConfigs-of-a-broker": Guarded((1,), _about(_incremental, _of_brokers, _of_clients), {}),
    "DescribeLogDirs": Guarded((1, 2, 3, 5), _log_dirs, {}, has_topics=False),
    "DescribeCluster": Guarded((0, 1, 2), _cluster, {"the cluster": ("DESCRIBE CLUSTER",)}, has_topics=False),
    "ListConfigResources": Guarded(
        (0, 1), _config_resources, {"the cluster": ("DESCRIBE_CONFIGS CLUSTER",)}, own=True
    ),
    "AlterPartitionReassignments": Guarded((0, 1), _reassign, {"the cluster": ("ALTER CLUSTER",)}),
    "ListPartitionReassignments": Guarded((0,), _reassignments, {"the cluster": ("DESCRIBE CLUSTER",)}),
    "ListPartitionReassignments-of-all": Guarded((0,), _all_reassignments, {}, has_topics=False),
    "ElectLeaders": Guarded((0, 1, 2), _elect, {"the cluster": ("ALTER CLUSTER",)}),
    "ElectLeaders-everywhere": Guarded((0, 2), _elect_all, {}, has_topics=False),
    "DescribeUserScramCredentials": Guarded(
        (0,), _users, {"the cluster": ("DESCRIBE CLUSTER",)}, has_topics=False, prepare=_two_users
    ),
    "AlterUserScramCredentials": Guarded(
        (0,),
        _alter_users,
        {"seeing": ("DESCRIBE CLUSTER",), "altering": ("ALTER CLUSTER",)},
        has_topics=False,
    ),
}


@session(setup=SECURED, case=cases(TABLE))
def rights_to_administer(play: Play, case: str) -> None:
    play_guarded(play, TABLE, case)


@session(setup=SECURED, version=(1, 2, 3, 5))
def log_directories_for_who_may_see_them(play: Play, version: int) -> None:
    """Told is only whether there are any: they have every topic of the broker."""
    enter(play, CLIENT)
    for note, rights in (("nothing", ()), ("the cluster", ("DESCRIBE CLUSTER",))):
        grant(play, CLIENT, *rights)
        with play.quietly():
            answer = play.ask(DescribeLogDirsRequest(topics=None), version, CLIENT)
        play.tell(note, {"error_code": answer.error_code, "directories": len(answer.results)})
