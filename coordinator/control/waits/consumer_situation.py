"""What a consumer group (KIP-848) is doing now: who has yet to give up what, who waits for whom, and what would end
that. In sentences to be printed as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from coordinator.control.waits.labels import ranges, seconds, some
from coordinator.control.waits.sight import GroupSight
from coordinator.group.consumer.state import ConsumerGroupState
from coordinator.group.view import ConsumerMemberView, GroupView, MemberView

_MOST: Final = 5
"""Members of whom it is said what they do."""
_ASSIGNING: Final = ConsumerGroupState.ASSIGNING.value


def consumer_situation(sight: GroupSight, view: GroupView) -> str:
    """Of a group that is neither Stable nor Empty; the first sentence begins with its name."""
    count = len(view.members)
    who = sight.labels.all(member.name for member in view.members)
    members = f"{count} member{'' if count == 1 else 's'} ({who})"
    said = [f"{sight.name} is {view.state} in epoch {view.generation_id} with {members}."]
    if view.state == _ASSIGNING:
        said.append(
            f"Its target assignment is still that of epoch {view.assignment_epoch}: a heartbeat of a member has "
            f"the next one computed, once group.consumer.assignment.interval.ms is over since the last."
        )
    behind = list(_behind(sight, view))
    said += behind[:_MOST]
    if len(behind) > _MOST:
        said.append(f"So it is with {len(behind) - _MOST} more.")
    return " ".join(said)


def _behind(sight: GroupSight, view: GroupView) -> Iterator[str]:
    """Who has to give something up first, since others wait for that; then who waits, then who is yet to hear."""
    members = [(member, member.consumer) for member in view.members if member.consumer is not None]
    for member, consumer in members:
        if consumer.pending:
            yield _revoking(sight, member, consumer)
    for member, consumer in members:
        missing = _missing(consumer)
        if missing and not consumer.pending:
            yield _waiting(sight, member, missing)
    for member, consumer in members:
        if consumer.member_epoch != view.assignment_epoch and not consumer.pending and not _missing(consumer):
            yield (
                f"{sight.labels.of(member.name)} is in epoch {consumer.member_epoch} until its next heartbeat "
                f"({_heard(sight, member)})."
            )


def _revoking(sight: GroupSight, member: MemberView, consumer: ConsumerMemberView) -> str:
    what = _named(consumer.pending)
    end = f"its session ends in {seconds(member.session_left_ms)}"
    if consumer.revokes_left_ms is not None:
        end = f"in {seconds(consumer.revokes_left_ms)} it would be fenced"
    return f"{sight.labels.of(member.name)} has yet to give up {what} ({_heard(sight, member)}); {end}."


def _waiting(sight: GroupSight, member: MemberView, missing: Mapping[str, Sequence[int]]) -> str:
    owners = {
        sight.labels.of(owner.name): None
        for topic, numbers in missing.items()
        for number in numbers
        for owner in sight.owners.get((topic, number), ())
    }
    label = sight.labels.of(member.name)
    if owners:
        return f"{label} waits for {_named(missing)} of {some(list(owners), _MOST)}."
    return f"{label} is to get {_named(missing)} with its next heartbeat ({_heard(sight, member)})."


def _missing(consumer: ConsumerMemberView) -> dict[str, list[int]]:
    """What it is to have and has not."""
    missing = {
        topic: [number for number in numbers if number not in consumer.assigned.get(topic, ())]
        for topic, numbers in consumer.target.items()
    }
    return {topic: numbers for topic, numbers in missing.items() if numbers}


def _named(partitions: Mapping[str, Sequence[int]]) -> str:
    return some([ranges(topic, numbers) for topic, numbers in sorted(partitions.items())], _MOST)


def _heard(sight: GroupSight, member: MemberView) -> str:
    reach = sight.reach.get(member.name.member_id)
    connection = "" if reach is None or reach.is_connected or not reach.is_heard else ", not connected"
    return f"last heard {seconds(member.silent_ms)} ago{connection}"
