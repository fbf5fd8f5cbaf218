"""The largest requests that the bounds of each API allow: what takes a handler longest for its bytes."""

from typing import Any, Final

from protocol.apis import APIS, MAX_MEMBERS, MAX_NAMES
from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.incremental_alter_configs import (
    AlterableConfig as IncrementalConfig,
)
from protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.schema import ZERO_UUID
from tests.hostile.largest_of_consumer_groups import OF_CONSUMER_GROUPS
from tests.hostile.largest_of_transactions import OF_TRANSACTIONS
from tests.hostile.shapes import KNOWN, KNOWN_PARTITIONS, PARTITIONS, TOPICS, Largest, names, over_topics

KNOWN_TOPICS: Final = 10_000
"""That CreateTopics makes at most at once, of a partition each."""
KEYS: Final = 129_000
TOPIC, BROKER = 2, 4


def _commit(index: int) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(partition_index=index, committed_offset=1)


def _commits(topics: list[tuple[str, list[Any]]]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics]
    )


def _fetch(index: int) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000)


def creation(
    *topics: tuple[str, int], configs: int = 0, assigned: int = 0, validate_only: bool = False
) -> CreateTopicsRequest:
    """Topics with so many partitions each."""
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=-1 if assigned else partitions,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=number, broker_ids=[])
                    for number in range(assigned)
                ],
                configs=[CreatableTopicConfig(name=key, value="1") for key in names(configs)],
            )
            for name, partitions in topics
        ],
        validate_only=validate_only,
        timeout_ms=30_000,
    )


def _growth(*names: str, count: int, assigned: int = 0) -> CreatePartitionsRequest:
    assignments = [CreatePartitionsAssignment(broker_ids=[])] * assigned if assigned else None
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=assignments) for name in names]
    return CreatePartitionsRequest(topics=topics, timeout_ms=30_000, validate_only=False)


def _alter(kind: int, resources: int, configs: int) -> AlterConfigsRequest:
    entries = [AlterableConfig(name=key, value="1") for key in names(configs)]
    named = [KNOWN if kind == TOPIC else "0"] if resources == 1 else names(resources)
    return AlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries) for name in named
        ],
        validate_only=False,
    )


def _alter_incrementally(kind: int, resources: int, configs: int) -> IncrementalAlterConfigsRequest:
    entries = [IncrementalConfig(name=key, config_operation=0, value="1") for key in names(configs)]
    named = [KNOWN if kind == TOPIC else "0"] if resources == 1 else names(resources)
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalResource(resource_type=kind, resource_name=name, configs=entries) for name in named
        ],
        validate_only=False,
    )


def _describe(resources: int, keys: int | None) -> DescribeConfigsRequest:
    chosen = None if keys is None else names(keys)
    named = [KNOWN] if resources == 1 else names(resources)
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=chosen)
            for name in named
        ]
    )


def _join() -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name=name, metadata=b"") for name in names(APIS[11].max_elements)]
    return JoinGroupRequest(
        group_id="joined",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )


def _sync() -> SyncGroupRequest:
    plan = [SyncGroupRequestAssignment(member_id=name, assignment=b"") for name in names(MAX_MEMBERS)]
    return SyncGroupRequest(
        group_id="neighbours", generation_id=1, member_id="m", protocol_type="consumer", assignments=plan
    )


def _offset_fetch(topics: list[tuple[str, list[Any]]]) -> OffsetFetchRequest:
    asked = [OffsetFetchRequestTopics(name=name, partition_indexes=numbers) for name, numbers in topics]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=asked)])


def _groups(count: int) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names(count)]
    )


def _log_dirs(topics: list[tuple[str, list[Any]]]) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in topics]
    )


