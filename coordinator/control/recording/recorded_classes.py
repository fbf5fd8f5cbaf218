"""The classes of values in recordings, and the tags that recordings have for them.

Users keep recordings: a tag stays when its class is renamed or moved. A class without a tag cannot be recorded, and
a recording cannot create instances of it.
"""

from collections.abc import Mapping
from typing import Any, Final

from coordinator.core.outcome import (
    Context,
    Fact,
    Message,
    Now,
    Outcome,
    TransactionMarker,
    TransactionOwner,
    Work,
    WorkDone,
)
from coordinator.core.shared_types import LogFlush, Node, SecurityProtocol
from coordinator.core.wire_name import classes_by_wire_name
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_member import ClassicMember, InitialJoin, OpenRebalance, PendingMember
from coordinator.group.classic.classic_state_machine import ClassicGroupState
from coordinator.group.consumer.consumer_group import MemberSession
from coordinator.group.consumer.consumer_member import ConsumerMember, MemberState, ResolvedRegex
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup
from coordinator.group.consumer.regex_resolution import RegexWork
from coordinator.group.consumer.target_assignment import (
    MemberInput,
    PendingTarget,
    TargetInput,
    TargetWork,
)
from coordinator.group.event_details import (
    AwaitedMember,
    AwaitedRequest,
    Departure,
    DepartureCause,
    GenerationDiffers,
    GroupFull,
    MemberAssignment,
    MemberIdTooLong,
    MemberName,
    MetadataTooLong,
    ProtocolsDiffer,
    RebalanceCause,
    RecordsTooLarge,
    RefusedOffset,
    SessionTimeoutOutOfRange,
    Trigger,
)
from coordinator.group.group_event_types import (
    EpochCause,
    FenceCause,
    GroupEvent,
    MemberTarget,
    SkippedOffset,
    TopicChange,
)
from coordinator.group.group_export import DurableGroupState, ExportedGroup, SoftGroupState
from coordinator.group.group_requests import (
    CommandResult,
    EndTransaction,
    ExpiredOffsets,
    ExpireMember,
    ExpireOffsets,
    ExtendSessions,
    FetchOffsets,
    GroupConfigsChanged,
    GroupTimerKey,
    GroupTimerKind,
    ShiftDeadlines,
    TopicsChanged,
)
from coordinator.group.group_types import GroupType
from coordinator.group.modern.java_order import TimelineOrder
from coordinator.group.modern.partition_assignors import GroupSpec, MemberSpec
from coordinator.group.topics_image import TopicImage, TopicsImage
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.records.group_record_schemas import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    PartitionRacks,
    TargetTopicPartitions,
    TopicMetadata,
)

_GROUPS: Final[dict[str, type[Any]]] = {
    "assignor.GroupSpec": GroupSpec,
    "assignor.MemberSpec": MemberSpec,
    "awaited_target.AwaitedTarget": PendingTarget,
    "cut.Cut": ExportedGroup,
    "cut.DurableCut": DurableGroupState,
    "cut.SoftCut": SoftGroupState,
    "durable_group.DurableConsumerGroup": DurableConsumerGroup,
    "events.EpochCause": EpochCause,
    "events.FenceCause": FenceCause,
    "events.SkippedOffset": SkippedOffset,
    "events.Targeted": MemberTarget,
    "events.TopicChange": TopicChange,
    "group.ClassicGroup": ClassicGroup,
    "group.InitialJoin": InitialJoin,
    "group.PendingMember": PendingMember,
    "group.Session": MemberSession,
    "group_type.GroupType": GroupType,
    "java_order.TimelineOrder": TimelineOrder,
    "member.ConsumerMember": ConsumerMember,
    "member.Member": ClassicMember,
    "member.MemberState": MemberState,
    "member_name.MemberName": MemberName,
    "names.LogFlush": LogFlush,
    "names.Node": Node,
    "names.SecurityProtocol": SecurityProtocol,
    "open_rebalance.OpenRebalance": OpenRebalance,
    "outcome.Context": Context,
    "outcome.Fact": Fact,
    "outcome.InTransaction": TransactionOwner,
    "outcome.Marker": TransactionMarker,
    "outcome.Message": Message,
    "outcome.Now": Now,
    "outcome.Outcome": Outcome,
    "outcome.Work": Work,
    "outcome.WorkDone": WorkDone,
    "rebalance_facts.Assigned": MemberAssignment,
    "rebalance_facts.Awaited": AwaitedMember,
    "rebalance_facts.AwaitedRequest": AwaitedRequest,
    "rebalance_facts.Departure": Departure,
    "rebalance_facts.DepartureCause": DepartureCause,
    "rebalance_facts.RebalanceCause": RebalanceCause,
    "rebalance_facts.Trigger": Trigger,
    "record.ResolvedRegex": ResolvedRegex,
    "refusal_facts.GenerationDiffers": GenerationDiffers,
    "refusal_facts.GroupFull": GroupFull,
    "refusal_facts.MemberIdTooLong": MemberIdTooLong,
    "refusal_facts.MetadataTooLong": MetadataTooLong,
    "refusal_facts.ProtocolsDiffer": ProtocolsDiffer,
    "refusal_facts.RecordsTooLarge": RecordsTooLarge,
    "refusal_facts.RefusedOffset": RefusedOffset,
    "refusal_facts.SessionTimeoutOutOfRange": SessionTimeoutOutOfRange,
    "regular_expressions.RegexWork": RegexWork,
    "requests.Acted": CommandResult,
    "requests.EndTransaction": EndTransaction,
    "requests.ExpireMember": ExpireMember,
    "requests.ExpireOffsets": ExpireOffsets,
    "requests.FetchOffsets": FetchOffsets,
    "requests.GroupConfigsChanged": GroupConfigsChanged,
    "requests.KeepAlive": ExtendSessions,
    "requests.MoveTimes": ShiftDeadlines,
    "requests.OffsetsGone": ExpiredOffsets,
    "requests.TopicsChanged": TopicsChanged,
    "state.ClassicGroupState": ClassicGroupState,
    "target.MemberInput": MemberInput,
    "target.TargetInput": TargetInput,
    "target.TargetWork": TargetWork,
    "timer_key.TimerKey": GroupTimerKey,
    "timer_key.TimerKind": GroupTimerKind,
    "topics_image.TopicImage": TopicImage,
    "topics_image.TopicsImage": TopicsImage,
}
"""Classes of group state and of groupd's own requests, and classes of values in both."""

