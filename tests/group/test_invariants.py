"""Each invariant of the core, on which the simulations rely, detects its violation."""

from collections.abc import Callable

import pytest

from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_member import InitialJoin, OpenRebalance, PendingMember
from coordinator.group.classic.classic_state_machine import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from coordinator.group.event_details import Departure, DepartureCause, RebalanceCause, Trigger
from coordinator.group.group_invariants import check_invariants
from coordinator.group.shard_groups import ShardGroups
from tests.group.ask import named
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stories import stable_group

OPEN = OpenRebalance(Trigger(RebalanceCause.OVER_CAPACITY, "", None), STABLE, 0)
PENDING = PendingMember(named("m"), 0, 1)
Damage = Callable[[ShardGroups, ClassicGroup], object]


def _drop_from_log(groups: ShardGroups, group: ClassicGroup) -> None:
    groups.durable.replay(group.tombstones()[0])


def _forget_group(groups: ShardGroups, group: ClassicGroup) -> None:
    del groups.by_id[group.group_id]
    groups.classic_states[group.state] -= 1


def _first(group: ClassicGroup) -> str:
    return next(iter(group.members))


def _park_twice(_: ShardGroups, group: ClassicGroup) -> None:
    group.state, group.join_deadline_ms = PREPARING_REBALANCE, 1
    group.pending_sync, group.sync_deadline_ms = {}, None
    group.rebalance = OPEN
    for member in group.members.values():
        group.park_join(member, 77, 9)


DAMAGES: dict[str, Damage] = {
    "a leader who is no member": lambda _, g: setattr(g, "leader_id", "stranger"),
    "members in an Empty group": lambda _, g: setattr(g, "state", EMPTY),
    "a wrong count of joins": lambda _, g: setattr(g, "awaiting_join", 1),
    "a wrong count of protocols": lambda _, g: g.supported_protocols.update(range=1),
    "a static member too many": lambda _, g: g.static_members.update(i="stranger"),
    "a member that is pending too": lambda _, g: g.pending_members.update({_first(g): PENDING}),
    "a stranger who is to sync": lambda _, g: g.pending_sync.update(stranger=None),
    "a sync timer for nobody": lambda _, g: setattr(g, "sync_deadline_ms", 1),
    "a join timer while Stable": lambda _, g: setattr(g, "join_deadline_ms", 1),
    "an initial delay while Stable": lambda _, g: setattr(g, "initial_join", InitialJoin(1, 1)),
    "a new member while Stable": lambda _, g: setattr(g.members[_first(g)], "is_new", True),
    "a member without a timer": lambda _, g: setattr(g.members[_first(g)], "timer_deadline_ms", None),
    "a timer after the deadline": lambda _, g: setattr(g.members[_first(g)], "session_deadline_ms", 0),
    "a parked sync while Stable": lambda _, g: setattr(g.members[_first(g)], "sync_waiter", 5),
    "an assignment that was not recorded": lambda _, g: setattr(g.members[_first(g)], "assignment", b"?"),
    "a rebalance of a group that waits for nobody": lambda _, g: setattr(g, "rebalance", OPEN),
    "a departure that nobody was told of": lambda _, g: g.departed.append(
        Departure(g.members[_first(g)].name, DepartureCause.LEFT, b"")
    ),
    "a member of a Stable group that counts as new": lambda _, g: setattr(
        g.members[_first(g)], "settled_assignment", None
    ),
    "a generation that was not recorded": lambda _, g: setattr(g, "generation_id", 9),
    "no join timer in the join phase": lambda _, g: setattr(g, "state", PREPARING_REBALANCE),
    "a Stable group that is not in the log": _drop_from_log,
    "a group that is only in the log": _forget_group,
    "a waiter that is parked twice": _park_twice,
}


def find_group(groups: ShardGroups) -> ClassicGroup:
    group = groups.find_typed_group(ClassicGroup, GROUP)
    assert group is not None, GROUP
    return group


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_noticed(damage: Damage) -> None:
    coordinator = Coordinator()
    stable_group(coordinator)
    groups = coordinator.shard._groups
    check_invariants(groups)
    damage(groups, find_group(groups))
    with pytest.raises(AssertionError):
        check_invariants(groups)


def test_a_completing_group_need_not_be_recorded_yet() -> None:
    coordinator = Coordinator()
    stable_group(coordinator)
    groups = coordinator.shard._groups
    for state in (PREPARING_REBALANCE, COMPLETING_REBALANCE):
        find_group(groups).transition_to(state, 0)
    find_group(groups).generation_id = 2
    check_invariants(groups)
