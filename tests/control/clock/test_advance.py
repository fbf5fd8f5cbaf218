"""Advances of a group clock: dead members expire, live ones stay, and the answer reports the effects."""

import asyncio
import itertools
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from coordinator.broker.group_event_log import EventRank
from coordinator.broker.server import Server
from coordinator.control.clock import clock_advance as advance_module
from coordinator.control.clock.clock_models import ClockAdvanceResult
from coordinator.control.control_plane import ControlPlane
from coordinator.control.problem import Problem, ProblemKind
from coordinator.group.group_event_types import GroupEvent, MemberExpired, MembersEvicted
from coordinator.group.group_view import GroupView
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.leave_group import LeaveGroupRequest
from tests.broker.harness import Client, heartbeat_request, join_alone
from tests.control.checkpoints import CheckpointRequests
from tests.control.clock.living_member import GROUP, LivingMember, all_settled, members_of, there, until
from tests.control.faults.lab import Lab
from tests.control.interception import list_interceptors

SESSION_MS = 45_000
HOUR_MS = 3_600_000
SPANS_MS = (1, 500, 10_000, 44_999, 45_000, 300_000, 3_600_000, 86_400_000)


async def advance(
    control: ControlPlane, by_ms: int, silent: Sequence[str] | None = None, settle_ms: int = 10_000
) -> ClockAdvanceResult:
    return await control.clock_commands.advance_clock(
        GROUP, by_ms, silent=silent, settle_ms=settle_ms, description=f"advance {by_ms}ms", actor=None
    )


