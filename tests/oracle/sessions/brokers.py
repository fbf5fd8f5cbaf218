"""Three brokers: each names the same coordinators and leaders, and the other brokers reject requests for them.

Reassignments place the coordinator at broker 2 and partition 0 of the topic at broker 1.
"""

from typing import Any, Final

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.sync_group import SyncGroupRequest
from protocol.partitioner import compute_group_number
from tests.oracle.batches import batch, produce_request
from tests.oracle.member import commit_request
from tests.oracle.peers import BROKERS
from tests.oracle.play import Play, Topic
from tests.oracle.session import session
from tests.oracle.sessions.reassignments import elect, reassign

OFFSETS: Final = "__consumer_offsets"
OFFSETS_PARTITIONS: Final = 50
COORDINATOR: Final = 2
NODES: Final = (1, 2, 3)


def at(node_id: int) -> str:
    """The connection to a broker."""
    return f"broker {node_id}"


def coordinated(play: Play, node_id: int = COORDINATOR) -> int:
    """Has a broker coordinate the session's group; the number of its partition."""
    number = compute_group_number(play.group) % OFFSETS_PARTITIONS
    place(play, OFFSETS, number, [node_id])
    fetch = OffsetFetchRequest(group_id=play.group, topics=[])
    play.until(lambda: play.ask(fetch, 5, at(node_id)).error_code == 0)
    return number


def place(play: Play, topic: str, number: int, replicas: list[int]) -> None:
    """Gives a partition these replicas, and waits until every broker knows that the first is its leader."""
    with play.quietly():
        answer = play.ask(reassign((topic, number, replicas)), 0, at(1))
        assert answer.responses[0].partitions[0].error_code == 0, answer
        play.until(lambda: not _underway(play, topic, number))
    play.until(lambda: all(_leader(play, topic, number, node_id) in replicas for node_id in NODES))


def _underway(play: Play, topic: str, number: int) -> bool:
    asked = ListPartitionReassignmentsTopics(name=topic, partition_indexes=[number])
    request = ListPartitionReassignmentsRequest(topics=[asked])
    return bool(play.ask(request, 0, at(1)).topics)


def _leader(play: Play, topic: str, number: int, node_id: int) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    [found] = play.ask(request, 9, at(node_id)).topics
    [leader] = [each.leader_id for each in found.partitions if each.partition_index == number] or [-1]
    return int(leader)


def led(play: Play) -> Topic:
    """A topic of which each broker leads a partition."""
    name = play.name("orders")
    creation = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=[node_id])
            for number, node_id in enumerate(NODES)
        ],
        configs=[CreatableTopicConfig(name="retention.ms", value="-1")],
    )
    with play.quietly():
        made = play.ask(CreateTopicsRequest(topics=[creation], timeout_ms=20000), 7, at(1))
    assert made.topics[0].error_code == 0, made
    topic = Topic(name, made.topics[0].topic_id)
    play.names.topics[topic.id] = "id of orders"
    for number, node_id in enumerate(NODES):
        request = produce_request((topic, number, batch()))
        play.until(
            lambda request=request, node_id=node_id: (  # type: ignore[misc]
                play.ask(request, 9, at(node_id)).responses[0].partition_responses[0].error_code == 0
            )
        )
    for node_id in NODES:
        play.until(lambda node_id=node_id: _leader(play, name, 2, node_id) == 3)  # type: ignore[misc]
    return topic


@session(setup=BROKERS, version=range(7))
def a_coordinator_is_found_at_every_broker(play: Play, version: int) -> None:
    coordinated(play)
    for node_id in NODES:
        request = FindCoordinatorRequest(key=play.group, coordinator_keys=[play.group])
        play.ask(request, version, at(node_id))


def _asked_of_groups(play: Play, topic: Topic) -> list[tuple[Any, int]]:
    group = play.group
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10000,
        rebalance_timeout_ms=10000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    sync = SyncGroupRequest(group_id=group, generation_id=1, member_id="m", assignments=[])
    fetched = OffsetFetchRequestTopic(name=topic.name, partition_indexes=[0])
    of_group = OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(name=topic.name, partition_indexes=[0])]
    )
    deleted = OffsetDeleteRequestTopic(
        name=topic.name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )
    commit = commit_request(group, {(topic.name, 0): 1})
    return [
        *((join, version) for version in (0, 4, 9)),
        *((sync, version) for version in (0, 5)),
        *((HeartbeatRequest(group_id=group, generation_id=1, member_id="m"), version) for version in (0, 4)),
        (LeaveGroupRequest(group_id=group, member_id="m"), 2),
        (LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="m")]), 5),
        *((commit, version) for version in (2, 9)),
        *((OffsetFetchRequest(group_id=group, topics=[fetched]), version) for version in (1, 5)),
        (OffsetFetchRequest(groups=[of_group]), 8),
        (OffsetDeleteRequest(group_id=group, topics=[deleted]), 0),
        *((DescribeGroupsRequest(groups=[group]), version) for version in (0, 6)),
        (ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False), 1),
        *((DeleteGroupsRequest(groups_names=[group]), version) for version in (0, 2)),
    ]


