"""What the records of `__consumer_offsets` are called: Kafka's names by the type that a key begins with.

Source: Kafka's `CoordinatorRecordType`, `ControlRecordType`.
"""

from typing import Final

OFFSET_COMMIT: Final = "offset_commit"
GROUP_METADATA: Final = "group_metadata"
UNKNOWN: Final = "unknown"
CONTROL: Final = "control"
RECORD: Final = "record"
"""Of any other topic."""

NAMES: Final = {
    0: OFFSET_COMMIT,  # as written before 0.9
    1: OFFSET_COMMIT,
    2: GROUP_METADATA,
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
    17: "streams_group_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
}

CONTROL_NAMES: Final = {
    0: "abort",
    1: "commit",
    2: "leader_change",
    3: "snapshot_header",
    4: "snapshot_footer",
    5: "kraft_version",
    6: "kraft_voters",
}

ALL: Final = tuple(dict.fromkeys([*NAMES.values(), UNKNOWN, CONTROL, RECORD]))