_MESSAGES: Final[dict[str, type[Any]]] = {
    "consumer_group_describe.ConsumerGroupDescribeRequest": ConsumerGroupDescribeRequest,
    "consumer_group_describe.ConsumerGroupDescribeResponse": ConsumerGroupDescribeResponse,
    "consumer_group_describe.ConsumerGroupDescribeResponseAssignment": ConsumerGroupDescribeResponseAssignment,
    "consumer_group_describe.ConsumerGroupDescribeResponseGroup": ConsumerGroupDescribeResponseGroup,
    "consumer_group_describe.ConsumerGroupDescribeResponseMember": ConsumerGroupDescribeResponseMember,
    "consumer_group_describe.ConsumerGroupDescribeResponseTopicPartitions": ConsumerGroupDescribeResponseTopicPartitions,  # noqa: E501
    "consumer_group_heartbeat.ConsumerGroupHeartbeatRequest": ConsumerGroupHeartbeatRequest,
    "consumer_group_heartbeat.ConsumerGroupHeartbeatRequestTopicPartitions": ConsumerGroupHeartbeatRequestTopicPartitions,  # noqa: E501
    "consumer_group_heartbeat.ConsumerGroupHeartbeatResponse": ConsumerGroupHeartbeatResponse,
    "consumer_group_heartbeat.ConsumerGroupHeartbeatResponseAssignment": ConsumerGroupHeartbeatResponseAssignment,
    "consumer_group_heartbeat.ConsumerGroupHeartbeatResponseTopicPartitions": ConsumerGroupHeartbeatResponseTopicPartitions,  # noqa: E501
    "delete_groups.DeletableGroupResult": DeletableGroupResult,
    "delete_groups.DeleteGroupsRequest": DeleteGroupsRequest,
    "delete_groups.DeleteGroupsResponse": DeleteGroupsResponse,
    "describe_groups.DescribeGroupsRequest": DescribeGroupsRequest,
    "describe_groups.DescribeGroupsResponse": DescribeGroupsResponse,
    "describe_groups.DescribedGroup": DescribedGroup,
    "describe_groups.DescribedGroupMember": DescribedGroupMember,
    "errors.ErrorCode": ErrorCode,
    "heartbeat.HeartbeatRequest": HeartbeatRequest,
    "heartbeat.HeartbeatResponse": HeartbeatResponse,
    "join_group.JoinGroupRequest": JoinGroupRequest,
    "join_group.JoinGroupRequestProtocol": JoinGroupRequestProtocol,
    "join_group.JoinGroupResponse": JoinGroupResponse,
    "join_group.JoinGroupResponseMember": JoinGroupResponseMember,
    "leave_group.LeaveGroupRequest": LeaveGroupRequest,
    "leave_group.LeaveGroupResponse": LeaveGroupResponse,
    "leave_group.MemberIdentity": MemberIdentity,
    "leave_group.MemberResponse": MemberResponse,
    "list_groups.ListGroupsRequest": ListGroupsRequest,
    "list_groups.ListGroupsResponse": ListGroupsResponse,
    "list_groups.ListedGroup": ListedGroup,
    "offset_commit.OffsetCommitRequest": OffsetCommitRequest,
    "offset_commit.OffsetCommitRequestPartition": OffsetCommitRequestPartition,
    "offset_commit.OffsetCommitRequestTopic": OffsetCommitRequestTopic,
    "offset_commit.OffsetCommitResponse": OffsetCommitResponse,
    "offset_commit.OffsetCommitResponsePartition": OffsetCommitResponsePartition,
    "offset_commit.OffsetCommitResponseTopic": OffsetCommitResponseTopic,
    "offset_delete.OffsetDeleteRequest": OffsetDeleteRequest,
    "offset_delete.OffsetDeleteRequestPartition": OffsetDeleteRequestPartition,
    "offset_delete.OffsetDeleteRequestTopic": OffsetDeleteRequestTopic,
    "offset_delete.OffsetDeleteResponse": OffsetDeleteResponse,
    "offset_delete.OffsetDeleteResponsePartition": OffsetDeleteResponsePartition,
    "offset_delete.OffsetDeleteResponseTopic": OffsetDeleteResponseTopic,
    "offset_fetch.OffsetFetchRequestGroup": OffsetFetchRequestGroup,
    "offset_fetch.OffsetFetchRequestTopics": OffsetFetchRequestTopics,
    "offset_fetch.OffsetFetchResponseGroup": OffsetFetchResponseGroup,
    "offset_fetch.OffsetFetchResponsePartitions": OffsetFetchResponsePartitions,
    "offset_fetch.OffsetFetchResponseTopics": OffsetFetchResponseTopics,
    "sync_group.SyncGroupRequest": SyncGroupRequest,
    "sync_group.SyncGroupRequestAssignment": SyncGroupRequestAssignment,
    "sync_group.SyncGroupResponse": SyncGroupResponse,
    "txn_offset_commit.TxnOffsetCommitRequest": TxnOffsetCommitRequest,
    "txn_offset_commit.TxnOffsetCommitRequestPartition": TxnOffsetCommitRequestPartition,
    "txn_offset_commit.TxnOffsetCommitRequestTopic": TxnOffsetCommitRequestTopic,
    "txn_offset_commit.TxnOffsetCommitResponse": TxnOffsetCommitResponse,
    "txn_offset_commit.TxnOffsetCommitResponsePartition": TxnOffsetCommitResponsePartition,
    "txn_offset_commit.TxnOffsetCommitResponseTopic": TxnOffsetCommitResponseTopic,
}
"""Classes of requests and responses."""

