"""The end of a group."""

from coordinator.group.durable import DurableState
from coordinator.group.events import GroupDeleted
from coordinator.group.group import Group
from coordinator.group.groups import Groups
from coordinator.group.member_name import MemberName
from coordinator.group.offsets.delete import delete_all_offsets
from coordinator.machine.outcome import Fact
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.records import GroupMetadataKey


def remove_group(
    groups: Groups,
    group: Group,
    reason: str,
    turn: Turn,
    *,
    client: MemberName | None = None,
    expired_offsets: int = 0,
) -> None:
    """Remove a group that may be deleted, with all its offsets. Its tombstones are written even if it never was.

    In: `reason`, the client and the count of expired offsets for GroupDeleted."""
    assert group.delete_error() is ErrorCode.NONE, (group.group_id, group.state_name)
    offsets = delete_all_offsets(groups, group.group_id, turn)
    for fact in (*leftovers(groups.durable, group.group_id), *group.tombstones()):
        turn.write(fact)
    group.end(turn)
    groups.remove(group.group_id)
    turn.tell(GroupDeleted(group.group_id, offsets, reason, expired_offsets=expired_offsets, member=client))


def leftovers(durable: DurableState, group_id: str) -> list[Fact]:
    """Tombstones for what other software left in the log of a group when that became one of another type. They go
    before the group's own: without its records, these would count again."""
    consumer = durable.consumers.get(group_id)
    if consumer is None:
        return []
    if not durable.is_consumer(group_id):
        return list(consumer.tombstones())
    return [] if durable.metadata.get(group_id) is None else [Fact(GroupMetadataKey(group=group_id), None)]