LARGEST: Final[dict[str, Largest]] = {
    **over_topics(
        "Produce",
        9,
        lambda topics: ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=name, partition_data=parts) for name, parts in topics],
        ),
        lambda index: PartitionProduceData(index=index, records=b""),
    ),
    **over_topics(
        "Fetch",
        12,
        lambda topics: FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=name, partitions=parts) for name, parts in topics],
        ),
        _fetch,
    ),
    **over_topics(
        "ListOffsets",
        9,
        lambda topics: ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics]
        ),
        lambda index: ListOffsetsPartition(partition_index=index, timestamp=-1),
    ),
    "Metadata: names": Largest(
        lambda: MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names(MAX_NAMES)],
            allow_auto_topic_creation=False,
        ),
        12,
    ),
    "Metadata: all": Largest(lambda: MetadataRequest(topics=None), 12),
    **over_topics("OffsetCommit", 8, _commits, _commit),
    "OffsetCommit: known": Largest(
        lambda: _commits([(KNOWN, [_commit(number) for number in range(KNOWN_PARTITIONS)])]), 8
    ),
    "OffsetFetch: known": Largest(lambda: _offset_fetch([(KNOWN, [*range(KNOWN_PARTITIONS)])]), 8),
    **over_topics("OffsetFetch", 8, _offset_fetch, lambda index: index),
    "OffsetFetch: partitions of v7": Largest(
        lambda: OffsetFetchRequest(group_id="g", topics=_v7_topics()),
        7,
    ),
    "OffsetFetch: groups": Largest(lambda: _groups(KEYS), 8),
    "FindCoordinator": Largest(lambda: FindCoordinatorRequest(coordinator_keys=names(MAX_NAMES)), 6),
    "FindCoordinator: of transactions": Largest(
        lambda: FindCoordinatorRequest(key_type=1, coordinator_keys=names(MAX_NAMES)), 6
    ),
    "JoinGroup": Largest(_join, 3),
    "LeaveGroup": Largest(
        lambda: LeaveGroupRequest(
            group_id="neighbours", members=[MemberIdentity(member_id=name) for name in names(MAX_MEMBERS)]
        ),
        4,
    ),
    "SyncGroup": Largest(_sync, 4),
    "DescribeGroups": Largest(lambda: DescribeGroupsRequest(groups=names(MAX_NAMES)), 5),
    **OF_CONSUMER_GROUPS,
    "ListGroups": Largest(lambda: ListGroupsRequest(states_filter=names(2000)), 5),
    "DeleteGroups": Largest(lambda: DeleteGroupsRequest(groups_names=names(MAX_NAMES)), 2),
    "CreateTopics: names": Largest(
        lambda: creation(*((name, 1) for name in names(TOPICS)), validate_only=True), 7
    ),
    "CreateTopics: configs": Largest(lambda: creation(("new", 1), configs=PARTITIONS), 7),
    "CreateTopics: assignments": Largest(lambda: creation(("new", -1), assigned=PARTITIONS), 7),
    "CreateTopics: created": Largest(lambda: creation(*((name, 1) for name in names(KNOWN_TOPICS))), 7),
    "Metadata: all, of many": Largest(lambda: MetadataRequest(topics=None), 12),
    "CreatePartitions: names": Largest(lambda: _growth(*names(MAX_NAMES), count=2), 3),
    "CreatePartitions: assignments": Largest(
        lambda: _growth(KNOWN, count=KNOWN_PARTITIONS + 10_000, assigned=PARTITIONS), 3
    ),
    "DeleteTopics": Largest(
        lambda: DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names(MAX_NAMES)],
            timeout_ms=30_000,
        ),
        6,
    ),
    **over_topics(
        "DeleteRecords",
        2,
        lambda topics: DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=parts) for name, parts in topics],
            timeout_ms=1000,
        ),
        lambda index: DeleteRecordsPartition(partition_index=index, offset=0),
    ),
    **over_topics(
        "OffsetForLeaderEpoch",
        4,
        lambda topics: OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic=name, partitions=parts) for name, parts in topics]
        ),
        lambda index: OffsetForLeaderPartition(partition=index, leader_epoch=0),
    ),
    "DescribeConfigs: names": Largest(lambda: _describe(PARTITIONS, None), 4),
    "DescribeConfigs: keys": Largest(lambda: _describe(1, KEYS), 4),
    "AlterConfigs: names": Largest(lambda: _alter(TOPIC, PARTITIONS, 0), 2),
    "AlterConfigs: configs": Largest(lambda: _alter(TOPIC, 1, KEYS), 2),
    "AlterConfigs: configs of the broker": Largest(lambda: _alter(BROKER, 1, KEYS), 2),
    "IncrementalAlterConfigs: names": Largest(lambda: _alter_incrementally(TOPIC, PARTITIONS, 0), 1),
    "IncrementalAlterConfigs: configs": Largest(lambda: _alter_incrementally(TOPIC, 1, KEYS), 1),
    "IncrementalAlterConfigs: some configs each": Largest(lambda: _alter_incrementally(TOPIC, 130, 990), 1),
    **over_topics(
        "AlterPartitionReassignments",
        1,
        lambda topics: AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=name, partitions=parts) for name, parts in topics]
        ),
        lambda index: ReassignablePartition(partition_index=index),
    ),
    "AlterPartitionReassignments: replicas": Largest(
        lambda: AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=KNOWN, partitions=[ReassignablePartition(partition_index=0, replicas=[1] * KEYS)]
                )
            ]
        ),
        1,
    ),
    **over_topics(
        "ListPartitionReassignments",
        0,
        lambda topics: ListPartitionReassignmentsRequest(
            topics=[
                ListPartitionReassignmentsTopics(name=name, partition_indexes=parts) for name, parts in topics
            ]
        ),
        lambda index: index,
    ),
    **over_topics(
        "ElectLeaders",
        2,
        lambda topics: ElectLeadersRequest(
            topic_partitions=[TopicPartitions(topic=name, partitions=parts) for name, parts in topics]
        ),
        lambda index: index,
    ),
    **over_topics("DescribeLogDirs", 4, _log_dirs, lambda index: index),
    "DescribeLogDirs: all": Largest(lambda: DescribeLogDirsRequest(topics=None), 4),
    **over_topics(
        "OffsetDelete",
        0,
        lambda topics: OffsetDeleteRequest(
            group_id="g",
            topics=[OffsetDeleteRequestTopic(name=name, partitions=parts) for name, parts in topics],
        ),
        lambda index: OffsetDeleteRequestPartition(partition_index=index),
    ),
    "OffsetDelete: known": Largest(
        lambda: OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(
                    name=KNOWN,
                    partitions=[
                        OffsetDeleteRequestPartition(partition_index=n) for n in range(KNOWN_PARTITIONS)
                    ],
                )
            ],
        ),
        0,
    ),
    **OF_TRANSACTIONS,
    "ListConfigResources": Largest(lambda: ListConfigResourcesRequest(resource_types=[1] * 2000), 1),
    "DescribeTopicPartitions": Largest(
        lambda: DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names(MAX_NAMES)]),
        0,
    ),
}
"""By what they are of."""


def _v7_topics() -> list[Any]:
    from protocol.messages.offset_fetch import OffsetFetchRequestTopic

    return [OffsetFetchRequestTopic(name=KNOWN, partition_indexes=[*range(PARTITIONS)])]
