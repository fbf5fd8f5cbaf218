"""A group with a frozen or advanced clock, beside groups with a normal one."""

import asyncio
import itertools
from contextlib import AsyncExitStack

import pytest

from coordinator.broker.composition_root import open_server
from coordinator.broker.group_event_log import EventRank
from coordinator.broker.server import Server
from coordinator.control.clock import clock_registry, group_time
from coordinator.control.control_plane import ControlPlane
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.outcome import Context, Now
from coordinator.group.group_requests import ExpireOffsets, GroupTimerKey, GroupTimerKind
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest
from tests.broker.harness import Client, heartbeat_request, join_alone, settings
from tests.broker.test_group_partitions import active, code, commit, committed
from tests.control.clock.living_member import GROUP, LivingMember, all_settled, members_of, there, until
from tests.control.interception import list_interceptors
from tests.control.serving import controlled
from tests.runtime.held_clock import HeldClock
from tests.storage.faulty_files import FaultyFiles

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SESSION_MS = 45_000


async def freeze(control: ControlPlane, group_id: str | None = GROUP, *, gone: bool = False) -> None:
    await control.clocks.set_clock(group_id, frozen=True, expires_disconnected=gone)


async def run(control: ControlPlane, group_id: str | None = GROUP) -> None:
    await control.clocks.set_clock(group_id, frozen=False, expires_disconnected=False)


async def pass_by(control: ControlPlane, by_ms: int, group_id: str | None = GROUP) -> None:
    await control.clock_commands.advance_clock(
        group_id, by_ms, silent=None, settle_ms=10_000, description="advance", actor=None
    )


async def iterations(count: int = 5) -> None:
    """Run some iterations of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0.002)


def is_bare(server: Server) -> bool:
    """Whether nothing intercepts the calls of the group's shard."""
    return not list_interceptors(server.runtime.find_partition(GROUP))


async def test_no_member_expires_at_once_after_an_hour_of_freeze(
    server: Server, control: ControlPlane, process_time: HeldClock, stack: AsyncExitStack
) -> None:
    alice, bob = await members_of(stack, server, "alice", "bob")
    bob.is_mute = True
    await freeze(control)
    alice.is_mute = True
    process_time.advance(HOUR_MS)
    await iterations()
    assert there(control) == {"alice", "bob"}
    state = control.clocks.find_state(GROUP)
    assert state is not None
    assert state.frozen
    assert state.ahead_ms <= -HOUR_MS
    await run(control)
    await iterations()
    assert there(control) == {"alice", "bob"}
    alice.is_mute = False
    process_time.advance(SESSION_MS - 5000)
    await iterations(20)
    process_time.advance(6000)
    await until(lambda: there(control) == {"alice"})
    await all_settled([alice])
    assert ErrorCode.UNKNOWN_MEMBER_ID not in alice.told


async def test_deadlines_keep_the_time_they_had_left_when_a_clock_is_removed(
    server: Server, control: ControlPlane, process_time: HeldClock, stack: AsyncExitStack
) -> None:
    alice, bob = await members_of(stack, server, "alice", "bob")
    await pass_by(control, 8 * DAY_MS)
    assert not is_bare(server)
    alice.is_mute = bob.is_mute = True
    await iterations(20)
    process_time.advance(20_000)
    await control.clocks.remove(GROUP)
    assert is_bare(server)
    assert control.clocks.find_state(GROUP) is None
    assert control.clocks.group_now(GROUP).wall_ms - process_time.now().wall_ms < 1000
    process_time.advance(20_000)
    await iterations()
    assert there(control) == {"alice", "bob"}
    process_time.advance(6_000)
    await until(lambda: there(control) == set())


