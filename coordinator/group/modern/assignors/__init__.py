"""The assignors."""

from collections.abc import Mapping
from typing import Final

from coordinator.group.modern.assignors.assignor import Assignment, Assignor, GroupSpec, MemberSpec


def _range(spec: GroupSpec) -> Assignment:
    made: Assignment = {member_id: {} for member_id in spec.members}
    for topic_id, count in spec.partitions.items():
        members = sorted(m.member_id for m in spec.members.values() if topic_id in m.topic_ids)
        each, more = divmod(count, len(members))
        first = 0
        for index, member_id in enumerate(members):
            size = each + (index < more)
            if size:
                made[member_id][topic_id] = frozenset(range(first, first + size))
            first += size
    return made


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": _range, "range": _range}

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "GroupSpec", "MemberSpec"]
