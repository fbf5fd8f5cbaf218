"""The range assignor: of each topic every subscriber gets one run of partitions. Source: Kafka's `RangeAssignor`.

It is not sticky, and asks neither for racks nor for what members had. Members come by instance id, then those
without one by member id: topics with as many partitions are divided alike, so equal partitions of them go to one
member.
"""

from coordinator.group.modern.assignors.assignor import Assignment, GroupSpec, MemberSpec, old_where_equal
from coordinator.group.modern.java_order import HashOrder, mixed_id, room_for


def assign_range(group: GroupSpec) -> Assignment:
    """The assignment of a group, by topic and subscriber."""
    members = sorted(group.members.values(), key=_place)
    if not members:
        return {}
    given: dict[str, dict[bytes, tuple[int, ...]]] = {member.member_id: {} for member in members}
    for topic_id, subscribers in _subscribers(group, members).items():
        _divide(topic_id, group.partitions[topic_id], subscribers, given)
    return {
        member.member_id: old_where_equal(
            member, _in_order(group, member, members[0], given[member.member_id])
        )
        for member in members
    }


def _place(member: MemberSpec) -> tuple[bool, bytes]:
    """Where a member comes in Java's order of strings, which is that of UTF-16 units."""
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")


def _subscribers(group: GroupSpec, members: list[MemberSpec]) -> dict[bytes, list[MemberSpec]]:
    if group.is_homogeneous:
        return dict.fromkeys(members[0].topic_ids, members)
    subscribers: dict[bytes, list[MemberSpec]] = {}
    for member in members:
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(member)
    return subscribers


def _divide(
    topic_id: bytes,
    partitions: int,
    subscribers: list[MemberSpec],
    given: dict[str, dict[bytes, tuple[int, ...]]],
) -> None:
    """Gives each an equal share, the first ones one more as long as there are."""
    share, more = divmod(partitions, len(subscribers))
    start = 0
    for member in subscribers[:partitions]:
        end = start + share + (more > 0)
        more -= 1
        given[member.member_id][topic_id] = tuple(range(start, end))
        start = end


def _in_order(
    group: GroupSpec, member: MemberSpec, first: MemberSpec, given: dict[bytes, tuple[int, ...]]
) -> dict[bytes, tuple[int, ...]]:
    if len(given) < 2:
        return given
    if group.is_homogeneous:
        topic_ids, room = first.topic_ids, room_for(len(first.topic_ids))
    else:
        topic_ids, room = member.topic_ids, room_for(member.subscriptions())
    return {
        topic_id: given[topic_id]
        for topic_id in HashOrder(mixed_id, room, (topic_id for topic_id in topic_ids if topic_id in given))
    }
