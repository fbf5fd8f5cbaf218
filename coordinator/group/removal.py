"""The end of a group."""

from coordinator.group.events import GroupDeleted
from coordinator.group.group import Group
from coordinator.group.groups import Groups
from coordinator.group.offsets.delete import delete_all_offsets
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode


def remove_group(groups: Groups, group: Group, reason: str, turn: Turn) -> None:
    """Remove a group that may be deleted, with all its offsets. Its tombstones are written even if it never was."""
    assert group.delete_error() is ErrorCode.NONE, (group.group_id, group.state_name)
    offsets = delete_all_offsets(groups, group.group_id, turn)
    for fact in group.tombstones():
        turn.write(fact)
    group.end(turn)
    groups.remove(group.group_id)
    turn.tell(GroupDeleted(group.group_id, offsets, reason))
