from coordinator.group.group_event_types import GroupDeleted, OffsetsExpired
from protocol.records.group_record_schemas import GroupMetadataKey
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stories import CHANGED, joined_member, new_generation, stable_group, sync_all

MINUTE = 60_000
CONFIG = group_config(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE)


def keep_alive(coordinator: Coordinator, members: list[str], generation: int, minutes: int) -> None:
    for _ in range(minutes * 12):
        coordinator.advance(5_000)
        for member in members:
            coordinator.heartbeat(member, generation)


def test_the_offsets_of_a_simple_group_expire_each_from_its_commit_and_the_group_with_the_last() -> None:
    coordinator = Coordinator(CONFIG)
    coordinator.commit(partition=0)
    coordinator.advance(5 * MINUTE)
    coordinator.commit(partition=1)
    coordinator.advance(5 * MINUTE - 1)
    assert len(coordinator.fetch()) == 2
    coordinator.advance(1)
    assert coordinator.fetch() == {("foo", 1): (7, -1, "")}
    coordinator.advance(5 * MINUTE)
    assert coordinator.state() == "Dead"
    assert coordinator.records[-1].key == GroupMetadataKey(group=GROUP)
    assert coordinator.records[-1].value is None
    assert coordinator.find_events(OffsetsExpired) == [OffsetsExpired(GROUP, 1), OffsetsExpired(GROUP, 1)]
    assert coordinator.find_events(GroupDeleted) == [GroupDeleted(GROUP, 0, "retention", expired_offsets=1)]


def test_the_offsets_of_an_emptied_group_expire_together_after_it_became_empty() -> None:
    coordinator = Coordinator(CONFIG)
    (member,) = stable_group(coordinator, 1)
    coordinator.commit(member, 1)
    keep_alive(coordinator, [member], 1, 20)
    coordinator.leave_alone(member)
    emptied_ms = coordinator.now.wall_ms
    coordinator.advance(9 * MINUTE)
    assert len(coordinator.fetch()) == 1
    coordinator.advance(2 * MINUTE)
    assert coordinator.state() == "Dead"
    assert coordinator.now.wall_ms - emptied_ms >= 10 * MINUTE


def test_a_commit_to_an_emptied_group_does_not_prolong_its_life() -> None:
    coordinator = Coordinator(CONFIG)
    (member,) = stable_group(coordinator, 1)
    coordinator.leave_alone(member)
    coordinator.commit()
    coordinator.advance(MINUTE // 2)
    coordinator.commit()
    assert coordinator.state() == "Empty"
    coordinator.advance(11 * MINUTE)
    assert coordinator.state() == "Dead"


def test_a_stable_group_loses_the_offsets_of_topics_that_nobody_reads_any_more() -> None:
    coordinator = Coordinator(CONFIG)
    members = stable_group(coordinator)
    coordinator.commit(members[0], 1, topic="foo")
    coordinator.commit(members[0], 1, topic="bar")
    keep_alive(coordinator, members, 1, 11)
    assert coordinator.fetch() == {("foo", 0): (7, -1, "")}
    assert coordinator.state() == "Stable"


def test_nothing_expires_while_it_is_not_known_what_is_read() -> None:
    coordinator = Coordinator(CONFIG)
    ask = coordinator.join(version=3, protocols=[("custom", b"\x00")])
    coordinator.advance(3_000)
    member = ask.joined.member_id
    coordinator.sync(member, 1, protocol_name="custom")
    coordinator.commit(member, 1, topic="bar")
    keep_alive(coordinator, [member], 1, 12)
    assert len(coordinator.fetch()) == 1


def test_nothing_expires_during_a_rebalance() -> None:
    coordinator = Coordinator(CONFIG)
    leader, follower = new_generation(coordinator)
    coordinator.advance(1_000)
    sync_all(coordinator, [leader, follower], 1)
    coordinator.commit(leader, 1, topic="bar")
    for _ in range(14):
        coordinator.join(leader, protocols=CHANGED, rebalance=1_700_000, session=1_800_000)
        keep_alive(coordinator, [follower], 1, 1)
    assert coordinator.state() == "PreparingRebalance"
    assert len(coordinator.fetch()) == 1


def test_the_groups_of_others_than_consumers_keep_offsets_while_they_have_members() -> None:
    coordinator = Coordinator(CONFIG)
    ask = coordinator.join(version=3, protocol_type="connect", protocols=[("eager", b"")])
    coordinator.advance(3_000)
    member = ask.joined.member_id
    coordinator.sync(member, 1, protocol_type="connect", protocol_name="eager")
    coordinator.commit(member, 1, topic="bar")
    keep_alive(coordinator, [member], 1, 12)
    assert len(coordinator.fetch()) == 1


def test_an_expire_timestamp_of_the_clients_own_counts_instead() -> None:
    coordinator = Coordinator(CONFIG)
    coordinator.commit(version=4, retention_time_ms=2 * MINUTE, partition=0)
    coordinator.commit(version=4, retention_time_ms=30 * MINUTE, partition=1)
    coordinator.advance(2 * MINUTE)
    assert list(coordinator.fetch()) == [("foo", 1)]
    coordinator.advance(27 * MINUTE)
    assert list(coordinator.fetch()) == [("foo", 1)]
    coordinator.advance(2 * MINUTE)
    assert coordinator.fetch() == {}


def test_a_group_that_never_committed_goes_at_the_first_check_after_it_is_empty() -> None:
    coordinator = Coordinator(CONFIG)
    (member,) = stable_group(coordinator, 1)
    coordinator.leave_alone(member)
    coordinator.advance(MINUTE)
    assert coordinator.state() == "Dead"


def test_a_group_that_someone_is_about_to_join_stays() -> None:
    coordinator = Coordinator(CONFIG)
    pending = coordinator.join(session=5 * MINUTE).joined.member_id
    coordinator.advance(MINUTE)
    assert coordinator.join(pending).is_parked


def test_an_emptied_group_of_which_the_log_has_no_date_counts_from_the_commits() -> None:
    coordinator = Coordinator(CONFIG)
    member = joined_member(coordinator)
    coordinator.advance(3_000)
    coordinator.sync(member, 1)
    coordinator.commit(member, 1)
    coordinator.leave_alone(member)
    value = coordinator.records[-1].value
    value.current_state_timestamp = -1
    coordinator.restart()
    coordinator.advance(9 * MINUTE)
    assert coordinator.state() == "Empty"
    coordinator.advance(2 * MINUTE)
    assert coordinator.state() == "Dead"


def test_the_check_goes_on_after_a_restart() -> None:
    coordinator = Coordinator(CONFIG)
    coordinator.commit()
    coordinator.restart()
    coordinator.advance(10 * MINUTE)
    assert coordinator.state() == "Dead"
