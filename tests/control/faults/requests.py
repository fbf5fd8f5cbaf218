"""One request of each API of groups, about a group that is Stable with one member, and where its error stands."""

from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.broker.server import Server
from protocol.apis import APIS, ApiKey
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
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
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.broker.harness import heartbeat_request, join_request, sync_request

GROUP = "billing"
TOPIC_IDS_SINCE = 10


class Subject(NamedTuple):
    """A member of the group."""

    server: Server
    member_id: str
    generation_id: int


def _topic_id(subject: Subject, name: str) -> bytes:
    topic = subject.server.data_plane.catalogue.find_topic(name)
    assert topic is not None
    return topic.topic_id


def _join(subject: Subject, version: int) -> JoinGroupRequest:
    return join_request(GROUP, subject.member_id)


def _sync(subject: Subject, version: int) -> Any:
    request = sync_request(GROUP, subject.member_id, subject.generation_id, {subject.member_id: b"all"})
    request.protocol_type, request.protocol_name = "consumer", "range"
    return request


def _leave(subject: Subject, version: int) -> LeaveGroupRequest:
    member = MemberIdentity(member_id=subject.member_id)
    return LeaveGroupRequest(group_id=GROUP, member_id=subject.member_id, members=[member])


def commit(subject: Subject, version: int, partitions: tuple[int, ...] = (0,)) -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in partitions]
    topic = OffsetCommitRequestTopic(name="orders", partitions=parts)
    if version >= TOPIC_IDS_SINCE:
        topic = OffsetCommitRequestTopic(topic_id=_topic_id(subject, "orders"), partitions=parts)
    named = version >= 1
    return OffsetCommitRequest(
        group_id=GROUP,
        member_id=subject.member_id if named else "",
        generation_id_or_member_epoch=subject.generation_id if named else -1,
        topics=[topic],
    )


def fetch(subject: Subject, version: int, partitions: tuple[int, ...] = (0,)) -> OffsetFetchRequest:
    indexes = list(partitions)
    if version < 8:
        return OffsetFetchRequest(
            group_id=GROUP, topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=indexes)]
        )
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=indexes)
    if version >= TOPIC_IDS_SINCE:
        topic = OffsetFetchRequestTopics(topic_id=_topic_id(subject, "orders"), partition_indexes=indexes)
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])])


def _offset_delete(subject: Subject, version: int) -> OffsetDeleteRequest:
    part = OffsetDeleteRequestPartition(partition_index=0)
    return OffsetDeleteRequest(
        group_id=GROUP, topics=[OffsetDeleteRequestTopic(name="orders", partitions=[part])]
    )


REQUESTS: dict[ApiKey, Callable[[Subject, int], Any]] = {
    ApiKey.JOIN_GROUP: _join,
    ApiKey.SYNC_GROUP: _sync,
    ApiKey.HEARTBEAT: lambda subject, _: heartbeat_request(GROUP, subject.member_id, subject.generation_id),
    ApiKey.LEAVE_GROUP: _leave,
    ApiKey.OFFSET_COMMIT: commit,
    ApiKey.OFFSET_FETCH: fetch,
    ApiKey.FIND_COORDINATOR: lambda _, __: FindCoordinatorRequest(key=GROUP, coordinator_keys=[GROUP]),
    ApiKey.DESCRIBE_GROUPS: lambda _, __: DescribeGroupsRequest(groups=[GROUP]),
    ApiKey.LIST_GROUPS: lambda _, __: ListGroupsRequest(),
    ApiKey.DELETE_GROUPS: lambda _, __: DeleteGroupsRequest(groups_names=[GROUP]),
    ApiKey.OFFSET_DELETE: _offset_delete,
}
CASES = [
    (key, version)
    for key in REQUESTS
    for version in dict.fromkeys((APIS[key].versions.first, APIS[key].versions.last))
]
NAMES = [f"{APIS[key].name}-v{version}" for key, version in CASES]


def errors_of(key: ApiKey, answer: Any) -> list[int]:
    """The errors of an answer, wherever Kafka puts them for one group and one partition."""
    if key is ApiKey.OFFSET_COMMIT:
        return [part.error_code for topic in answer.topics for part in topic.partitions]
    if key is ApiKey.OFFSET_FETCH and answer.groups:
        return [group.error_code for group in answer.groups]
    if key is ApiKey.OFFSET_FETCH and not answer.error_code:
        return [part.error_code for topic in answer.topics for part in topic.partitions]
    if key is ApiKey.FIND_COORDINATOR and answer.coordinators:
        return [entry.error_code for entry in answer.coordinators]
    if key is ApiKey.DESCRIBE_GROUPS:
        return [group.error_code for group in answer.groups]
    if key is ApiKey.DELETE_GROUPS:
        return [result.error_code for result in answer.results]
    return [answer.error_code]
