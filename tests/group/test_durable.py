"""The law: for every prefix of the log, loading it gives the durable state that the live shard had there."""

from random import Random

import pytest

from coordinator.group.durable import DurableGroup, DurableState
from coordinator.group.events import GroupStabilized
from coordinator.group.shard import Shard
from coordinator.machine.outcome import Fact
from protocol.messages.leave_group import MemberIdentity
from protocol.records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator, through_bytes


def offset(topic: str, partition: int, value: int | None) -> Fact:
    key = OffsetCommitKey(group=GROUP, topic=topic, partition=partition)
    if value is None:
        return Fact(key, None)
    return Fact(key, OffsetCommitValue(offset=value, metadata="", commit_timestamp=0))


def test_the_later_record_of_a_key_wins_and_a_tombstone_removes_it() -> None:
    state = DurableState()
    for record in (offset("a", 0, 1), offset("a", 1, 1), offset("a", 0, 2), offset("a", 1, None)):
        state.replay(record)
    assert state.offset(GROUP, "a", 1) is None
    assert state.snapshot() == {
        GROUP: DurableGroup(None, {("a", 0): OffsetCommitValue(offset=2, metadata="", commit_timestamp=0)})
    }
    for record in (offset("a", 0, None), offset("a", 0, None), offset("b", 0, None)):
        state.replay(record)
    state.replay(Fact(GroupMetadataKey(group=GROUP), None))
    assert state.snapshot() == {}


def wander(coordinator: Coordinator, random: Random) -> None:
    """One step of a group's random life."""
    members = [member.member_id for member in coordinator.describe().members]
    someone = random.choice([*members, "stranger"])
    stabilized = coordinator.told(GroupStabilized)
    generation = stabilized[-1].generation_id if stabilized else 1
    step = random.randrange(9)
    if step == 0:
        coordinator.join(version=3)
    elif step == 1:
        coordinator.join(instance=random.choice(["i", "j"]))
    elif step == 2:
        coordinator.join(someone)
    elif step == 3:
        coordinator.advance(random.choice([1_000, 3_000, 61_000]))
    elif step in (4, 8):
        for member in members:
            coordinator.sync(member, generation, {name: name.encode() for name in members})
    elif step == 5:
        coordinator.commit(
            random.choice(["", someone]), random.choice([-1, generation]), offset=random.randrange(99)
        )
    elif step == 6:
        coordinator.leave(MemberIdentity(member_id=someone))
    elif random.random() < 0.5:
        coordinator.delete_groups(GROUP)
    else:
        coordinator.restart()


@pytest.mark.parametrize("seed", range(30))
def test_every_prefix_of_the_log_gives_the_state_that_was_live_there(seed: int) -> None:
    random = Random(seed)
    coordinator = Coordinator(group_config(offsets_retention_minutes=3))
    states = {0: coordinator.shard.durable_state()}
    for _ in range(200):
        wander(coordinator, random)
        states[len(coordinator.records)] = coordinator.shard.durable_state()
    assert len(states) > 4
    for length, state in states.items():
        loaded = Shard(coordinator.config)
        for record in coordinator.records[:length]:
            loaded.replay(through_bytes(record))
        assert loaded.durable_state() == state
        loaded.loaded(coordinator.now)
        loaded.check_invariants()
        assert loaded.durable_state() == state
