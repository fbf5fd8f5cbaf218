"""One member is expired, sent away or cut off; retention looks at one group as if it were later."""

from contextlib import AsyncExitStack

import pytest

from coordinator.control.acts import Act
from coordinator.control.control import Control
from coordinator.control.problem import Problem, ProblemKind
from coordinator.group.events import MemberLeft, RebalanceStarted
from coordinator.group.rebalance_facts import RebalanceCause
from coordinator.server.server import Server
from protocol.errors import ErrorCode
from tests.control.clock.living_member import GROUP, all_settled, members_of, there, until
from tests.server.harness import Client
from tests.server.test_runtime import code, commit, committed


async def test_an_expired_member_is_told_so_and_comes_back_under_a_new_id(
    server: Server, control: Control, stack: AsyncExitStack
) -> None:
    acts: list[Act] = []
    control.acts.listeners.append(acts.append)
    alice, bob = await members_of(stack, server, "alice", "bob")
    generation_id, member_id = alice.generation_id, alice.member_id
    expired = await control.member_acts.expire(GROUP, "alice", "me")
    assert (expired.expired, expired.rebalance) == (member_id, generation_id + 1)
    assert expired.seq is not None
    assert [(act.kind, act.group_id, act.by) for act in acts] == [("member", GROUP, "me")]
    await until(lambda: len(alice.ids) == 2)
    await all_settled([alice, bob])
    assert ErrorCode.UNKNOWN_MEMBER_ID in alice.told
    assert ErrorCode.UNKNOWN_MEMBER_ID not in bob.told


async def test_a_member_that_is_sent_away_leaves_as_if_it_had_said_so(
    server: Server, control: Control, stack: AsyncExitStack
) -> None:
    told: list[object] = []
    server.group_events.listeners.append(lambda _, event, __, ___: told.append(event))
    await members_of(stack, server, "alice", "bob")
    told.clear()
    removed = await control.member_acts.remove(GROUP, "bob", "too slow", None)
    assert removed.client_id == "bob"
    (left,) = [event for event in told if isinstance(event, MemberLeft)]
    assert (left.member.client_id, left.reason) == ("bob", "too slow")
    (started,) = [event for event in told if isinstance(event, RebalanceStarted)]
    assert started.trigger.cause is RebalanceCause.MEMBER_LEFT


async def test_a_member_that_is_cut_off_is_a_member_still_and_counts_as_gone(
    server: Server, control: Control, stack: AsyncExitStack
) -> None:
    await members_of(stack, server, "alice", "bob")
    assert control.member_acts.disconnect(GROUP, "bob", None).connections == 1
    view = control.clocks.view(GROUP)
    assert view is not None
    bob = next(member for member in view.members if member.name.client_id == "bob")
    await until(lambda: not control.member_connections.seen(view).is_connected(bob))
    assert there(control) == {"alice", "bob"}
    advanced = await control.moving.advance(
        GROUP, 45_000, silent=None, settle_ms=5000, what="advance 45s", actor=None
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
async def test_who_is_meant_has_to_be_clear(
    server: Server, control: Control, stack: AsyncExitStack, group_id: str, reference: str, kind: ProblemKind
) -> None:
    await members_of(stack, server, "alice", "twin", "twin")
    with pytest.raises(Problem) as refused:
        await control.member_acts.expire(group_id, reference, None)
    assert refused.value.kind is kind
    with pytest.raises(Problem) as refused:
        await control.member_acts.remove(group_id, reference, None, None)
    assert refused.value.kind is kind
    assert len(there(control)) == 2


async def test_offsets_expire_while_the_group_is_away(server: Server, control: Control) -> None:
    async with Client(server) as client:
        assert code(await client.call(commit(7, group=GROUP), 2)) == ErrorCode.NONE
        kept = await control.retention.expire(GROUP, "+6d", [], None)
        assert (kept.expired, kept.group) == ({}, "kept")
        assert kept.why_not is not None
        expired = await control.retention.expire(GROUP, "+8d", [], None)
        assert (expired.expired, expired.group, expired.why_not) == ({"orders": [0]}, "deleted", None)
        assert await committed(client, GROUP) == -1
        with pytest.raises(Problem) as refused:
            await control.retention.expire(GROUP, "+8d", [], None)
        assert refused.value.kind is ProblemKind.NO_SUCH_GROUP


async def test_offsets_of_members_are_kept_and_the_answer_says_why(
    server: Server, control: Control, stack: AsyncExitStack
) -> None:
    (alice,) = await members_of(stack, server, "alice")
    alice.is_mute = True
    async with Client(server) as client:
        stored = commit(7, group=GROUP, member_id=alice.member_id, generation_id=alice.generation_id)
        assert code(await client.call(stored, 5)) == ErrorCode.NONE
        kept = await control.retention.expire(GROUP, "+80d", [], None)
        assert kept.why_not is not None
        assert "alice" in kept.why_not
        assert await committed(client, GROUP) == 7


@pytest.mark.parametrize("at", ["8d", "tomorrow", "+soon", 1])
async def test_a_time_that_is_none_or_past_is_refused(
    server: Server, control: Control, at: int | str
) -> None:
    async with Client(server) as client:
        await client.call(commit(7, group=GROUP), 2)
        with pytest.raises(Problem) as refused:
            await control.retention.expire(GROUP, at, [], None)
        assert refused.value.kind is ProblemKind.BAD_REQUEST
        assert refused.value.fields["pointer"] == "/at"
