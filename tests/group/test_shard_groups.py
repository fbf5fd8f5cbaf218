"""The map of the groups of a shard, and the groups that it rejects."""

from collections.abc import Callable

import pytest

from coordinator.core.outcome import Now, OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_member import ClassicMember
from coordinator.group.classic.classic_state_machine import DEAD, EMPTY
from coordinator.group.consumer.consumer_group import ConsumerGroup
from coordinator.group.event_details import MemberName
from coordinator.group.group_interface import Group
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from coordinator.group.shard_groups import ShardGroups
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stories import stable_group
from tests.group.stub_group import StubGroup

NOW = Now(0, 0)


@pytest.fixture
def groups() -> ShardGroups:
    return Coordinator().shard._groups


@pytest.mark.parametrize(
    ("create", "group_type"),
    [(lambda: ClassicGroup(GROUP, 0), ClassicGroup), (lambda: StubGroup(GROUP), StubGroup)],
)
def test_a_group_is_found_by_its_type_only(
    groups: ShardGroups, create: Callable[[], Group], group_type: type[Group]
) -> None:
    group = create()
    groups.add_group(group)
    for asked in (ClassicGroup, ConsumerGroup, StubGroup):
        found = groups.find_typed_group(asked, GROUP)
        assert found is (group if asked is group_type else None)
    assert groups.find_typed_group(group_type, "other") is None


def test_classic_groups_are_counted_by_state(groups: ShardGroups) -> None:
    group = groups.create_classic_group(GROUP, 0)
    groups.add_group(StubGroup("other"))
    assert groups.classic_states == {EMPTY: 1}
    group.retire(OutcomeBuilder(NOW, groups.durable.replay))
    assert groups.classic_states[DEAD] == 1
    groups.forget_group(GROUP)
    assert groups.classic_states.total() == 0


def test_an_id_has_one_group_which_is_alive(groups: ShardGroups) -> None:
    groups.create_classic_group(GROUP, 0)
    with pytest.raises(AssertionError, match=GROUP):
        groups.add_group(StubGroup(GROUP))
    with pytest.raises(AssertionError, match=GROUP):
        groups.forget_group(GROUP)
    dead = StubGroup("dead")
    dead.is_dead = True
    with pytest.raises(AssertionError, match="dead"):
        groups.add_group(dead)


def test_a_new_member_awaits_no_answer_yet() -> None:
    group = ClassicGroup(GROUP, 0)
    member = ClassicMember(MemberName("m", None, "client", "host"), 10_000, 60_000, (("range", b""),))
    group.park_join(member, 7, 9)
    with pytest.raises(AssertionError, match="m"):
        group.add_member(member, "consumer")


def test_a_session_has_a_timeout_that_is_not_negative() -> None:
    coordinator = Coordinator()
    stable_group(coordinator)
    group = coordinator.shard._groups.find_typed_group(ClassicGroup, GROUP)
    assert group is not None
    builder = OutcomeBuilder(NOW, coordinator.shard._groups.durable.replay)
    with pytest.raises(AssertionError, match="-1"):
        group.restart_session(next(iter(group.members.values())), builder, -1)


def test_a_group_lists_its_own_timers_and_members(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator()
    stub = StubGroup(GROUP)
    coordinator.shard._groups.add_group(stub)
    foreign = GroupTimerKey(GroupTimerKind.JOIN, "other")
    monkeypatch.setattr(stub, "list_deadlines", lambda: iter([(foreign, 1)]))
    with pytest.raises(AssertionError, match=GROUP):
        coordinator.shard.list_deadlines(GROUP)
    monkeypatch.setattr(StubGroup, "member_count", 1)
    with pytest.raises(AssertionError, match=GROUP):
        coordinator.shard.view_group(GROUP, coordinator.now)
