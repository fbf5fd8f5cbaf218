"""Conversions of groups with members: classic to consumer, and back."""

from coordinator.group.group_event_types import ConsumerMemberFenced, FenceCause
from coordinator.group.topics_image import TopicImage
from protocol.consumer_protocol import ConsumerProtocolSubscription, TopicPartitions, encode_subscription
from protocol.error_codes import ErrorCode
from tests.group.config import consumer_group_config
from tests.group.consumer.classic import INITIAL_DELAY_MS, partitions_of, stable_member
from tests.group.consumer.members import BAR, FOO, Members
from tests.group.coordinator import GROUP, RANGE


def test_a_classic_member_shares_with_one_that_joins_it_and_has_all_again_when_that_leaves() -> None:
    group = Members()
    old, generation = stable_member(group)
    assert group.enter("new") == (generation + 1, {})
    assert group.heartbeat(old, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = group.join(old).joined
    assert (joined.generation_id, joined.leader) == (generation + 1, "")
    assert len(partitions_of(group.sync(old, generation + 1))) == 2
    epoch, given = group.say("new", generation + 1)
    assert epoch == generation + 1
    assert isinstance(given, dict)
    assert len(given[FOO]) == 1
    group.say("new", -1)
    assert group.state() == "PreparingRebalance"
    assert group.heartbeat(old, generation + 2) is ErrorCode.ILLEGAL_GENERATION
    again = group.join(old)
    assert again.joined.generation_id > generation + 1
    assert again.joined.leader == old


def test_a_group_that_cannot_be_upgraded_goes_on_and_who_was_parked_in_it_may_expire() -> None:
    group = Members()
    member_id = group.join().joined.member_id
    parked = group.join(member_id)
    error, _ = group.enter("new")
    assert error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    group.advance(INITIAL_DELAY_MS + 60_000)
    assert group.state() == "Empty"


def test_a_full_group_is_not_upgraded() -> None:
    group = Members(consumer_config=consumer_group_config(group_consumer_max_size=1))
    old, generation = stable_member(group)
    error, _ = group.enter("new")
    assert error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.heartbeat(old, generation) is ErrorCode.NONE
    assert group.state() == "Stable"


def test_whoever_is_behind_joins_again_when_the_last_other_member_turns_classic() -> None:
    group = Members()
    old, generation = stable_member(group)
    assert group.enter("new", instance="i") == (generation + 1, {})
    assert group.join(instance="i").error is ErrorCode.NONE
    assert group.state() == "Stable", "the target is that of the group's epoch"
    assert group.heartbeat(old, generation) is ErrorCode.ILLEGAL_GENERATION
    group.join(old)
    assert group.state() == "PreparingRebalance"


def test_where_all_have_their_target_the_last_member_turns_classic_without_a_rebalance() -> None:
    group = Members()
    assert group.enter("new", instance="i") == (2, {FOO: [0, 1, 2]})
    joined = group.join(instance="i").joined
    assert group.state() == "Stable"
    assert partitions_of(group.sync(joined.member_id, joined.generation_id, instance="i")) == [0, 1, 2]


def test_a_classic_member_that_does_not_join_again_in_time_is_fenced() -> None:
    group = Members()
    old, generation = stable_member(group)
    group.enter("new")
    for _ in range(10):
        assert group.heartbeat(old, generation) is ErrorCode.REBALANCE_IN_PROGRESS
        group.say("new", generation + 1)
        group.advance(6_000)
    assert group.find_events(ConsumerMemberFenced)[0].cause is FenceCause.NOT_REJOINED
    assert group.heartbeat(old, generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_joins_and_does_not_sync_is_fenced() -> None:
    group = Members()
    old, generation = stable_member(group)
    group.enter("new")
    group.join(old, rebalance=5_000)
    group.advance(5_000)
    assert group.find_events(ConsumerMemberFenced)[0].cause is FenceCause.NOT_SYNCED
    assert group.say("new", generation + 1)[0] == generation + 2


def test_a_silent_classic_member_is_fenced_by_the_session_that_it_joined_with() -> None:
    group = Members()
    stable_member(group)
    group.enter("new")
    group.advance(10_000)
    assert group.find_events(ConsumerMemberFenced)[0].cause is FenceCause.SESSION_EXPIRED
    assert [member.member_id for member in group.described().members] == ["new"]


def test_a_classic_member_that_leaves_frees_its_partitions() -> None:
    group = Members()
    old, generation = stable_member(group)
    group.enter("new")
    assert group.leave_alone(old) is ErrorCode.NONE
    group.advance(1_000)
    assert group.say("new", generation + 1) == (generation + 2, {FOO: [0, 1, 2]})


def test_upgrades_that_are_disabled_are_refused_and_so_are_classic_members() -> None:
    group = Members(consumer_config=consumer_group_config(group_consumer_migration_policy="disabled"))
    stable_member(group)
    error, _ = group.enter("new")
    assert error is ErrorCode.GROUP_ID_NOT_FOUND
    group.enter("other", group="others")
    refused = group.join(group="others", instance="i", protocols=RANGE)
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_known_instance_may_join_a_full_group_with_the_classic_protocol() -> None:
    group = Members(consumer_config=consumer_group_config(group_consumer_max_size=2))
    group.enter("A", instance="i")
    group.enter("B")
    assert group.join(instance="i").error is ErrorCode.NONE
    assert group.join(instance="other").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_classic_member_that_was_to_give_partitions_up_is_fenced_after_a_restart_if_it_does_not() -> None:
    group = Members()
    old, _ = stable_member(group)
    group.enter("new")
    group.join(old, protocols=owning(0, 1, 2), rebalance=5_000)
    view = group.shard.view_group(GROUP, group.now)
    assert view is not None
    (state,) = (one.consumer.state for one in view.members if one.consumer and one.name.member_id == old)
    assert state == "UNREVOKED_PARTITIONS"
    group.restart()
    group.advance(5_000)
    (fenced,) = group.find_events(ConsumerMemberFenced)
    assert (fenced.member.member_id, fenced.cause) == (old, FenceCause.NOT_REVOKED)


def test_a_classic_member_that_joins_has_expressions_held_against_new_topics() -> None:
    group = Members()
    group.enter("A", None, regex="f.*")
    group.say("A", 1)
    group.topics_are(TopicImage("foo", FOO, 3), TopicImage("far", BAR, 1))
    group.advance(10_001)
    group.does_work = False
    assert group.join(instance="i").error is ErrorCode.NONE
    assert len(group.work) == 1


def test_a_replacement_that_ends_a_consumer_group_is_written_before_its_tombstones() -> None:
    group = Members()
    group.enter("new", instance="i")
    before = len(group.records)
    joined = group.join(instance="i").joined
    written = [
        (type(record.key).__name__, getattr(record.key, "member_id", None), record.value is None)
        for record in group.records[before:]
    ]
    metadata, current, target = (
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupCurrentMemberAssignmentKey",
        "ConsumerGroupTargetAssignmentMemberKey",
    )
    new = joined.member_id
    assert written == [
        *((current, "new", True), (target, "new", True), (metadata, "new", True)),
        *((metadata, new, False), (target, new, False), (current, new, False), (metadata, new, False)),
        *((current, new, False), (current, new, True), (target, new, True)),
        *(("ConsumerGroupTargetAssignmentMetadataKey", None, True), (metadata, new, True)),
        *(("ConsumerGroupPartitionMetadataKey", None, True), ("ConsumerGroupMetadataKey", None, True)),
        ("GroupMetadataKey", None, False),
    ]


def owning(*partitions: int) -> list[tuple[str, bytes]]:
    """Return the protocols of a cooperative consumer that owns these partitions."""
    owned = [TopicPartitions(topic="foo", partitions=list(partitions))]
    subscription = ConsumerProtocolSubscription(topics=["foo"], owned_partitions=owned)
    return [("range", encode_subscription(subscription, 1))]
