"""Every type of record of `__consumer_offsets`, those that are not served too. What decodes, encodes, prints or
keeps records asks here.

Source: Kafka's `CoordinatorRecordType`; the schemas are the message definitions of its group-coordinator module.
"""

from typing import Any, Final

from protocol.records.consumer_group import (
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
)
from protocol.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from protocol.records.record_type import RecordType, ServedType
from protocol.records.value_version import first_version, group_metadata_version, offset_version

OFFSET_COMMIT: Final = ServedType(
    1,
    "offset_commit",
    OffsetCommitKey,
    OffsetCommitValue,
    offset_version,
    older_numbers=(0,),  # as written before 0.9
)
GROUP_METADATA: Final = ServedType(
    2, "group_metadata", GroupMetadataKey, GroupMetadataValue, group_metadata_version
)
CONSUMER_GROUP_METADATA: Final = ServedType(
    3, "consumer_group_metadata", ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, first_version
)
CONSUMER_GROUP_PARTITION_METADATA: Final = ServedType(
    4,
    "consumer_group_partition_metadata",
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    first_version,
)
CONSUMER_GROUP_MEMBER_METADATA: Final = ServedType(
    5,
    "consumer_group_member_metadata",
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    first_version,
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Final = ServedType(
    6,
    "consumer_group_target_assignment_metadata",
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    first_version,
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Final = ServedType(
    7,
    "consumer_group_target_assignment_member",
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    first_version,
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Final = ServedType(
    8,
    "consumer_group_current_member_assignment",
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    first_version,
)
CONSUMER_GROUP_REGULAR_EXPRESSION: Final = ServedType(
    16,
    "consumer_group_regular_expression",
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    first_version,
)

RECORD_TYPES: Final[tuple[RecordType, ...]] = (
    OFFSET_COMMIT,
    GROUP_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    RecordType(10, "share_group_member_metadata"),
    RecordType(11, "share_group_metadata"),
    RecordType(12, "share_group_target_assignment_metadata"),
    RecordType(13, "share_group_target_assignment_member"),
    RecordType(14, "share_group_current_member_assignment"),
    RecordType(15, "share_group_state_partition_metadata"),
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    RecordType(17, "streams_group_metadata"),
    RecordType(19, "streams_group_member_metadata"),
    RecordType(20, "streams_group_target_assignment_metadata"),
    RecordType(21, "streams_group_target_assignment_member"),
    RecordType(22, "streams_group_current_member_assignment"),
    RecordType(23, "streams_group_topology"),
)

SERVED_TYPES: Final = tuple(kind for kind in RECORD_TYPES if isinstance(kind, ServedType))

BY_NUMBER: Final[dict[int, RecordType]] = {number: kind for kind in RECORD_TYPES for number in kind.numbers}
BY_KEY: Final[dict[type[Any], ServedType]] = {kind.key: kind for kind in SERVED_TYPES}
"""The served ones by the schema of their keys."""