async def test_heartbeats_of_a_frozen_group_are_answered_and_the_shortcut_is_back_without_a_clock(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    (alice,) = await members_of(stack, server, "alice")
    alice.is_mute = True
    heartbeat = heartbeat_request(GROUP, alice.member_id, alice.generation_id)
    await freeze(control)
    async with Client(server) as other:
        for _ in range(5):
            assert (await other.call(heartbeat, 3)).error_code == ErrorCode.NONE
        await control.clocks.remove(GROUP)
        partition = server.runtime.find_partition(GROUP)
        assert is_bare(server)
        assert server.runtime.try_heartbeat(partition, heartbeat, Context(0, 3, "", ""), waits_for_log=False)
        assert (await other.call(heartbeat, 3)).error_code == ErrorCode.NONE
    assert not server.group_events.has_group_time


async def test_a_clock_does_not_change_other_groups_of_the_partition(
    server: Server, control: ControlPlane, process_time: HeldClock, stack: AsyncExitStack
) -> None:
    partition = server.runtime.find_partition(GROUP)
    other = next(name for name in map(str, range(100)) if server.runtime.find_partition(name) is partition)
    (alice,) = await members_of(stack, server, "alice")
    stranger = await stack.enter_async_context(LivingMember(server, other, "stranger"))
    await stranger.settled()
    await freeze(control)
    stranger.is_mute = alice.is_mute = True
    process_time.advance(SESSION_MS + 1000)

    def left() -> bool:
        view = control.clocks.find_group(other)
        return view is not None and not view.members

    await until(left)
    assert there(control) == {"alice"}


async def test_a_new_group_forms_while_its_clock_stands_still(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    await freeze(control)
    alice, bob = await members_of(stack, server, "alice", "bob")
    assert alice.generation_id == bob.generation_id > 0


async def test_the_default_clock_is_that_of_all_groups_without_their_own(
    server: Server, control: ControlPlane, process_time: HeldClock, stack: AsyncExitStack
) -> None:
    (alice,) = await members_of(stack, server, "alice")
    stranger = await stack.enter_async_context(LivingMember(server, "audit", "stranger"))
    await stranger.settled()
    await freeze(control, None)
    assert control.clocks.is_frozen(GROUP)
    assert control.clocks.is_frozen("whoever comes")
    await pass_by(control, HOUR_MS, None)
    await pass_by(control, HOUR_MS)
    ahead_ms = [
        control.clocks.describe_clock(group_id).ahead_ms // 1000 for group_id in (GROUP, "audit", None)
    ]
    assert 7190 <= ahead_ms[0] <= 7200
    assert 3590 <= ahead_ms[1] == ahead_ms[2] <= 3600
    assert [control.clocks.describe_clock(name).clock for name in (GROUP, "audit", None)] == [
        "group",
        "default",
        "default",
    ]
    await control.clocks.remove(None)
    assert control.clocks.find_state("audit") is None
    assert control.clocks.find_state(GROUP) is not None
    await control.clocks.remove(GROUP)
    assert is_bare(server)
    await iterations(20)
    assert ErrorCode.UNKNOWN_MEMBER_ID not in [*alice.told, *stranger.told]


async def test_the_clock_and_later_commits_survive_a_reload(
    server: Server, control: ControlPlane, process_time: HeldClock, stack: AsyncExitStack
) -> None:
    async with Client(server) as client:
        assert code(await client.call(commit(7, group=GROUP), 2)) == ErrorCode.NONE
        await control.clock_commands.advance_clock(
            GROUP, 6 * DAY_MS, silent=[], settle_ms=0, description="", actor=None
        )
        assert code(await client.call(commit(8, group=GROUP), 2)) == ErrorCode.NONE
        await control.clock_commands.advance_clock(
            GROUP, 3 * DAY_MS, silent=[], settle_ms=0, description="", actor=None
        )
        partition = server.runtime.find_partition(GROUP)
        server.runtime.fire_timer(partition, GroupTimerKey(GroupTimerKind.EXPIRE_OFFSETS))
        assert await committed(client, GROUP) == 8
        ahead_ms = control.clocks.describe_clock(GROUP).ahead_ms
        server.runtime.lifecycle.reload_partition(partition)
        assert partition.state is PartitionState.LOADING
        await active(server)
        assert not is_bare(server)
        assert await committed(client, GROUP) == 8
        assert abs(control.clocks.describe_clock(GROUP).ahead_ms - ahead_ms) < 60_000
        await control.clocks.remove(GROUP)
        assert is_bare(server)
        server.runtime.fire_timer(partition, GroupTimerKey(GroupTimerKind.EXPIRE_OFFSETS))
        assert await committed(client, GROUP) == 8
        await pass_by(control, 14 * DAY_MS)
        assert await committed(client, GROUP) == -1


async def test_members_outlive_a_reload_of_a_frozen_group(
    server: Server, control: ControlPlane, process_time: HeldClock, stack: AsyncExitStack
) -> None:
    (alice,) = await members_of(stack, server, "alice")
    await freeze(control)
    partition = server.runtime.find_partition(GROUP)
    server.runtime.lifecycle.reload_partition(partition)
    await active(server)
    process_time.advance(HOUR_MS)
    await iterations(20)
    assert there(control) == {"alice"}
    assert ErrorCode.UNKNOWN_MEMBER_ID not in alice.told


async def test_retention_uses_group_time(server: Server, control: ControlPlane) -> None:
    async with Client(server) as client:
        times_ms: list[int] = []
        server.group_events.subscribe(
            EventRank.COMMANDS, lambda _, __, ___, now: times_ms.append(now.wall_ms)
        )
        for group in (GROUP, "audit"):
            assert code(await client.call(commit(7, group=group), 2)) == ErrorCode.NONE
        advanced = await control.clock_commands.advance_clock(
            GROUP, 8 * DAY_MS, silent=[], settle_ms=0, description="advance 8d", actor=None
        )
        (fired,) = advanced.fired
        assert (fired.timer, fired.events) == ("retention", ["OffsetsExpired 1", "GroupDeleted"])
        assert times_ms[-1] - times_ms[0] >= 8 * DAY_MS, "listeners get the time of the group"
        assert await committed(client, GROUP) == -1
        assert await committed(client, "audit") == 7
        assert (await control.group_client.request("audit", ExpireOffsets("audit"), 0)).partitions == {}


async def test_members_that_are_gone_expire_although_the_clock_stands_still(
    server: Server, control: ControlPlane, process_time: HeldClock, stack: AsyncExitStack
) -> None:
    alice, bob = await members_of(stack, server, "alice", "bob")
    await freeze(control, gone=True)
    await bob.die()
    process_time.advance(SESSION_MS - 20_000)
    await iterations(200)
    assert there(control) == {"alice", "bob"}, "it may come back for as long as its session lasts"
    alice.is_mute = True
    process_time.advance(20_000)
    await until(lambda: there(control) == {"alice"})
    alice.is_mute = False
    await all_settled([alice])


async def test_a_member_that_lives_and_is_silent_stays_while_those_that_are_gone_go(
    server: Server, control: ControlPlane, process_time: HeldClock, stack: AsyncExitStack
) -> None:
    _, bob = await members_of(stack, server, "alice", "bob")
    await freeze(control, gone=True)
    bob.is_mute = True
    process_time.advance(HOUR_MS)
    await iterations(200)
    assert there(control) == {"alice", "bob"}


async def test_a_ghost_expires_after_a_rejoin_over_the_same_connection(
    server: Server, control: ControlPlane, process_time: HeldClock, stack: AsyncExitStack
) -> None:
    alice, bob = await members_of(stack, server, "alice", "bob")
    await freeze(control)
    ghost = bob.member_id
    bob.is_mute = True
    await iterations(30)
    process_time.advance(SESSION_MS + 1000)
    await bob.join_anew()
    await until(lambda: len(members(control)) == 3)
    view = control.clocks.find_group(GROUP)
    assert view is not None
    (finding,) = control.clocks.find_frozen_waits(view)
    assert finding.action is not None
    assert finding.action.operation == "expire_member"
    assert finding.action.arguments == {"group": GROUP, "member": ghost}
    await freeze(control, gone=True)
    await until(lambda: len(members(control)) == 2)
    assert ghost not in members(control)
    await all_settled([alice, bob])


async def test_a_ghost_expires_after_a_rejoin_over_a_new_connection(
    server: Server, control: ControlPlane, process_time: HeldClock, stack: AsyncExitStack
) -> None:
    """A heartbeat times out, and the client does as librdkafka: it repeats the heartbeat over a new connection,
    then joins again."""
    alice, bob = await members_of(stack, server, "alice", "bob")
    await freeze(control, gone=True)
    ghost, beats = bob.member_id, bob.beats
    await bob.reconnect()
    await until(lambda: bob.beats >= beats + 2)
    bob.is_mute = True
    await iterations(30)
    await bob.join_anew()
    await until(lambda: len(members(control)) == 3)
    process_time.advance(SESSION_MS + 1000)
    await until(lambda: len(members(control)) == 2)
    assert ghost not in members(control)
    await all_settled([alice, bob])


def members(control: ControlPlane) -> set[str]:
    """The member ids of the group."""
    view = control.clocks.find_group(GROUP)
    return set() if view is None else {member.name.member_id for member in view.members}


async def test_a_restart_loses_the_clock_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    async with controlled(files=files) as (server, control), Client(server) as client:
        assert code(await client.call(commit(6, group=GROUP), 2)) == ErrorCode.NONE
        await freeze(control)
        await control.clock_commands.advance_clock(
            GROUP, 6 * DAY_MS, silent=[], settle_ms=0, description="", actor=None
        )
        await control.clock_commands.advance_clock(
            GROUP, 2 * DAY_MS, silent=[], settle_ms=0, description="", actor=None
        )
        assert code(await client.call(commit(7, group=GROUP), 2)) == ErrorCode.NONE
    assert "The clocks of 1 group end with this process and were ahead (billing by 8 d" in caplog.text
    caplog.clear()
    server = open_server(settings("/data", files=files))
    restarted = ControlPlane(server)
    await server.listen()
    await asyncio.wait_for(server.ready.wait(), 60)
    try:
        assert restarted.clocks.find_state(GROUP) is None
        assert "Group billing has committed offsets from 8 d" in caplog.text
        async with Client(server) as client:
            assert await committed(client, GROUP) == 7
    finally:
        restarted.close()
        await server.close()


async def test_there_are_no_more_clocks_than_there_may_be(
    control: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_registry, "MAX_CLOCKS", 2)
    await freeze(control, "a")
    await freeze(control, "b")
    with pytest.raises(Problem) as refused:
        await freeze(control, "c")
    assert refused.value.kind is ProblemKind.TOO_MANY
    await freeze(control, "a")
    await control.clocks.remove("a")
    await freeze(control, "c")


async def test_members_that_are_gone_are_not_remembered(
    server: Server, control: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_time, "MAX_HEARD", 30)
    await freeze(control)
    async with Client(server) as client:
        for _ in range(40):
            member_id, generation_id = await join_alone(client, GROUP)
            await client.call(heartbeat_request(GROUP, member_id, generation_id), 3)
            assert control.clocks.times.find_heard_ms(GROUP, member_id) is not None
            await client.call(LeaveGroupRequest(group_id=GROUP, member_id=member_id), 2)


def test_members_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_time, "MAX_HEARD", 3)
    times = group_time.GroupTimeTable()
    for number in range(5):
        times.record_heard(GROUP, f"m{number}", number)
    assert [times.find_heard_ms(GROUP, f"m{number}") for number in range(5)] == [0, 1, 2, None, None]
    times.keep_only_members(GROUP, {"m1"})
    times.record_heard("audit", "m4", 9)
    assert [
        times.find_heard_ms(GROUP, "m0"),
        times.find_heard_ms(GROUP, "m1"),
        times.find_heard_ms("audit", "m4"),
    ] == [
        None,
        1,
        9,
    ]


async def test_a_clock_that_is_held_just_now_is_not_behind(
    server: Server, control: ControlPlane, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes to hold it."""
    await members_of(stack, server, "alice")
    at, ticks = server.group_clock.now(), itertools.count()
    monkeypatch.setattr(
        server.group_clock, "now", lambda: Now(at.monotonic_ms + (tick := next(ticks)), at.wall_ms + tick)
    )
    state = await control.clocks.set_clock(GROUP, frozen=True, expires_disconnected=False)
    assert (state.frozen, state.ahead_ms) == (True, 0)
