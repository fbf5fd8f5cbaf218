"""ConsumerGroupDescribe: epochs, members, what they have and what they are to have.

Source: Kafka's ConsumerGroup.asDescribedGroup and GroupMetadataManager.consumerGroupDescribe.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from coordinator.group.admin.describe_groups import ALL_OPERATIONS
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.refusal import fitting
from coordinator.group.consumer.subscription import preferred_assignor
from coordinator.group.groups import Groups
from coordinator.group.topics_image import TopicsImage
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def consumer_group_describe(
    groups: Groups, request: ConsumerGroupDescribeRequest, context: Context, turn: Turn
) -> None:
    """Answer a ConsumerGroupDescribe with a ConsumerGroupDescribeResponse, in the request's order."""
    described = []
    for group_id in request.group_ids:
        group = groups.consumers.get(group_id)
        if not group_id:
            answer = ConsumerGroupDescribeResponseGroup(
                error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id
            )
        elif group is None or group.is_dead:
            is_there = group is None and groups.find(group_id) is not None
            answer = ConsumerGroupDescribeResponseGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=fitting(
                    f"Group {group_id} {'is not a consumer group' if is_there else 'not found'}."
                ),
                group_id=group_id,
            )
        else:
            answer = _describe(group, groups.consumer_config.assignors[0], groups.topics)
            if request.include_authorized_operations:
                answer.authorized_operations = ALL_OPERATIONS
        described.append(answer)
    turn.reply(context.waiter, ConsumerGroupDescribeResponse(groups=described))


def _describe(
    group: ConsumerGroup, default_assignor: str, image: TopicsImage
) -> ConsumerGroupDescribeResponseGroup:
    durable = group.durable
    return ConsumerGroupDescribeResponseGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=durable.epoch,
        assignment_epoch=durable.assignment_epoch,
        assignor_name=preferred_assignor(durable, default_assignor),
        members=[_member(group, member, image) for member in durable.members.values()],
    )


def _member(
    group: ConsumerGroup, member: ConsumerMember, image: TopicsImage
) -> ConsumerGroupDescribeResponseMember:
    has: dict[bytes, list[int]] = {}
    for partitions in (member.assigned, member.pending):
        for topic_id, of_topic in partitions.items():
            has.setdefault(topic_id, []).extend(of_topic)
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(has, image),
        target_assignment=_assignment(group.durable.target_of(member.member_id), image),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(
    partitions: Mapping[bytes, Iterable[int]], image: TopicsImage
) -> ConsumerGroupDescribeResponseAssignment:
    """Topics that are gone are left out."""
    return ConsumerGroupDescribeResponseAssignment(
        topic_partitions=[
            ConsumerGroupDescribeResponseTopicPartitions(
                topic_id=topic_id, topic_name=image.by_id[topic_id].name, partitions=sorted(of_topic)
            )
            for topic_id, of_topic in partitions.items()
            if topic_id in image.by_id
        ]
    )
