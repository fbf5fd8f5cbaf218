"""Every event is one log line, with any client names, and contains the words that operators search for."""

import logging
import types
import typing
from enum import StrEnum
from typing import Any

import pytest

from coordinator.broker.consumer_group_log_lines import CONSUMER_GROUP_LINES
from coordinator.broker.group_event_log import GROUP_LINES, format_event, log_event
from coordinator.core.daemon_log import LogLineLimit
from coordinator.group import event_details, group_event_types
from coordinator.group.event_details import RebalanceCause, Trigger
from coordinator.group.group_event_types import GroupEvent, RequestRefused
from protocol.consumer_protocol import ConsumerProtocolAssignment, TopicPartitions, encode_assignment
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from storage.topic_partition import TopicPartition
from tests.group.ask import named
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stories import new_generation, stable_group, sync_all

CLASSES = [
    cls
    for cls in vars(group_event_types).values()
    if isinstance(cls, type)
    and issubclass(cls, GroupEvent)
    and cls not in CONSUMER_GROUP_LINES
    and cls
    not in (GroupEvent, group_event_types.GenerationEvent, group_event_types.MemberEvent, RequestRefused)
]
DETAILS = typing.get_args(event_details.RefusalDetail)
EVIL = "g\n[2026] INFO all is well\x1b[2J {group_id}"


