"""Loading any prefix of the log gives the durable state that the live shard had at its end."""

from random import Random

import pytest

from coordinator.core.outcome import NO_PRODUCER_ID, Fact, TransactionMarker
from coordinator.group.durable_groups import DurableGroups, DurableGroupSnapshot
from coordinator.group.group_event_types import GroupStabilized
from coordinator.group.group_requests import TopicsChanged
from coordinator.group.topics_image import NO_TOPICS
from protocol.messages.leave_group import MemberIdentity
from protocol.records.group_record_schemas import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator
from tests.group.entries import replay
from tests.group.new_shard import new_shard

OTHER = "another"


def offset(topic: str, partition: int, value: int | None) -> Fact:
    key = OffsetCommitKey(group=GROUP, topic=topic, partition=partition)
    if value is None:
        return Fact(key, None)
    return Fact(key, OffsetCommitValue(offset=value, metadata="", commit_timestamp=0))


def test_the_later_record_of_a_key_wins_and_a_tombstone_removes_it() -> None:
    state = DurableGroups()
    for record in (offset("a", 0, 1), offset("a", 1, 1), offset("a", 0, 2), offset("a", 1, None)):
        state.replay(record)
    assert state.offsets.find_offset(GROUP, "a", 1) is None
    assert state.snapshot() == {
        GROUP: DurableGroupSnapshot(
            None, {("a", 0): OffsetCommitValue(offset=2, metadata="", commit_timestamp=0)}
        )
    }
    for record in (offset("a", 0, None), offset("a", 0, None), offset("b", 0, None)):
        state.replay(record)
    state.replay(Fact(GroupMetadataKey(group=GROUP), None))
    assert state.snapshot() == {}


def wander(coordinator: Coordinator, random: Random) -> None:
    """Perform one random step, such as a request or an advance of the clock."""
    members = [member.member_id for member in coordinator.describe().members]
    someone = random.choice([*members, "stranger"])
    stabilized = coordinator.find_events(GroupStabilized)
    generation = stabilized[-1].generation_id if stabilized else 1
    step = random.randrange(14)
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
    elif step == 5 or step > 8:
        write_offsets(coordinator, random, someone, generation)
    elif step == 6:
        coordinator.leave(MemberIdentity(member_id=someone))
    elif random.random() < 0.5:
        coordinator.delete_groups(GROUP)
    else:
        coordinator.restart()


def write_offsets(coordinator: Coordinator, random: Random, someone: str, generation: int) -> None:
    """Send a commit, plain or in one of three transactions, end a transaction, or remove offsets."""
    step, producer, partition, offset = (random.randrange(number) for number in (5, 3, 3, 99))
    group = random.choice([GROUP, OTHER])
    if step == 0:
        coordinator.commit(random.choice(["", someone]), random.choice([-1, generation]), offset=offset)
    elif step == 1:
        coordinator.txn_commit(producer, someone, generation, partition=partition, offset=offset)
    elif step == 2:
        coordinator.commit(partition=partition, offset=offset, group=group)
        coordinator.txn_commit(producer, partition=partition, offset=offset + 1, group=group)
    elif step == 3:
        coordinator.end(producer, is_committed=random.random() < 0.6)
    else:
        bury(coordinator, random)


def bury(coordinator: Coordinator, random: Random) -> None:
    """Remove offsets, of which some may be pending: by OffsetDelete, DeleteGroups or a deleted topic."""
    how = random.randrange(3)
    if how == 0:
        coordinator.delete_offsets(("foo", random.randrange(3)), group=random.choice([GROUP, OTHER]))
    elif how == 1:
        coordinator.delete_groups(random.choice([GROUP, OTHER]))
    elif random.random() < 0.5:
        coordinator.send(TopicsChanged(NO_TOPICS, ("foo",)), 0)


@pytest.mark.parametrize("seed", range(30))
def test_every_prefix_of_the_log_gives_the_state_that_was_live_there(seed: int) -> None:
    random = Random(seed)
    coordinator = Coordinator(group_config(offsets_retention_minutes=3))
    states = {0: coordinator.shard.snapshot_durable()}
    for _ in range(200):
        wander(coordinator, random)
        states[len(coordinator.log)] = coordinator.shard.snapshot_durable()
    assert len(states) > 4
    assert any(isinstance(entry, TransactionMarker) for entry in coordinator.log)
    for length, state in states.items():
        loaded = new_shard(coordinator.config)
        replay(loaded, coordinator.log[:length])
        assert loaded.snapshot_durable() == state
        assert loaded.has_open_transactions == any(group.pending for group in state.values())
        if not loaded.has_open_transactions:
            copied = new_shard(coordinator.config)
            replay(copied, [(fact, NO_PRODUCER_ID) for fact in loaded.copy_durable().facts()])
            assert copied.snapshot_durable() == state
        loaded.on_loaded(coordinator.now)
        loaded.check_invariants()
        assert loaded.snapshot_durable() == state