async def test_a_dead_member_expires_and_the_group_is_stable_again(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    alice, bob, carol = await members_of(stack, server, "alice", "bob", "carol")
    await bob.die()
    advanced = await advance(control, SESSION_MS)
    assert advanced.silent == ["bob"]
    (fired,) = advanced.fired
    assert (fired.timer, fired.member) == ("session", "bob")
    assert fired.events == ["MemberExpired bob", "RebalanceStarted bob"]
    assert there(control) == {"alice", "carol"}
    await all_settled([alice, carol])
    assert (alice.ids[-1], carol.ids[-1]) == (alice.member_id, carol.member_id)
    assert ErrorCode.UNKNOWN_MEMBER_ID not in [*alice.told, *carol.told]


async def test_a_long_advance_waits_for_live_members_and_expires_dead_ones(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    alice, bob = await members_of(stack, server, "alice", "bob")
    await bob.die()
    advanced = await advance(control, 24 * 3_600_000)
    assert [fired.timer for fired in advanced.fired] == ["session"]
    assert advanced.waited_ms > 0
    await all_settled([alice])
    assert there(control) == {"alice"}
    assert ErrorCode.UNKNOWN_MEMBER_ID not in alice.told


async def test_it_stops_for_a_member_that_lives_and_does_not_rejoin_and_names_it(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    alice, bob = await members_of(stack, server, "alice", "bob")
    bob.is_mute = True
    carol = await stack.enter_async_context(LivingMember(server, GROUP, "carol"))
    await until(lambda: "carol" in there(control))
    with pytest.raises(Problem) as stopped:
        await advance(control, 600_000, settle_ms=300)
    assert stopped.value.kind is ProblemKind.CLOCK_STOPPED
    assert [entry["client_id"] for entry in stopped.value.fields["awaited"]] == ["bob"]  # type: ignore[attr-defined]
    assert "bob (its JoinGroup) is connected and has not rejoined" in stopped.value.detail
    assert there(control) == {"alice", "bob", "carol"}

    advanced = await advance(control, 600_000, silent=["bob"])
    assert "MemberExpired bob" in [words for fired in advanced.fired for words in fired.events]
    await all_settled([alice, carol])
    assert there(control) == {"alice", "carol"}


async def test_a_silent_live_member_rejoins_under_a_new_id(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    alice, bob = await members_of(stack, server, "alice", "bob")
    await advance(control, SESSION_MS, silent=["bob"])
    await until(lambda: len(bob.ids) == 2)
    await all_settled([alice, bob])
    assert ErrorCode.UNKNOWN_MEMBER_ID in bob.told
    assert len(alice.ids) == 1


async def test_a_step_passes_the_next_deadline_and_says_which(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    _, bob = await members_of(stack, server, "alice", "bob")
    await control.clocks.set_clock(GROUP, frozen=True, expires_disconnected=False)
    stepped = await control.clock_commands.step_clock(GROUP, silent=None, settle_ms=5000, actor=None)
    assert (stepped.fired, stepped.by_ms) == ([], 0)
    await bob.die()
    stepped = await control.clock_commands.step_clock(GROUP, silent=None, settle_ms=5000, actor=None)
    assert [(fired.timer, fired.member) for fired in stepped.fired] == [("session", "bob")]
    assert 0 < stepped.by_ms <= SESSION_MS
    assert stepped.clock.frozen


async def test_a_name_that_is_nobodys_is_refused_and_nothing_moves(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    await members_of(stack, server, "alice")
    with pytest.raises(Problem) as refused:
        await advance(control, 1000, silent=["alcie"])
    assert refused.value.kind is ProblemKind.NO_SUCH_MEMBER
    assert control.clocks.find_state(GROUP) is None


async def test_no_more_deadlines_pass_in_one_call_than_may(
    server: Server, control: ControlPlane, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advance_module, "MAX_FIRED", 2)
    members = await members_of(stack, server, "alice", "bob", "carol", "dave")
    for member in members[1:]:
        await member.die()
    with pytest.raises(Problem) as refused:
        await advance(control, SESSION_MS)
    assert refused.value.kind is ProblemKind.NOT_POSSIBLE
    assert there(control) == {"alice", "bob", "carol", "dave"}
    monkeypatch.setattr(advance_module, "MAX_FIRED", 3)
    assert len((await advance(control, SESSION_MS)).fired) == 3


async def test_an_unknown_group_is_refused_unless_it_has_a_clock(
    control: ControlPlane,
) -> None:
    with pytest.raises(Problem) as refused:
        await advance(control, 1000)
    assert refused.value.kind is ProblemKind.NO_SUCH_GROUP
    await control.clocks.set_clock(GROUP, frozen=True, expires_disconnected=False)
    assert (await advance(control, 1000)).fired == []


async def test_a_reconnected_member_lives_while_a_fault_answers_heartbeats(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    alice, bob = await members_of(stack, server, "alice", "bob")
    Lab(server, control).fault(
        {"api": "Heartbeat", "client_id": "nobody"}, do={"at": "request", "drop": True}
    )
    await alice.reconnect()
    beats = alice.beats
    await until(lambda: alice.beats >= beats + 2)
    advanced = await advance(control, SESSION_MS)
    assert advanced.silent == []
    assert there(control) == {"alice", "bob"}
    await all_settled([alice, bob])


async def test_a_reconnected_member_lives_while_it_must_rejoin(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    alice, _ = await members_of(stack, server, "alice", "bob")
    await alice.die()  # it comes back, and is busy
    await stack.enter_async_context(LivingMember(server, GROUP, "carol"))
    async with Client(server, "alice") as client:
        heartbeat = heartbeat_request(GROUP, alice.member_id, alice.generation_id)
        while (await client.call(heartbeat, 3)).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        with pytest.raises(Problem) as stopped:
            await advance(control, HOUR_MS, settle_ms=50)
    assert stopped.value.kind is ProblemKind.CLOCK_STOPPED
    assert "alice" in there(control)


async def test_a_reconnected_client_gets_time_for_a_heartbeat(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    alice, _, carol = await members_of(stack, server, "alice", "bob", "carol")
    await carol.die()
    await alice.die()
    async with Client(server, "alice") as back:
        await back.call(ApiVersionsRequest(), 0)
        advancing = asyncio.ensure_future(advance(control, SESSION_MS))
        await until(lambda: control.clocks.is_frozen(GROUP))
        heartbeat = heartbeat_request(GROUP, alice.member_id, alice.generation_id)
        await back.call(heartbeat, 3)
        advanced = await advancing
        assert advanced.silent == ["carol"]
        assert there(control) == {"alice", "bob"}


async def test_a_reconnected_client_without_a_heartbeat_stops_the_clock(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    alice, _ = await members_of(stack, server, "alice", "bob")
    await alice.die()
    async with Client(server, "alice") as other:
        await other.call(ApiVersionsRequest(), 0)
        with pytest.raises(Problem) as stopped:
            await advance(control, SESSION_MS, settle_ms=50)
        assert stopped.value.kind is ProblemKind.CLOCK_STOPPED
        assert "alice (its Heartbeat)" in stopped.value.detail
        assert there(control) == {"alice", "bob"}
        assert (await advance(control, SESSION_MS, silent=["alice"])).silent == ["alice"]
        assert there(control) == {"bob"}


async def test_an_older_connection_of_a_client_of_the_same_name_does_not_make_the_dead_live(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    """Clients that are given no name all have the same."""
    alice, _ = await members_of(stack, server, "alice", "bob")
    async with Client(server, "alice") as other:
        await other.call(ApiVersionsRequest(), 0)
        await alice.die()
        assert (await advance(control, SESSION_MS)).silent == ["alice"]
        assert there(control) == {"bob"}


class Crowd:
    """Members that come, say goodbye or die as chance has it."""

    def __init__(self, server: Server, stack: AsyncExitStack, chance: random.Random) -> None:
        self.alive: list[LivingMember] = []
        self.killed: set[str] = set()
        self._server = server
        self._stack = stack
        self._chance = chance
        self._numbers = itertools.count()

    async def change(self) -> None:
        """One comes, one goes, or everything stays as it is."""
        chance, alive = self._chance, self.alive
        if len(alive) < 2 or (len(alive) < 5 and chance.random() < 0.2):
            member = LivingMember(self._server, GROUP, f"member-{next(self._numbers)}")
            alive.append(await self._stack.enter_async_context(member))
        elif chance.random() < 0.2:
            await self._lose(alive[chance.randrange(len(alive))])

    async def _lose(self, victim: LivingMember) -> None:
        if self._chance.random() < 0.7:
            self.killed.add(victim.client_id)
            await victim.die()
        elif victim.is_settled.is_set():
            await victim.leave()
        else:
            return
        self.alive.remove(victim)


async def test_no_member_that_lives_is_evicted_by_500_random_advances(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    chance = random.Random(20261122)
    crowd = Crowd(server, stack, chance)
    evicted: set[str] = set()

    def watch(_: int, event: GroupEvent, __: int, ___: object) -> None:
        if isinstance(event, MemberExpired) and not event.pending:
            evicted.add(event.member.client_id)
        elif isinstance(event, MembersEvicted):
            evicted.update(name.client_id for name in event.members)

    server.group_events.subscribe(EventRank.COMMANDS, watch)
    for _ in range(500):
        await crowd.change()
        if chance.random() < 0.5 and there(control) <= {member.client_id for member in crowd.alive}:
            await all_settled(crowd.alive)
        else:
            await asyncio.sleep(chance.choice([0, 0.001, 0.02]))
        if chance.random() < 0.1:
            await control.clocks.set_clock(GROUP, frozen=chance.random() < 0.5, expires_disconnected=False)
        if chance.random() < 0.05:
            await control.clocks.remove(GROUP)
        await advance(control, chance.choice(SPANS_MS))
        assert evicted <= crowd.killed, evicted - crowd.killed
    assert len(evicted) > 10
    await advance(control, SESSION_MS)
    await all_settled(crowd.alive)
    assert there(control) == {member.client_id for member in crowd.alive}
    for member in crowd.alive:
        assert ErrorCode.UNKNOWN_MEMBER_ID not in member.told, member.client_id
    await control.clocks.remove(GROUP)
    assert list_interceptors(server.runtime.find_partition(GROUP)) == []


@pytest.mark.parametrize("count", [10, 40])
async def test_deadlines_of_one_group_do_not_cost_other_groups(
    server: Server, control: ControlPlane, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    async with Client(server) as client:
        for number in range(count):
            await join_alone(client, f"group-{number}")
    await until(lambda: not server.connections.open)
    looks, view = 0, control.clocks.find_group

    def counted(group_id: str) -> GroupView | None:
        nonlocal looks
        looks += 1
        return view(group_id)

    monkeypatch.setattr(control.clocks, "find_group", counted)
    advanced = await control.clock_commands.advance_clock(
        None, HOUR_MS, silent=None, settle_ms=5_000, description="advance 1h", actor=None
    )
    assert [fired.timer for fired in advanced.fired if fired.timer != "retention"] == ["session"] * count
    assert looks <= 20 * count


async def test_groups_change_at_every_checkpoint_of_an_advance(
    server: Server, control: ControlPlane, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups come and go at the checkpoints. Members that live stay, and dead ones go."""
    (alice,) = await members_of(stack, server, "alice")
    async with Client(server) as client:
        for number in range(5):
            await join_alone(client, f"dead-{number}")
    await until(lambda: len(server.connections.open) == 1)
    rounds = itertools.count()
    created: list[str] = []
    client = await stack.enter_async_context(Client(server, client_id="late"))
    leave = LeaveGroupRequest(group_id="late")

    async def change_groups() -> None:
        if created:
            await client.call(leave, 2)
            await control.groups.delete_group(created.pop(), None)
        if next(rounds) < 20:
            created.append("late")
            member_id, _ = await join_alone(client, "late")
            leave.member_id = member_id

    requests = CheckpointRequests(change_groups).install(monkeypatch)
    advanced = await control.clock_commands.advance_clock(
        None, SESSION_MS, silent=None, settle_ms=10_000, description="advance 45s", actor=None
    )
    assert requests.count > 15
    sessions = [fired.group_id for fired in advanced.fired if fired.timer == "session"]
    assert sorted(sessions) == [f"dead-{number}" for number in range(5)]
    assert there(control) == {"alice"}
    assert ErrorCode.UNKNOWN_MEMBER_ID not in alice.told


async def test_an_advance_reports_its_time_when_the_partition_is_lost(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    _, bob = await members_of(stack, server, "alice", "bob")
    await bob.die()
    Lab(server, control).fault(on={"event": "MemberExpired"}, do={"failover": {"loading": 300}})
    with pytest.raises(Problem) as refused:
        await advance(control, HOUR_MS)
    assert refused.value.kind is ProblemKind.LOADING
    assert [fired["member"] for fired in refused.value.fields["fired"]] == ["bob"]  # type: ignore[attr-defined]
    assert 0 < refused.value.fields["moved_ms"] <= SESSION_MS  # type: ignore[operator]
    assert "have passed" in refused.value.detail