_RECORDS: Final[dict[str, type[Any]]] = {
    "consumer_group.ClassicMemberMetadata": ClassicMemberMetadata,
    "consumer_group.ClassicProtocol": ClassicProtocol,
    "consumer_group.ConsumerGroupCurrentMemberAssignmentKey": ConsumerGroupCurrentMemberAssignmentKey,
    "consumer_group.ConsumerGroupCurrentMemberAssignmentValue": ConsumerGroupCurrentMemberAssignmentValue,
    "consumer_group.ConsumerGroupMemberMetadataKey": ConsumerGroupMemberMetadataKey,
    "consumer_group.ConsumerGroupMemberMetadataValue": ConsumerGroupMemberMetadataValue,
    "consumer_group.ConsumerGroupMetadataKey": ConsumerGroupMetadataKey,
    "consumer_group.ConsumerGroupMetadataValue": ConsumerGroupMetadataValue,
    "consumer_group.ConsumerGroupPartitionMetadataKey": ConsumerGroupPartitionMetadataKey,
    "consumer_group.ConsumerGroupPartitionMetadataValue": ConsumerGroupPartitionMetadataValue,
    "consumer_group.ConsumerGroupRegularExpressionKey": ConsumerGroupRegularExpressionKey,
    "consumer_group.ConsumerGroupRegularExpressionValue": ConsumerGroupRegularExpressionValue,
    "consumer_group.ConsumerGroupTargetAssignmentMemberKey": ConsumerGroupTargetAssignmentMemberKey,
    "consumer_group.ConsumerGroupTargetAssignmentMemberValue": ConsumerGroupTargetAssignmentMemberValue,
    "consumer_group.ConsumerGroupTargetAssignmentMetadataKey": ConsumerGroupTargetAssignmentMetadataKey,
    "consumer_group.ConsumerGroupTargetAssignmentMetadataValue": ConsumerGroupTargetAssignmentMetadataValue,
    "consumer_group.CurrentTopicPartitions": CurrentTopicPartitions,
    "consumer_group.PartitionRacks": PartitionRacks,
    "consumer_group.TargetTopicPartitions": TargetTopicPartitions,
    "consumer_group.TopicMetadata": TopicMetadata,
    "group_metadata.GroupMetadataKey": GroupMetadataKey,
    "group_metadata.GroupMetadataValue": GroupMetadataValue,
    "group_metadata.MemberMetadata": MemberMetadata,
    "offset_commit.OffsetCommitKey": OffsetCommitKey,
    "offset_commit.OffsetCommitValue": OffsetCommitValue,
}
"""Classes of keys and values of records."""

_EVENTS: Final[dict[str, type[Any]]] = {
    f"events.{name}": cls for name, cls in classes_by_wire_name(GroupEvent).items()
}

RECORDED_CLASSES: Final[Mapping[str, type[Any]]] = {**_GROUPS, **_EVENTS, **_MESSAGES, **_RECORDS}

TAGS: Final[Mapping[type[Any], str]] = {cls: tag for tag, cls in RECORDED_CLASSES.items()}


def request_name(cls: type[Any]) -> str:
    """Return the name of a class of requests in the lines of a recording."""
    return TAGS[cls].rpartition(".")[2]
