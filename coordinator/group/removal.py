"""The end of a group."""

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.record import group_tombstone
from coordinator.group.classic.session import forget_pending
from coordinator.group.events import GroupDeleted
from coordinator.group.groups import Groups
from coordinator.group.offsets.delete import delete_all_offsets
from coordinator.group.state import DEAD, EMPTY
from coordinator.machine.turn import Turn


def remove_group(groups: Groups, group: ClassicGroup, reason: str, turn: Turn) -> None:
    """Remove an empty group with all its offsets. The tombstone is written even if no metadata was."""
    assert group.state is EMPTY, group.state
    assert not group.members, list(group.members)
    offsets = delete_all_offsets(groups, group.group_id, turn)
    turn.write(group_tombstone(group))
    for member_id in list(group.pending_members):
        forget_pending(group, member_id, turn)
    group.transition_to(DEAD, turn.now.wall_ms)
    groups.remove(group.group_id)
    turn.tell(GroupDeleted(group.group_id, offsets, reason))
