"""Groups in the form of Kafka's admin client, of the consumer protocol and of the classic protocol."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordinator.cli.kafka_tools.cluster_client import ClusterClient, CoordinatorNode, check_error
from coordinator.cli.kafka_tools.offset_requests import TopicPartition
from coordinator.cli.kafka_tools.tool_call import java_map_order
from coordinator.cli.kafka_tools.tool_errors import KafkaError, error_from_code
from protocol.error_codes import ErrorCode

_DEAD: Final = "Dead"
_UNSUPPORTED: Final = "UnsupportedVersionException"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list."""

    group: str
    type: str
    """"Classic" or "Consumer"."""
    state: str


@dataclass(frozen=True, slots=True)
class GroupMemberDescription:
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]
    epoch: int | None = None
    """The member epoch; None in a group with the classic protocol."""
    target: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A group as kafka-consumer-groups describes it."""

    group: str
    state: str
    assignor: str
    coordinator: CoordinatorNode
    members: tuple[GroupMemberDescription, ...]
    epoch: int | None = None
    """The group epoch; None for a group with the classic protocol."""
    target_epoch: int | None = None


def list_groups(
    client: ClusterClient, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """Return the consumer groups of all brokers, in the order of Kafka's tool. Empty `states` and `types` select
    all. Raises KafkaError.
    """
    from protocol.messages.list_groups import ListGroupsRequest

    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    found: dict[str, GroupListing] = {}
    for answer in client.send_to_all_brokers(request).values():
        check_error(answer)
        for each in answer.groups:
            if each.protocol_type in ("", "consumer"):
                type_ = each.group_type.capitalize() or "Classic"
                found[each.group_id] = GroupListing(each.group_id, type_, each.group_state)
    return [found[group] for group in java_map_order(found)]


def describe_group(client: ClusterClient, group: str) -> ConsumerGroupDescription:
    """Return the description of a group. Raises KafkaError, also for a group that does not exist."""
    try:
        described = _describe_modern(client, group)
    except KafkaError as error:
        if error.java_class != _UNSUPPORTED and error.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return _describe_classic(client, group)
    return described


def _read_error_code(answer: Any) -> int:
    return int(answer.groups[0].error_code)


def _describe_modern(client: ClusterClient, group: str) -> ConsumerGroupDescription:
    from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    (found,) = client.send_to_coordinator(group, request, _read_error_code).groups
    check_error(found)
    return ConsumerGroupDescription(
        group,
        found.group_state,
        found.assignor_name,
        client.find_coordinator(group),
        tuple(
            GroupMemberDescription(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                _flatten(each.assignment.topic_partitions, "topic_name"),
                each.member_epoch,
                _flatten(each.target_assignment.topic_partitions, "topic_name"),
            )
            for each in found.members
        ),
        found.group_epoch,
        found.assignment_epoch,
    )


def _describe_classic(client: ClusterClient, group: str) -> ConsumerGroupDescription:
    from protocol.messages.describe_groups import DescribeGroupsRequest

    (found,) = client.send_to_coordinator(
        group, DescribeGroupsRequest(groups=[group]), _read_error_code
    ).groups
    check_error(found)
    if found.group_state == _DEAD:
        raise error_from_code(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group} not found.")
    return ConsumerGroupDescription(
        group,
        found.group_state,
        found.protocol_data,
        client.find_coordinator(group),
        tuple(
            GroupMemberDescription(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                _decode_assignment(each.member_assignment),
            )
            for each in found.members
        ),
    )


def _decode_assignment(assignment: bytes) -> tuple[TopicPartition, ...]:
    if not assignment:
        return ()
    from protocol.consumer_protocol import decode_assignment

    return _flatten(decode_assignment(assignment).assigned_partitions, "topic")


def _flatten(topics: Iterable[Any], name: str) -> tuple[TopicPartition, ...]:
    return tuple((getattr(topic, name), partition) for topic in topics for partition in topic.partitions)
