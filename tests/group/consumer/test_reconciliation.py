"""The next step of a member, case by case."""

from collections.abc import Mapping

import pytest

from coordinator.group.consumer.consumer_member import ConsumerMember, MemberState
from coordinator.group.consumer.heartbeat_validation import GroupApiError
from coordinator.group.consumer.reconciliation import ReconciliationGoal, reconcile_member
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions
from tests.group.consumer.members import FOO

STABLE, UNREVOKED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS
Has = Mapping[int, int]


@pytest.mark.parametrize(
    ("state", "assigned", "pending", "target", "held", "owned", "after"),
    [
        (STABLE, {0: 1}, {}, (0,), {0}, None, (STABLE, 2, {0: 1}, {})),
        (STABLE, {0: 1}, {}, (0, 1), {0}, None, (STABLE, 2, {0: 1, 1: 2}, {})),
        (STABLE, {0: 1}, {}, (0, 1), {0, 1}, None, (UNRELEASED, 2, {0: 1}, {})),
        (STABLE, {0: 1, 1: 1}, {}, (0,), {0, 1}, None, (UNREVOKED, 1, {0: 1}, {1: 1})),
        (STABLE, {0: 1, 1: 1}, {}, (0,), {0, 1}, [0], (STABLE, 2, {0: 1}, {})),
        (UNREVOKED, {0: 1}, {1: 1}, (0,), {0, 1}, [0, 1], (UNREVOKED, 1, {0: 1}, {1: 1})),
        (UNREVOKED, {0: 1}, {1: 1}, (0,), {0, 1}, [0], (STABLE, 2, {0: 1}, {})),
        (UNREVOKED, {0: 1}, {1: 1}, (0, 1), {0, 1}, [0], (STABLE, 2, {0: 1, 1: 2}, {})),
        (UNRELEASED, {0: 1}, {}, (0, 1), {0}, None, (STABLE, 2, {0: 1, 1: 2}, {})),
        (MemberState.UNKNOWN, {0: 1}, {}, (0,), {0}, [], (STABLE, 2, {0: 1}, {})),
    ],
)
def test_a_step(
    state: MemberState,
    assigned: Has,
    pending: Has,
    target: tuple[int, ...],
    held: set[int],
    owned: list[int] | None,
    after: tuple[MemberState, int, Has, Has],
) -> None:
    member = ConsumerMember(
        "m",
        member_epoch=1,
        state=state,
        assigned={FOO: assigned},
        pending={FOO: pending} if pending else {},
    )
    goal = ReconciliationGoal(
        2, {FOO: target}, lambda _: True, lambda _: dict.fromkeys(held, "other"), True, False
    )
    parts = (
        None
        if owned is None
        else [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=FOO, partitions=owned)]
        if owned
        else []
    )
    new = reconcile_member(member, goal, parts)
    assert (new.state, new.member_epoch, new.assigned.get(FOO, {}), new.pending.get(FOO, {})) == after


def test_a_member_in_a_state_of_a_later_version_has_to_begin_anew() -> None:
    member = ConsumerMember("m", member_epoch=1, state=MemberState.UNKNOWN)
    with pytest.raises(GroupApiError):
        reconcile_member(member, ReconciliationGoal(2, {}, lambda _: True, lambda _: {}, True, False), None)
