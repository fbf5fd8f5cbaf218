"""The target that a member is to go to: the last one, or a new one where that is due.

Source: Kafka's GroupMetadataManager, maybeUpdateTargetAssignment.
"""

from coordinator.group.consumer.draft import Draft
from coordinator.group.consumer.events import TargetComputed, Targeted
from coordinator.group.consumer.member import ConsumerMember, Target
from coordinator.group.consumer.record import assignment_epoch_record, target_record
from coordinator.group.consumer.refusal import Refusal
from coordinator.group.consumer.subscription import Subscription, preferred_assignor_with
from coordinator.group.consumer.target import (
    AwaitsTarget,
    Change,
    Computed,
    TargetWork,
    compute_target,
    group_spec,
    is_small,
    may_compute,
    moved_partitions,
)
from coordinator.group.consumer.who import Who
from coordinator.group.groups import Groups
from coordinator.group.modern.assignors.assignor import Assignment
from coordinator.machine.outcome import Now
from protocol.errors import ErrorCode


def target_for(
    groups: Groups,
    draft: Draft,
    who: Who,
    updated: ConsumerMember,
    computed: Computed | None,
    now: Now,
) -> tuple[int, Target]:
    """The target that the member is to go to, with its epoch: a new one where that is due."""
    group, known = draft.group, who.known
    last = group.target_of(updated.member_id if known is None else known.member_id)
    interval_ms = groups.consumer_times(group.group_id).assignment_interval_ms
    is_due = group.assignment_epoch < draft.epoch
    if not is_due or not may_compute(group.assignment_timestamp_ms, interval_ms, now.wall_ms):
        return group.assignment_epoch, last
    replaced = None if known is None or known.member_id == updated.member_id else known.member_id
    change = Change(known, updated, replaced)
    is_homogeneous = draft.is_homogeneous
    if is_homogeneous is None:
        is_homogeneous = Subscription(group).is_homogeneous
    assignors = groups.consumer_config.assignors
    assignor = preferred_assignor_with(group, known, updated, assignors[0])
    if assignor not in assignors:
        # Members name one that a broker with other properties had. Kafka fails to find it.
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    work = TargetWork(
        group.group_id,
        assignor,
        group_spec(group, change, is_homogeneous, groups.topics),
    )
    assignment = _assignment_of(work, computed, draft.epoch)
    moved = 0
    targets: list[Targeted] = []
    for member_id, spec in work.spec.members.items():
        target = assignment[member_id]
        moved += moved_partitions(target, spec.assigned)
        member = updated if member_id == updated.member_id else group.members[member_id]
        targets.append(Targeted(member.name, spec.assigned, target))
        # Who takes another's place has no target of its own yet, so that its record is written again.
        if target != group.targets.get(member_id):
            draft.facts.append(target_record(group.group_id, member_id, target))
    draft.facts.append(assignment_epoch_record(group.group_id, draft.epoch, now.wall_ms))
    draft.events.append(
        TargetComputed(
            group.group_id,
            draft.epoch,
            assignor=assignor,
            members=len(work.spec.members),
            partitions=sum(work.spec.partitions.values()),
            moved=moved,
            targets=tuple(targets),
        )
    )
    return draft.epoch, assignment[updated.member_id]


def _assignment_of(work: TargetWork, computed: Computed | None, epoch: int) -> Assignment:
    if computed is not None and computed.is_for(work):
        if computed.assignment is None:
            message = f"Failed to compute a new target assignment for epoch {epoch}: {computed.error}"
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        return computed.assignment
    if not is_small(work.spec):
        raise AwaitsTarget(work)
    return compute_target(work)
