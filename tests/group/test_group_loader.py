import pytest

from coordinator.core.outcome import NO_PRODUCER_ID, Fact
from coordinator.group.event_details import RebalanceCause
from coordinator.group.group_event_types import GroupLoaded, RebalanceStarted
from protocol.error_codes import ErrorCode
from protocol.records.group_record_schemas import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tests.group.config import group_config
from tests.group.coordinator import GROUP, START, Coordinator
from tests.group.new_shard import new_shard
from tests.group.stories import new_generation, stable_group


def metadata(*members: MemberMetadata, protocol: str | None = "range", leader: str = "a") -> Fact:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol=protocol, leader=leader, members=list(members)
    )
    return Fact(GroupMetadataKey(group=GROUP), value)


def member(member_id: str, instance: str | None = None, rebalance_timeout: int = 1) -> MemberMetadata:
    return MemberMetadata(
        member_id=member_id,
        group_instance_id=instance,
        client_id="c",
        client_host="/h",
        rebalance_timeout=rebalance_timeout,
        session_timeout=10_000,
        subscription=b"s",
        assignment=b"x",
    )


def test_members_of_a_stable_group_carry_on_after_a_restart() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.commit(leader, 1, offset=5)
    coordinator.restart()
    assert coordinator.find_events(GroupLoaded) == [GroupLoaded(GROUP, 1, "Stable", 2)]
    assert coordinator.heartbeat(follower, 1) is ErrorCode.NONE
    assert coordinator.sync(follower, 1).synced.assignment == b"for " + follower.encode()
    assert coordinator.fetch() == {("foo", 0): (5, -1, "")}
    assert coordinator.commit(follower, 1) is ErrorCode.NONE
    assert coordinator.join(leader).is_parked


def test_a_loaded_member_has_a_full_session_and_expires_when_it_does_not_come_back() -> None:
    coordinator = Coordinator()
    stable_group(coordinator, 1)
    coordinator.advance(9_000)
    coordinator.restart()
    coordinator.advance(9_999)
    assert coordinator.state() == "Stable"
    coordinator.advance(1)
    assert coordinator.state() == "Empty"


def test_a_rebalance_under_way_is_forgotten() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.join(version=3)
    coordinator.join(leader)
    coordinator.restart()
    assert coordinator.state() == "Stable"
    assert [one.member_id for one in coordinator.describe().members] == [leader, follower]
    assert coordinator.describe().members[0].member_assignment == b"for " + leader.encode()


def test_a_first_generation_that_was_not_assigned_is_forgotten() -> None:
    coordinator = Coordinator()
    leader, _ = new_generation(coordinator)
    coordinator.restart()
    assert coordinator.state() == "Empty"
    assert coordinator.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_keeps_its_place_over_a_restart_of_everything() -> None:
    coordinator = Coordinator()
    (member_id,) = stable_group(coordinator, 1, static=1)
    coordinator.restart()
    response = coordinator.join(instance="instance-0").joined
    assert (response.generation_id, response.skip_assignment) == (1, True)
    assert coordinator.sync(response.member_id, 1).synced.assignment == b"for " + member_id.encode()


def test_a_group_over_capacity_has_to_rebalance() -> None:
    coordinator = Coordinator()
    stable_group(coordinator, 3)
    coordinator.restart(group_config(group_max_size=2))
    assert coordinator.find_events(RebalanceStarted)[-1].trigger.cause is RebalanceCause.OVER_CAPACITY


def test_a_recorded_member_without_a_rebalance_timeout_uses_its_session_timeout() -> None:
    coordinator = Coordinator()
    members = member("a", rebalance_timeout=-1), member("b", rebalance_timeout=-1)
    coordinator.log.append((metadata(*members), NO_PRODUCER_ID))
    coordinator.restart()
    ask = coordinator.join(instance="new", rebalance=0)
    coordinator.advance(5_000)
    coordinator.heartbeat("a", 4)
    coordinator.heartbeat("b", 4)
    coordinator.advance(4_999)
    assert ask.is_parked
    coordinator.advance(1)
    assert ask.joined.generation_id == 5


def test_a_recorded_leader_that_is_no_member_is_replaced_by_the_first() -> None:
    coordinator = Coordinator()
    coordinator.log.append((metadata(member("a"), member("b"), leader="gone"), NO_PRODUCER_ID))
    coordinator.restart()
    assert coordinator.join("b", protocols=[("range", b"s")]).joined.leader == "a"


@pytest.mark.parametrize(
    "record",
    [
        metadata(member("a"), protocol=None),
        metadata(member("a"), member("a")),
        metadata(member("a", "i"), member("b", "i")),
        metadata(member("")),
    ],
)
def test_a_record_that_cannot_be_of_a_group_fails_the_load(record: Fact) -> None:
    shard = new_shard()
    shard.replay(record)
    with pytest.raises(ValueError, match="member"):
        shard.on_loaded(START)


def test_unloading_answers_everyone_who_waits() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    syncing = coordinator.sync(follower, 1)
    joining = coordinator.join(version=3, group="another")
    coordinator.unload()
    assert syncing.error is ErrorCode.NOT_COORDINATOR
    assert joining.error is ErrorCode.NOT_COORDINATOR
    assert coordinator.heartbeat(leader, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_timer_of_an_unloaded_shard_does_nothing() -> None:
    coordinator = Coordinator()
    stable_group(coordinator)
    coordinator.join()
    coordinator.join(version=3)
    coordinator.unload()
    coordinator.advance(100_000)
    assert coordinator.state() == "Dead"
