"""OffsetCommit: store how far a group has come.

Source: Kafka's OffsetMetadataManager.commitOffset.
"""

from functools import partial
from typing import Final

from coordinator.group.events import OffsetsCommitted
from coordinator.group.group import ACCEPTED
from coordinator.group.groups import Groups
from coordinator.group.offsets.commit_form import PLAIN
from coordinator.group.offsets.mixed_commits import check_plain
from coordinator.group.offsets.new_offsets import (
    is_refused,
    missing_group_verdict,
    new_offsets,
    simple_group,
    tell_too_long,
)
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.kinds import ZERO_UUID
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from protocol.records import OffsetCommitValue

GROUP_ID_NOT_FOUND_VERSION: Final = 9
TIMESTAMPS_UNTIL: Final = 1
NOT_GIVEN: Final = -1
NO_LEADER_EPOCH: Final = -1


def offset_commit(groups: Groups, request: OffsetCommitRequest, context: Context, turn: Turn) -> None:
    """Answer an OffsetCommit with an OffsetCommitResponse: an error that concerns the group stands on each
    of its partitions. Topics come by name, with their id where it is known, and are known to exist."""
    group = groups.find(request.group_id)
    if group is None:
        verdict = missing_group_verdict(request, context, GROUP_ID_NOT_FOUND_VERSION)
    else:
        verdict = group.commit_verdict(request, context.api_version)
    if verdict is not ACCEPTED and is_refused(groups, group, request, context, verdict, turn):
        return
    if group is not None:
        group.heard(request.member_id, turn)
    adjust = None
    if request.retention_time_ms != NOT_GIVEN or context.api_version <= TIMESTAMPS_UNTIL:
        adjust = partial(_as_chosen, turn.now.wall_ms, request.retention_time_ms)
    new = new_offsets(groups, group, request, context, PLAIN, adjust, turn)
    if new is None:
        return
    records, response, too_long = new
    if group is None:
        group = simple_group(groups, request.group_id, turn)
    if records:
        if request.generation_id_or_member_epoch < 0:
            places = [(record.key.group, record.key.topic, record.key.partition) for record in records]
            groups.commit_kinds.committed_externally(group.group_id, places, turn.now.wall_ms)
        elif groups.durable.offsets.pending.by_producer or groups.commit_kinds.transactional:
            check_plain(groups, request, records, turn)
        for record in records:
            turn.write(record)
        turn.tell(OffsetsCommitted(group.group_id, request.member_id, len(records)))
    if too_long:
        tell_too_long(groups, group, request, context, too_long, turn)
    turn.reply(context.waiter, response)


def _as_chosen(
    now_ms: int, retention_time_ms: int, value: OffsetCommitValue, partition: OffsetCommitRequestPartition
) -> None:
    """The client chose the time of the commit (v1) or how long it counts (v2 to v4). A value with an expire
    timestamp has neither leader epoch nor topic id."""
    if partition.commit_timestamp != NOT_GIVEN:
        value.commit_timestamp = partition.commit_timestamp
    if retention_time_ms != NOT_GIVEN:
        value.expire_timestamp = now_ms + retention_time_ms
        value.leader_epoch, value.topic_id = NO_LEADER_EPOCH, ZERO_UUID
