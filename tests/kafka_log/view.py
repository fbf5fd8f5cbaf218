"""The groups of a broker as JSON data, read from Kafka and from groupd by the same requests.

The generation of a group is not in any description. A member's heartbeat tells it, as every other generation is
refused.
"""

from typing import Any, Final

from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponseAssignment,
)
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_groups import DescribedGroupMember, DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.kafka_log.connection import Connection

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
OFFSETS_KEPT_BY: Final = (CLASSIC, CONSUMER)
"""Types of groups that keep committed offsets; groupd serves these."""
MAX_GENERATION: Final = 60
TOPIC: Final = 2
"""Type of a resource that has properties."""
TOPIC_CONFIG: Final = 1
"""Source of a property: set on the topic."""

View = dict[str, Any]


def view(connection: Connection) -> View:
    """Every group: its type, committed offsets and, of a classic one, state, protocol, generation and members; of a
    consumer group state, epochs, assignor and members.
    """
    listed = connection.call(ListGroupsRequest(), 5)
    assert listed.error_code == 0, listed
    return {group.group_id: _group(connection, group) for group in sorted(listed.groups, key=_group_id)}


def _group_id(group: ListedGroup) -> str:
    return group.group_id


def _group(connection: Connection, listed: ListedGroup) -> View:
    kind = listed.group_type.lower()
    seen: View = {"type": kind}
    if kind in OFFSETS_KEPT_BY:
        seen["offsets"] = offsets(connection, listed.group_id)
    if kind == CLASSIC:
        seen |= _describe(connection, listed.group_id)
    elif kind == CONSUMER:
        seen |= describe_consumer_group(connection, listed.group_id)
    return seen


def offsets(connection: Connection, group_id: str) -> dict[str, list[int | str]]:
    """Committed offset, leader epoch and metadata by `topic-partition`, as far as they are final."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    (group,) = connection.call(request, 9).groups
    assert group.error_code == 0, group
    return {
        f"{topic.name}-{part.partition_index}": [
            part.committed_offset,
            part.committed_leader_epoch,
            part.metadata or "",
        ]
        for topic in sorted(group.topics, key=lambda topic: str(topic.name))
        for part in sorted(topic.partitions, key=lambda part: int(part.partition_index))
    }


def topics(connection: Connection) -> View:
    """Every topic: how many partitions, and its own properties."""
    metadata = connection.call(MetadataRequest(topics=None), 12)
    names = sorted(topic.name for topic in metadata.topics)
    resources = [DescribeConfigsResource(resource_type=TOPIC, resource_name=name) for name in names]
    described = connection.call(DescribeConfigsRequest(resources=resources), 4)
    counts = {topic.name: len(topic.partitions) for topic in metadata.topics}
    return {
        result.resource_name: {
            "partitions": counts[result.resource_name],
            "configs": {
                entry.name: entry.value for entry in result.configs if entry.config_source == TOPIC_CONFIG
            },
        }
        for result in described.results
    }


def _describe(connection: Connection, group_id: str) -> View:
    (group,) = connection.call(DescribeGroupsRequest(groups=[group_id]), 5).groups
    assert group.error_code == 0, group
    return {
        "state": group.group_state,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_data,
        "members": {
            member.member_id: {
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "subscription": member.member_metadata.hex(),
                "assignment": member.member_assignment.hex(),
                "generation": generation(connection, group_id, member),
            }
            for member in sorted(group.members, key=lambda member: str(member.member_id))
        },
    }


def generation(connection: Connection, group_id: str, member: DescribedGroupMember) -> int:
    """The one generation in which a heartbeat of this member is accepted."""
    for number in range(MAX_GENERATION):
        request = HeartbeatRequest(
            group_id=group_id,
            generation_id=number,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
        )
        code = connection.call(request, 3).error_code
        if code == 0:
            return number
        assert code == ErrorCode.ILLEGAL_GENERATION, (group_id, number, code)
    raise AssertionError(f"{group_id} is in no generation below {MAX_GENERATION}")


def describe_consumer_group(connection: Connection, group_id: str) -> View:
    """The ConsumerGroupDescribe response about a group: its epochs are its own and that of its target."""
    request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    (group,) = connection.call(request, 1).groups
    assert group.error_code == 0, group
    return {
        "state": group.group_state,
        "epochs": [group.group_epoch, group.assignment_epoch],
        "assignor": group.assignor_name,
        "members": {
            member.member_id: {
                "group_instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "epoch": member.member_epoch,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "topics": sorted(member.subscribed_topic_names),
                "regex": member.subscribed_topic_regex,
                "assignment": _partitions(member.assignment),
                "target": _partitions(member.target_assignment),
                "member_type": member.member_type,
            }
            for member in sorted(group.members, key=lambda member: str(member.member_id))
        },
    }


def _partitions(assignment: ConsumerGroupDescribeResponseAssignment) -> dict[str, list[int]]:
    """By topic."""
    return {
        topic.topic_name: sorted(topic.partitions)
        for topic in sorted(assignment.topic_partitions, key=lambda topic: topic.topic_name)
    }