def sample(hint: Any, *, filled: bool) -> Any:
    """Return a value of a type with hostile texts; optional values are present if `filled`."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        options = [option for option in typing.get_args(hint) if option is not types.NoneType]
        return (
            sample(options[0], filled=True) if filled or len(options) == len(typing.get_args(hint)) else None
        )
    if typing.get_origin(hint) is tuple:
        return (sample(typing.get_args(hint)[0], filled=True),) * 2 if filled else ()
    if issubclass(hint, StrEnum):
        return next(iter(hint))
    if issubclass(hint, GroupEvent | tuple):
        hints = typing.get_type_hints(hint)
        names = hint.__struct_fields__ if issubclass(hint, GroupEvent) else hint._fields
        return hint(**{name: sample(hints[name], filled=filled) for name in names})
    simple = {bool: filled, int: 7, bytes: EVIL.encode(), str: EVIL, ErrorCode: ErrorCode.ILLEGAL_GENERATION}
    return simple[hint]


def check(event: GroupEvent) -> None:
    line = format_event(event)
    if line is None:
        return
    _, text = line
    assert text.isprintable()
    assert "all is well" in text


@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_event_is_one_line_that_a_client_cannot_forge(cls: type[GroupEvent], filled: bool) -> None:
    check(sample(cls, filled=filled))


@pytest.mark.parametrize("detail", DETAILS, ids=lambda cls: cls.__name__)
def test_so_is_every_detail_of_a_refusal(detail: Any) -> None:
    refused = sample(group_event_types.JoinRefused, filled=True)
    refused.detail = sample(detail, filled=True)
    check(refused)


@pytest.mark.parametrize("state", ["", "Empty", "Stable"])
def test_and_every_error(state: str) -> None:
    for cls in (
        group_event_types.JoinRefused,
        group_event_types.SyncRefused,
        group_event_types.HeartbeatRefused,
        group_event_types.CommitRefused,
    ):
        for filled in (True, False):
            refused = sample(cls, filled=filled)
            refused.state, refused.detail = state, None
            for error in ErrorCode:
                refused.error = error
                check(refused)


def test_and_every_cause_of_a_rebalance() -> None:
    for cause in RebalanceCause:
        completed = sample(group_event_types.RebalanceCompleted, filled=True)
        completed.trigger = Trigger(cause, EVIL, completed.trigger.actor, EVIL)
        check(completed)


def test_every_line_belongs_to_an_event_and_every_event_was_thought_of() -> None:
    assert set(GROUP_LINES) == set(CLASSES)


def text_of(event: GroupEvent) -> str:
    line = format_event(event)
    assert line is not None
    return line[1]


def owned(**topics: list[int]) -> bytes:
    assigned = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), 1)


def last(coordinator: Coordinator, kind: type[GroupEvent]) -> str:
    return text_of(coordinator.find_events(kind)[-1])


def test_the_start_of_a_rebalance_is_a_detail_in_kafkas_words() -> None:
    trigger = Trigger(RebalanceCause.MEMBER_LEFT, "m left", None)
    line = format_event(group_event_types.RebalanceStarted("g", 4, "Stable", trigger))
    assert line is not None
    assert line[0] == logging.DEBUG
    for part in ("Preparing to rebalance group g", "Stable", "4", "m left"):
        assert part in line[1]


def test_a_stuck_group_says_whom_it_waits_for_and_how_long() -> None:
    coordinator = Coordinator()
    leader, silent = stable_group(coordinator)
    coordinator.join(leader)
    for _ in range(2):
        coordinator.advance(5_000)
        coordinator.heartbeat(silent, 1)
    coordinator.advance(5_000)
    text = last(coordinator, group_event_types.RebalanceWaits)
    for part in (
        GROUP,
        "1 of 2 members",
        silent[:15],
        "10.0.0.1",
        "last heard 5.0 s ago",
        "50 s more at most",
    ):
        assert part in text
    assert silent not in text, "the end of a UUID has no information"


def test_a_group_without_an_assignment_says_that_its_leader_has_to_bring_it() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    coordinator.sync(follower, 1)
    for _ in range(2):
        coordinator.advance(5_000)
        coordinator.heartbeat(leader, 1)
    text = last(coordinator, group_event_types.RebalanceWaits)
    for part in ("1 of 2 members", leader[:15], "the leader"):
        assert part in text


def test_a_group_that_waits_for_members_to_come_names_the_property() -> None:
    coordinator = Coordinator(group_config(group_initial_rebalance_delay_ms=20_000))
    coordinator.join(version=3)
    coordinator.advance(10_000)
    assert "group.initial.rebalance.delay.ms" in last(coordinator, group_event_types.RebalanceWaits)


def test_a_group_that_waits_for_nobody_says_when_it_goes_on() -> None:
    coordinator = Coordinator(group_config(group_max_size=3))
    members = stable_group(coordinator, 3)
    coordinator.restart(group_config(group_max_size=2))
    for member in members:
        coordinator.join(member)
    coordinator.advance(10_000)
    assert "all 2 members joined, the join phase ends in 50 s" in last(
        coordinator, group_event_types.RebalanceWaits
    )


def test_a_large_group_names_a_few_of_whom_it_waits_for_and_counts_the_rest() -> None:
    coordinator = Coordinator()
    leader, *silent = stable_group(coordinator, 30)
    coordinator.join(leader, session=60_000)
    for _ in range(2):
        coordinator.advance(5_000)
        for member in silent:
            coordinator.heartbeat(member, 1)
    text = last(coordinator, group_event_types.RebalanceWaits)
    assert "and 24 more" in text
    assert len(text) < 1_000


def test_a_summary_says_why_who_is_gone_and_who_got_what() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join(version=3, client_id=name) for name in ("alice", "bob")]
    coordinator.advance(6_000)
    alice, bob = (ask.joined.member_id for ask in joins)
    assignments = {alice: owned(orders=[0, 1, 2], payments=[1]), bob: owned(orders=[3, 5])}
    coordinator.sync(bob, 1)
    coordinator.sync(alice, 1, assignments)
    text = last(coordinator, group_event_types.RebalanceCompleted)
    for part in (
        f"Rebalanced group {GROUP} to generation 1 in 6.0 s",
        "group.initial.rebalance.delay.ms",
        "alice-00000000 at 10.0.0.1 joined",
        "2 members, all new",
        "(range)",
        "alice-00000000 orders 0-2, payments 1; bob-00000000 orders 3 5.",
    ):
        assert part in text
    coordinator.leave(MemberIdentity(member_id=bob, reason="scaling down"))
    coordinator.join(alice)
    coordinator.sync(alice, 2, {alice: owned(orders=[])})
    text = last(coordinator, group_event_types.RebalanceCompleted)
    assert "bob-00000000 at 10.0.0.1 left (reason: scaling down). 1 member, " in text
    assert text.endswith("alice-00000000 nothing.")
    coordinator.leave(MemberIdentity(member_id=alice))
    assert "empty" in last(coordinator, group_event_types.RebalanceCompleted)


def test_a_summary_of_attempts_names_the_first_and_the_last_cause() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    newcomer = coordinator.join(version=3, client_id="new")
    coordinator.join(leader)
    coordinator.join(follower)
    sync_all(coordinator, [leader, follower, newcomer.joined.member_id], 2)
    text = last(coordinator, group_event_types.RebalanceCompleted)
    assert "2 attempts, the last because new-00000000 at 10.0.0.1 joined" in text


def test_who_joins_and_is_gone_before_the_end_is_not_looked_for_in_vain() -> None:
    coordinator = Coordinator()
    (leader,) = stable_group(coordinator, 1)
    newcomer = coordinator.join(client_id="new").joined.member_id
    coordinator.join(newcomer, client_id="new")
    coordinator.leave_alone(newcomer)
    coordinator.join(leader)
    sync_all(coordinator, [leader], 2)
    assert "joined, and is gone again" in last(coordinator, group_event_types.RebalanceCompleted)


def test_an_assignment_that_is_no_consumers_is_counted_in_bytes() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    coordinator.sync(leader, 1, {leader: b"\xff" * 40, follower: owned(huge=list(range(20_000)))})
    assert "40 bytes" in last(coordinator, group_event_types.RebalanceCompleted)
    assert "80020 bytes" in last(coordinator, group_event_types.RebalanceCompleted), (
        "too long to be read for a line"
    )
    ask = coordinator.join(version=3, group="connect", protocol_type="connect")
    coordinator.advance(3_000)
    member = ask.joined.member_id
    coordinator.sync(member, 1, {member: owned(orders=[1])}, group="connect", protocol_type="connect")
    assert "orders 1" not in last(coordinator, group_event_types.RebalanceCompleted)


def test_the_summary_of_a_large_group_is_bounded() -> None:
    coordinator = Coordinator()
    members = new_generation(coordinator, 40)
    many = owned(**{f"{number}-{'t' * 240}": list(range(0, 100, 2)) for number in range(20)})
    coordinator.sync(members[0], 1, dict.fromkeys(members, many))
    text = last(coordinator, group_event_types.RebalanceCompleted)
    assert "and 30 more" in text
    assert "and 15 more topics" in text
    assert len(text) < 10_000


def test_long_names_and_lists_are_cut() -> None:
    names = tuple(named(f"member-{number}") for number in range(1000))
    text = text_of(group_event_types.MembersEvicted("g" * 5000, 1, names, "join"))
    assert len(text) < 2000
    assert "980 more" in text


def refusal(coordinator: Coordinator) -> str:
    return last(coordinator, RequestRefused)


def test_refusals_name_the_client_and_the_bound_with_its_property() -> None:
    coordinator = Coordinator(group_config(group_max_size=1, offset_metadata_max_bytes=10))
    coordinator.join(session=1_000, client_id="eve")
    for part in ("eve at 10.0.0.1 (new)", "=1000", "group.min.session.timeout.ms=6000", "=1800000"):
        assert part in refusal(coordinator)
    coordinator.commit(metadata="x" * 11, group="simple")
    for part in ("client at 10.0.0.1 (no member id)", "11 characters", "offset.metadata.max.bytes=10"):
        assert part in refusal(coordinator)
    (member,) = stable_group(coordinator, 1)
    coordinator.join()
    assert "the group has 1 member, group.max.size=1" in refusal(coordinator)
    coordinator.heartbeat(member, 7)
    for part in ("(Stable) refused Heartbeat from client-00000000", "generation 7, the group in 1"):
        assert part in refusal(coordinator)


def test_a_refusal_says_only_what_is_known_of_a_stranger() -> None:
    coordinator = Coordinator()
    coordinator.heartbeat("zombie", 3)
    assert "group does not exist" in refusal(coordinator)
    stable_group(coordinator)
    coordinator.heartbeat("zombie", 3)
    assert "zombie (client client) at 10.0.0.1: UNKNOWN_MEMBER_ID: no member has this id" in refusal(
        coordinator
    )
    coordinator.heartbeat("zombie", 3, instance="i")
    assert "no member has the group.instance.id i" in refusal(coordinator)


def test_protocols_that_do_not_fit_are_named() -> None:
    coordinator = Coordinator()
    stable_group(coordinator)
    coordinator.join(protocols=[("sticky", b"")])
    assert "it offers consumer: sticky; the group has consumer: range" in refusal(coordinator)


def test_a_fenced_member_has_one_line_which_says_who_has_its_instance_id() -> None:
    coordinator = Coordinator()
    old, _ = stable_group(coordinator, 2, static=2)
    new = coordinator.join(instance="instance-0", client_id="other").joined.member_id
    coordinator.heartbeat(old, 1, instance="instance-0")
    text = last(coordinator, group_event_types.MemberFenced)
    assert f"member {old} (client client at 10.0.0.1)" in text
    assert new in text
    assert f"{new} (client other at 10.0.0.1)" in last(coordinator, group_event_types.StaticMemberReplaced)
    assert format_event(coordinator.find_events(RequestRefused)[-1]) is None


@pytest.fixture
def partition() -> TopicPartition:
    return TopicPartition("__consumer_offsets", 3)


def test_a_zombie_has_a_line_a_minute_with_a_count(
    partition: TopicPartition, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    now_ms = 5_000
    monkeypatch.setattr("coordinator.core.clock.monotonic_ms", lambda: now_ms)
    coordinator, limit = Coordinator(), LogLineLimit()
    for _ in range(41):
        coordinator.heartbeat("zombie", 3)
        coordinator.heartbeat("another", 3)
        for event in coordinator.events:
            log_event(partition, event, limit)
        coordinator.events.clear()
        now_ms += 3_000
    lines = [record.getMessage() for record in caplog.records if "zombie" in record.getMessage()]
    assert len(caplog.records) == 6
    assert len(lines) == 3
    assert "similar lines" not in lines[0]
    assert all("(19 similar lines" in line for line in lines[1:])


def test_what_is_not_written_costs_nothing_of_the_limit(
    partition: TopicPartition, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "GroupCoordinator")
    coordinator, limit = Coordinator(), LogLineLimit()
    coordinator.heartbeat("zombie", 3)
    log_event(partition, coordinator.events[-1], limit)
    caplog.set_level(logging.INFO, "GroupCoordinator")
    log_event(partition, coordinator.events[-1], limit)
    assert len(caplog.records) == 1