@session(setup=BROKERS, node=(1, 3))
def groups_at_another_broker(play: Play, node: int) -> None:
    topic = led(play)
    coordinated(play)
    with play.quietly():
        play.ask(commit_request(play.group, {(topic.name, 0): 1}), 8, at(COORDINATOR))
    for request, version in _asked_of_groups(play, topic):
        play.ask(request, version, at(node))
    for node_id in NODES:
        play.until(lambda node_id=node_id: play.ask(ListGroupsRequest(), 4, at(node_id)).error_code == 0)  # type: ignore[misc]
        play.ask(ListGroupsRequest(), 4, at(node_id), own=True)


@session(setup=BROKERS)
def a_group_goes_on_at_another_coordinator(play: Play) -> None:
    topic = led(play)
    coordinated(play)
    with play.quietly():
        play.ask(commit_request(play.group, {(topic.name, 0): 7}), 8, at(COORDINATOR))
    coordinated(play, 3)
    fetched = OffsetFetchRequestTopic(name=topic.name, partition_indexes=[0])
    for node_id in NODES:
        play.ask(FindCoordinatorRequest(key=play.group), 3, at(node_id))
        play.ask(OffsetFetchRequest(group_id=play.group, topics=[fetched]), 5, at(node_id))


def _list_offsets(topic: Topic, epoch: int = -1) -> ListOffsetsRequest:
    part = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=[part])])


def _end_of_epoch(topic: Topic, epoch: int = -1) -> OffsetForLeaderEpochRequest:
    part = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic.name, partitions=[part])])


def _fetch(topic: Topic, epoch: int = -1) -> FetchRequest:
    part = FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=100_000
    )
    topics = [FetchTopic(topic=topic.name, topic_id=topic.id, partitions=[part])]
    return FetchRequest(max_wait_ms=0, min_bytes=0, session_id=0, session_epoch=-1, topics=topics)


@session(setup=BROKERS)
def epochs_after_a_move(play: Play) -> None:
    """Told are errors alone: how far the epoch has risen is the broker's own."""
    topic = led(play)
    place(play, topic.name, 0, [2])
    with play.quietly():
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)])
        [found] = play.ask(request, 9, at(2)).topics
        [epoch] = [each.leader_epoch for each in found.partitions if each.partition_index == 0]
        errors = {}
        for note, asked in (("before", epoch - 1), ("now", epoch), ("to come", epoch + 1)):
            for node_id in (1, 2):
                fetched = play.ask(_fetch(topic, asked), 11, at(node_id)).responses[0].partitions[0]
                listed = play.ask(_list_offsets(topic, asked), 5, at(node_id)).topics[0].partitions[0]
                ended = play.ask(_end_of_epoch(topic, asked), 4, at(node_id)).topics[0].partitions[0]
                errors[f"{note} at {node_id}"] = [fetched.error_code, listed.error_code, ended.error_code]
    play.tell("the errors of Fetch, ListOffsets and OffsetForLeaderEpoch", {**errors})


@session(setup=BROKERS, node=(1, 2))
def records_at_every_broker(play: Play, node: int) -> None:
    topic = led(play)
    for version in (3, 9, 10, 12):
        play.ask(produce_request((topic, 0, batch())), version, at(node))
    for version in (4, 11, 12, 13, 18):
        play.ask(_fetch(topic), version, at(node))
    play.ask(_list_offsets(topic), 5, at(node))
    play.ask(_end_of_epoch(topic), 4, at(node))
    part = DeleteRecordsPartition(partition_index=0, offset=0)
    deletion = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic.name, partitions=[part])], timeout_ms=1000
    )
    play.ask(deletion, 2, at(node))


@session(setup=BROKERS)
def the_cluster_is_described_by_every_broker(play: Play) -> None:
    topic = led(play)
    for node_id in NODES:
        metadata = play.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)]), 12, at(node_id))
        assert metadata.controller_id in NODES
        play.ask(DescribeClusterRequest(include_cluster_authorized_operations=False), 0, at(node_id))
        play.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic.name)]), 0, at(node_id))


@session(setup=BROKERS)
def a_leader_is_elected_among_several(play: Play) -> None:
    number = coordinated(play, 1)
    place(play, OFFSETS, number, [1, 2, 3])
    play.ask(elect((OFFSETS, [number])), 2, at(3), note="who leads already")
    play.ask(reassign((OFFSETS, number, [3, 1, 2])), 1, at(2), note="another order")
    play.until(lambda: not _underway(play, OFFSETS, number))
    with play.quietly():
        leader = _leader(play, OFFSETS, number, 1)
    play.tell("the leader stays", leader)
    play.ask(elect((OFFSETS, [number]), election_type=1), 2, at(3), note="an unclean one")
    play.ask(elect((OFFSETS, [number])), 2, at(3), note="the preferred one")
    play.until(lambda: _leader(play, OFFSETS, number, 1) == 3)
    play.ask(
        reassign((OFFSETS, number, [2, 3]), changes_count=False), 1, at(1), note="fewer, which may not be"
    )
