"""One member is expired, sent away or cut off; retention looks at one group as if it were later."""

from contextlib import AsyncExitStack

import pytest

from coordinator.broker.group_event_log import EventRank
from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.operator_actions import OperatorAction
from coordinator.control.problem import Problem, ProblemKind
from coordinator.group.event_details import RebalanceCause
from coordinator.group.group_event_types import MemberLeft, RebalanceStarted
from protocol.error_codes import ErrorCode
from tests.broker.harness import Client
from tests.broker.test_group_partitions import code, commit, committed
from tests.control.clock.living_member import GROUP, all_settled, members_of, there, until


async def test_an_expired_member_rejoins_under_a_new_id(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    acts: list[OperatorAction] = []
    control.actions.listeners.append(acts.append)
    alice, bob = await members_of(stack, server, "alice", "bob")
    generation_id, member_id = alice.generation_id, alice.member_id
    expired = await control.member_commands.expire_member(GROUP, "alice", "me")
    assert (expired.expired, expired.rebalance) == (member_id, generation_id + 1)
    assert expired.seq is not None
    assert [(act.kind, act.group_id, act.by) for act in acts] == [("member", GROUP, "me")]
    await until(lambda: len(alice.ids) == 2)
    await all_settled([alice, bob])
    assert ErrorCode.UNKNOWN_MEMBER_ID in alice.told
    assert ErrorCode.UNKNOWN_MEMBER_ID not in bob.told


async def test_a_removed_member_leaves_like_after_leave_group(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    events: list[object] = []
    server.group_events.subscribe(EventRank.COMMANDS, lambda _, event, __, ___: events.append(event))
    await members_of(stack, server, "alice", "bob")
    events.clear()
    removed = await control.member_commands.remove_member(GROUP, "bob", "too slow", None)
    assert removed.client_id == "bob"
    (left,) = [event for event in events if isinstance(event, MemberLeft)]
    assert (left.member.client_id, left.reason) == ("bob", "too slow")
    (started,) = [event for event in events if isinstance(event, RebalanceStarted)]
    assert started.trigger.cause is RebalanceCause.MEMBER_LEFT


async def test_a_member_that_is_cut_off_is_a_member_still_and_counts_as_gone(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    await members_of(stack, server, "alice", "bob")
    assert control.member_commands.disconnect_member(GROUP, "bob", None).connections == 1
    view = control.clocks.find_group(GROUP)
    assert view is not None
    bob = next(member for member in view.members if member.name.client_id == "bob")
    await until(lambda: not control.member_connections.take_snapshot(view).is_connected(bob))
    assert there(control) == {"alice", "bob"}
    advanced = await control.clock_commands.advance_clock(
        GROUP, 45_000, silent=None, settle_ms=5000, description="advance 45s", actor=None
    )
    assert advanced.silent == ["bob"]
    assert there(control) == {"alice"}


@pytest.mark.parametrize(
    ("group_id", "reference", "kind"),
    [
        ("nobody's", "alice", ProblemKind.NO_SUCH_GROUP),
        (GROUP, "alcie", ProblemKind.NO_SUCH_MEMBER),
        (GROUP, "twin", ProblemKind.AMBIGUOUS_MEMBER),
    ],
)
async def test_an_ambiguous_member_is_refused(
    server: Server,
    control: ControlPlane,
    stack: AsyncExitStack,
    group_id: str,
    reference: str,
    kind: ProblemKind,
) -> None:
    await members_of(stack, server, "alice", "twin", "twin")
    with pytest.raises(Problem) as refused:
        await control.member_commands.expire_member(group_id, reference, None)
    assert refused.value.kind is kind
    with pytest.raises(Problem) as refused:
        await control.member_commands.remove_member(group_id, reference, None, None)
    assert refused.value.kind is kind
    assert len(there(control)) == 2


async def test_offsets_expire_while_the_group_is_away(server: Server, control: ControlPlane) -> None:
    async with Client(server) as client:
        assert code(await client.call(commit(7, group=GROUP), 2)) == ErrorCode.NONE
        kept = await control.offset_expiry.expire_offsets(GROUP, "+6d", [], None)
        assert (kept.expired, kept.group) == ({}, "kept")
        assert kept.why_not is not None
        expired = await control.offset_expiry.expire_offsets(GROUP, "+8d", [], None)
        assert (expired.expired, expired.group, expired.why_not) == ({"orders": [0]}, "deleted", None)
        assert await committed(client, GROUP) == -1
        with pytest.raises(Problem) as refused:
            await control.offset_expiry.expire_offsets(GROUP, "+8d", [], None)
        assert refused.value.kind is ProblemKind.NO_SUCH_GROUP


async def test_offsets_of_members_are_kept_and_the_answer_says_why(
    server: Server, control: ControlPlane, stack: AsyncExitStack
) -> None:
    (alice,) = await members_of(stack, server, "alice")
    alice.is_mute = True
    async with Client(server) as client:
        stored = commit(7, group=GROUP, member_id=alice.member_id, generation_id=alice.generation_id)
        assert code(await client.call(stored, 5)) == ErrorCode.NONE
        kept = await control.offset_expiry.expire_offsets(GROUP, "+80d", [], None)
        assert kept.why_not is not None
        assert "alice" in kept.why_not
        assert await committed(client, GROUP) == 7


@pytest.mark.parametrize("at", ["8d", "tomorrow", "+soon", 1])
async def test_an_invalid_or_past_time_is_refused(
    server: Server, control: ControlPlane, at: int | str
) -> None:
    async with Client(server) as client:
        await client.call(commit(7, group=GROUP), 2)
        with pytest.raises(Problem) as refused:
            await control.offset_expiry.expire_offsets(GROUP, at, [], None)
        assert refused.value.kind is ProblemKind.BAD_REQUEST
        assert refused.value.fields["pointer"] == "/at"
