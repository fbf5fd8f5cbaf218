"""ListGroups, DescribeGroups, ConsumerGroupDescribe, DeleteGroups, and the commands for the clocks of groups."""

from collections.abc import Iterable, Mapping
from typing import Final

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_member import NO_METADATA, ClassicMember
from coordinator.group.classic.classic_state_machine import DEAD, STABLE
from coordinator.group.consumer.consumer_group import ConsumerGroup
from coordinator.group.consumer.consumer_member import ConsumerMember
from coordinator.group.consumer.group_subscription import find_preferred_assignor
from coordinator.group.consumer.heartbeat_validation import truncate_message
from coordinator.group.event_details import MemberName
from coordinator.group.group_requests import CommandResult, ExtendSessions, ShiftDeadlines
from coordinator.group.offsets.offset_removal import remove_group
from coordinator.group.shard_groups import ShardGroups
from coordinator.group.topics_image import TopicsImage
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_entry
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1

GROUP_ID_NOT_FOUND_VERSION: Final = 6

READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11
ALL_OPERATIONS: Final = sum(
    1 << operation for operation in (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
)
"""All operations on groups: a bit for each of Kafka's AclOperations that apply to groups (KIP-430)."""


def list_groups(
    groups: ShardGroups, request: ListGroupsRequest, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer a ListGroups with a ListGroupsResponse. An empty filter passes all groups; an unknown state or type
    matches nothing. Filters ignore case, and blanks around a state.
    """
    states = frozenset(name.strip().lower() for name in request.states_filter)
    types = frozenset(name.lower() for name in request.types_filter)
    listed = []
    for group in groups.by_id.values():
        state = group.state_name
        if (not states or state.lower() in states) and (not types or group.type.lower() in types):
            listed.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=state,
                    group_type=group.type,
                )
            )
    builder.reply(context.waiter, ListGroupsResponse(error_code=ErrorCode.NONE, groups=listed))


def describe_groups(
    groups: ShardGroups, request: DescribeGroupsRequest, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer a DescribeGroups with a DescribeGroupsResponse, in the request's order. A missing group, or one of
    another type, is described as Dead; from v6 on also with an error (KIP-1043).
    """
    described = []
    for group_id in request.groups:
        group = groups.find_typed_group(ClassicGroup, group_id)
        if group is None or group.state is DEAD:
            is_there = group is None and group_id in groups.by_id
            message = f"Group {group_id} {'is not a classic group' if is_there else 'not found'}."
            description = _describe_missing(group_id, message, context.api_version)
        else:
            description = _describe_classic_group(group)
        if request.include_authorized_operations and description.error_code == ErrorCode.NONE:
            description.authorized_operations = ALL_OPERATIONS
        described.append(description)
    builder.reply(context.waiter, DescribeGroupsResponse(groups=described))


def _describe_missing(group_id: str, message: str, api_version: int) -> DescribedGroup:
    is_error = api_version >= GROUP_ID_NOT_FOUND_VERSION
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
        error_message=message if is_error else None,
        group_id=group_id,
        group_state=DEAD.value,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def _describe_classic_group(group: ClassicGroup) -> DescribedGroup:
    """Describe a classic group. Only a Stable group has protocol and metadata: in other states they are about to
    change.
    """
    protocol_name = group.protocol_name if group.state is STABLE else None
    assert group.state is not STABLE or protocol_name is not None, group.group_id
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
        members=[_describe_classic_member(member, protocol_name) for member in group.members.values()],
    )


def _describe_classic_member(member: ClassicMember, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=NO_METADATA if protocol_name is None else member.metadata_for(protocol_name),
        member_assignment=member.assignment,
    )


def consumer_group_describe(
    groups: ShardGroups, request: ConsumerGroupDescribeRequest, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer a ConsumerGroupDescribe with a ConsumerGroupDescribeResponse, in the request's order."""
    described = []
    for group_id in request.group_ids:
        group = groups.find_typed_group(ConsumerGroup, group_id)
        if not group_id:
            answer = build_error_entry(
                ConsumerGroupDescribeResponseGroup,
                group_id,
                context.api_version,
                ErrorCode.INVALID_GROUP_ID,
            )
        elif group is None or group.is_dead:
            is_there = group is None and group_id in groups.by_id
            answer = build_error_entry(
                ConsumerGroupDescribeResponseGroup,
                group_id,
                context.api_version,
                ErrorCode.GROUP_ID_NOT_FOUND,
                truncate_message(
                    f"Group {group_id} {'is not a consumer group' if is_there else 'not found'}."
                ),
            )
        else:
            answer = _describe_consumer_group(group, groups.consumer_config.assignors[0], groups.topics)
            if request.include_authorized_operations:
                answer.authorized_operations = ALL_OPERATIONS
        described.append(answer)
    builder.reply(context.waiter, ConsumerGroupDescribeResponse(groups=described))


def _describe_consumer_group(
    group: ConsumerGroup, default_assignor: str, image: TopicsImage
) -> ConsumerGroupDescribeResponseGroup:
    durable = group.durable
    sorted_names: dict[frozenset[str], list[str]] = {}
    members = []
    for member in durable.members.values():
        names = member.subscribed_topic_names
        if names not in sorted_names:
            sorted_names[names] = image.sort_names(names)
        members.append(_describe_consumer_member(group, member, sorted_names[names], image))
    return ConsumerGroupDescribeResponseGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=durable.epoch,
        assignment_epoch=durable.assignment_epoch,
        assignor_name=find_preferred_assignor(durable, default_assignor),
        members=members,
    )


def _describe_consumer_member(
    group: ConsumerGroup, member: ConsumerMember, sorted_names: list[str], image: TopicsImage
) -> ConsumerGroupDescribeResponseMember:
    owned: Mapping[bytes, Iterable[int]] = member.assigned
    if member.pending:
        owned = {topic_id: list(of_topic) for topic_id, of_topic in member.assigned.items()}
        for topic_id, of_topic in member.pending.items():
            owned[topic_id] = [*owned.get(topic_id, ()), *of_topic]
    described: dict[bytes, ConsumerGroupDescribeResponseTopicPartitions] = {}
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_describe_assignment(owned, image, described),
        target_assignment=_describe_assignment(group.durable.find_target(member.member_id), image, described),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _describe_assignment(
    partitions: Mapping[bytes, Iterable[int]],
    image: TopicsImage,
    described: dict[bytes, ConsumerGroupDescribeResponseTopicPartitions],
) -> ConsumerGroupDescribeResponseAssignment:
    """Describe the partitions of existing topics. `described` caches descriptions by topic id: the assignment and
    the target of most members are equal and share them."""
    topics, find_topic = [], image.by_id.get
    for topic_id, of_topic in partitions.items():
        topic = find_topic(topic_id)
        if topic is None:
            continue
        numbers = sorted(of_topic)
        description = described.get(topic_id)
        if description is None or description.partitions != numbers:
            description = described[topic_id] = ConsumerGroupDescribeResponseTopicPartitions(
                topic_id=topic_id, topic_name=topic.name, partitions=numbers
            )
        topics.append(description)
    return ConsumerGroupDescribeResponseAssignment(topic_partitions=topics)


def delete_groups(
    groups: ShardGroups, request: DeleteGroupsRequest, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer a DeleteGroups with a DeleteGroupsResponse: a result for each distinct id, in their order."""
    client = MemberName("", None, context.client_id, context.client_host)
    results = [
        DeletableGroupResult(group_id=group_id, error_code=_delete_group(groups, group_id, client, builder))
        for group_id in dict.fromkeys(request.groups_names)
    ]
    builder.reply(context.waiter, DeleteGroupsResponse(results=results))


def _delete_group(
    groups: ShardGroups, group_id: str, client: MemberName, builder: OutcomeBuilder
) -> ErrorCode:
    group = groups.by_id.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    error = group.validate_delete()
    if error is ErrorCode.NONE:
        remove_group(groups, group, "request", builder, client=client)
    return error


def extend_sessions(
    groups: ShardGroups, request: ExtendSessions, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer an ExtendSessions with CommandResult."""
    group = groups.by_id.get(request.group_id)
    if group is not None:
        before = dict(group.list_deadlines())
        group.extend_sessions(request.member_ids, request.until_ms, builder)
        after = dict(group.list_deadlines())
        assert before.keys() == after.keys(), group.group_id
        assert all(before[key] <= deadline_ms for key, deadline_ms in after.items()), group.group_id
    builder.reply(context.waiter, CommandResult())


def shift_deadlines(
    groups: ShardGroups, request: ShiftDeadlines, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer a ShiftDeadlines with CommandResult, and arm all timers of the groups again."""
    for group in filter(None, map(groups.by_id.get, request.group_ids)):
        before = dict(group.list_deadlines())
        group.shift_deadlines(request.by_ms, builder)
        after = dict(group.list_deadlines())
        shifted = {key: deadline_ms + request.by_ms for key, deadline_ms in before.items()}
        assert after == shifted, f"{group.group_id}: deadlines that did not move by {request.by_ms} ms"
        for key, deadline_ms in after.items():
            builder.arm_timer(key, deadline_ms)
    builder.reply(context.waiter, CommandResult())
