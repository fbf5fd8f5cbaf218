"""The uniform assignor where all members subscribe to the same topics.

Source: Kafka's `UniformHomogeneousAssignmentBuilder`.
"""

from collections import deque
from typing import TypeAlias

from coordinator.group.modern.assignors.assignor import GroupSpec, MemberSpec, Partitions
from coordinator.group.modern.assignors.target import Target
from coordinator.group.modern.java_order import (
    SMALLEST_TABLE,
    HashOrder,
    mixed_id,
    ordered_partitions,
    room_of_copy,
)

Free: TypeAlias = deque[tuple[bytes, int]]


def share_out(group: GroupSpec) -> dict[str, Partitions]:
    """What each member gets: all of them as much, some of them one more. Those that have too much give it up, in
    the order of members; those that have too little get what is free, in the same order."""
    members = group.in_order()
    topic_ids = _topics(members[0])
    share, extras = divmod(sum(group.partitions[topic_id] for topic_id in topic_ids), len(members))
    free = _free(group, topic_ids)
    targets: dict[str, Target] = {}
    unfilled: list[tuple[Target, int]] = []
    for index, member in enumerate(members):
        target = targets[member.member_id] = Target(member.assigned)
        extra = extras > 0
        lacking = _keep(target, share + extra, topic_ids, free)
        # Later members may already have one more: they are left the extras, as long as there are enough members.
        if lacking and extra and len(members) - index > extras:
            lacking, extra = lacking - 1, False
        extras -= extra
        if lacking:
            unfilled.append((target, lacking))
    for target, lacking in unfilled:
        for _ in range(min(lacking, len(free))):
            topic_id, partition = free.popleft()
            target.add(topic_id, partition, SMALLEST_TABLE)
    return {member_id: target.result() for member_id, target in targets.items()}


def _topics(member: MemberSpec) -> HashOrder[bytes]:
    return HashOrder(mixed_id, room_of_copy(member.subscriptions()), member.topic_ids)


def _free(group: GroupSpec, topic_ids: HashOrder[bytes]) -> Free:
    """What is in nobody's old target, by topic and number."""
    taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in topic_ids}
    for member in group.members.values():
        for topic_id, partitions in member.assigned.items():
            if topic_id in taken:
                taken[topic_id].update(partitions)
    return deque(
        (topic_id, partition)
        for topic_id in topic_ids
        for partition in range(group.partitions[topic_id])
        if partition not in taken[topic_id]
    )


def _keep(target: Target, quota: int, topic_ids: HashOrder[bytes], free: Free) -> int:
    """Leaves a member of its old target what fits into its quota; the rest is free, behind what was. How many the
    quota lacks then."""
    for topic_id, partitions in target.topics():
        if topic_id not in topic_ids:
            target.drop(topic_id)
        elif len(partitions) <= quota:
            quota -= len(partitions)
        else:
            for partition in ordered_partitions(partitions)[quota:]:
                target.remove(topic_id, partition)
                free.append((topic_id, partition))
            quota = 0
    return quota
