"""The uniform assignor: as even as can be, and members keep what they have. Source: Kafka's `UniformAssignor`."""

from coordinator.group.modern.assignors.assignor import Assignment, GroupSpec, old_where_equal
from coordinator.group.modern.assignors.uniform_heterogeneous import balance
from coordinator.group.modern.assignors.uniform_homogeneous import share_out


def assign_uniformly(group: GroupSpec) -> Assignment:
    """The assignment of a group. Racks are not looked at."""
    if not any(member.topic_ids for member in group.members.values()):
        return {member_id: old_where_equal(member, {}) for member_id, member in group.members.items()}
    given = share_out(group) if group.is_homogeneous else balance(group)
    return {
        member_id: old_where_equal(group.members[member_id], target) for member_id, target in given.items()
    }
