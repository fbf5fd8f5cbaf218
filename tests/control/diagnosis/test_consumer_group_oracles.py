"""Oracles of consumer groups: no finding about a working group, and findings about contradictory views."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from coordinator.control.diagnosis.violation import OracleFinding, OracleName, Severity
from coordinator.core.outcome import Outcome
from coordinator.group.group_view import GroupView, MemberView
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.control.diagnosis.virtual_oracles import VirtualOracleContext
from tests.group.consumer.members import FOO, THREE, Members
from tests.group.coordinator import GROUP

STEP_MS = 2_000


class Watched(VirtualOracleContext):
    """A watch that may see another group than there is."""

    def __init__(self, members: "WatchedMembers") -> None:
        super().__init__(lambda: members.shard, lambda: members.now, THREE)
        self.seen: Callable[[GroupView], GroupView] = lambda view: view

    def find_group(self, group_id: str) -> GroupView | None:
        view = super().find_group(group_id)
        return None if view is None else self.seen(view)


class WatchedMembers(Members):
    """Members of a group at which oracles look."""

    def __init__(self) -> None:
        self.watch: Watched | None = None
        super().__init__()
        self.watch = Watched(self)

    def take(self, outcome: Outcome) -> None:
        super().take(outcome)
        if self.watch is not None:
            self.watch.take(outcome)


def having(view: GroupView, **assigned: tuple[int, ...]) -> GroupView:
    """Return a Stable group whose members have other partitions of foo."""

    def other(member: MemberView) -> MemberView:
        part = assigned.get(member.name.member_id)
        if part is None or member.consumer is None:
            return member
        return replace(member, consumer=replace(member.consumer, assigned={"foo": part}))

    return replace(view, state="Stable", members=tuple(map(other, view.members)))


def found(seen: Callable[[GroupView], GroupView]) -> dict[OracleName, str]:
    members = WatchedMembers()
    watch = members.watch
    assert watch is not None
    watch.seen = seen
    members.enter("a")
    members.enter("b")
    for _ in range(40):
        members.advance(STEP_MS)
        view = members.shard.view_group(GROUP, members.now)
        assert view is not None
        for member in view.members:
            assert member.consumer is not None
            owned = {FOO: member.consumer.assigned.get("foo", ())}
            members.beat(member.name.member_id, member.consumer.member_epoch, owned=owned)
        watch.look()
    return {finding.oracle: finding.detail for finding in watch.findings}


def test_a_working_group_has_no_findings() -> None:
    assert not found(lambda view: view)


@pytest.mark.parametrize(
    ("assigned", "oracle", "words"),
    [
        ({"a": (0, 1), "b": (1, 2)}, OracleName.DOUBLE_OWNER, "foo-1 is"),
        ({"a": (0,), "b": (1,)}, OracleName.ORPHAN_PARTITION, "No member owns foo-2"),
    ],
)
def test_contradictory_group_views_are_violations(
    assigned: dict[str, tuple[int, ...]], oracle: OracleName, words: str
) -> None:
    findings = found(lambda view: having(view, **assigned))
    assert words in findings[oracle]


def kept(
    kept_for_ms: int,
    seen: Callable[[MemberView], MemberView] = lambda member: member,
    rebalance_ms: int = 60_000,
) -> list[OracleFinding]:
    """The findings about a member that gives up its partitions only after so long, with a rebalance timeout."""
    members = WatchedMembers()
    watch = members.watch
    assert watch is not None
    watch.seen = lambda view: replace(view, members=tuple(map(seen, view.members)))
    members.enter("a", rebalance=rebalance_ms)
    members.advance(STEP_MS)
    members.beat("a", 1, owned={FOO: (0, 1, 2)})
    members.enter("b")
    for at_ms in range(0, 120_000, STEP_MS):
        members.advance(STEP_MS)
        view = members.shard.view_group(GROUP, members.now)
        assert view is not None
        for member in view.members:
            name, consumer = member.name.member_id, member.consumer
            assert consumer is not None
            has = consumer.assigned.get("foo", ())
            if at_ms < kept_for_ms:
                has = (*has, *consumer.pending.get("foo", ()))
            members.beat(name, consumer.member_epoch, owned={FOO: has})
        watch.look()
    return [finding for finding in watch.findings if finding.oracle is OracleName.STUCK_REBALANCE]


@pytest.mark.parametrize("kept_for_ms", [20_000, 40_000, 120_000])
def test_a_member_that_takes_its_time_to_give_up_partitions_is_fenced_and_not_stuck(kept_for_ms: int) -> None:
    assert kept(kept_for_ms) == []


@pytest.mark.parametrize(
    ("left_ms", "severity"), [(0, Severity.VIOLATION), (None, Severity.NOTICE), (5_000, Severity.NOTICE)]
)
def test_a_member_that_is_not_fenced_in_time_is_a_violation_unless_it_has_time_left(
    left_ms: int | None, severity: Severity
) -> None:
    def unfenced(member: MemberView) -> MemberView:
        assert member.consumer is not None
        consumer = replace(member.consumer, revokes_left_ms=left_ms)
        return replace(member, rebalance_timeout_ms=10_000, consumer=consumer)

    findings = kept(120_000, unfenced, rebalance_ms=120_000)
    assert [(finding.severity, finding.members[0].member_id) for finding in findings] == [(severity, "a")]


def flapping(*does: tuple[str, str, str]) -> list[str]:
    """What is found when members come ("+") and go ("-"), or read something else ("~")."""
    members = WatchedMembers()
    watch = members.watch
    assert watch is not None
    epochs: dict[str, int] = {}
    topics = {False: ["foo"], True: ["foo", "bar"]}
    for act, member_id, client_id in does:
        if act == "+":
            ask = members.beat(member_id, 0, names=["foo"], owned={}, rebalance=60_000, client_id=client_id)
        elif act == "-":
            ask = members.beat(member_id, -1, client_id=client_id)
        else:
            names = topics[act == "~"]
            ask = members.beat(member_id, epochs[member_id], names=names, client_id=client_id)
        epochs[member_id] = ask.answer(ConsumerGroupHeartbeatResponse).member_epoch
        members.advance(1_500)
        for other in members.described().members:
            owned = {one.topic_id: one.partitions for one in other.assignment.topic_partitions}
            answer = members.beat(
                other.member_id, other.member_epoch, owned=owned, client_id=other.client_id
            ).answer(ConsumerGroupHeartbeatResponse)
            epochs[other.member_id] = answer.member_epoch
    return [finding.detail for finding in watch.findings if finding.oracle is OracleName.FLAPPING]


def test_a_member_that_rejoins_often_is_flapping() -> None:
    rest = [("+", "a", "alice")]
    goes = [(act, f"b{number}", "bob") for number in range(3) for act in "+-"]
    detail, *_ = flapping(*rest, *goes)
    assert detail.startswith("5 epochs in 6.0 s, ")
    assert "bob" in detail


def test_one_that_reads_something_else_again_and_again_is_flapping() -> None:
    acts = [("~", "a", "alice"), ("=", "a", "alice")] * 3
    detail, *_ = flapping(("+", "a", "alice"), *acts)
    assert "alice" in detail
    assert "a member subscribed to other topics" in detail


@pytest.mark.parametrize("client", ["{}", "same"])
def test_a_rolling_restart_and_a_scale_up_are_no_flapping_of_epochs(client: str) -> None:
    names = [f"m{number}" for number in range(4)]
    acts = [("+", name, client.format(name)) for name in names]
    for name in names:
        acts += [("-", name, client.format(name)), ("+", f"{name}-again", client.format(name))]
    acts += [("+", f"more{number}", client.format(f"more{number}")) for number in range(4)]
    assert not flapping(*acts)
