"""Explanations without a wait: the activity of a group, and contradictory settings of its members."""

from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from msgspec import structs

from coordinator.control.diagnosis.group_diagnosis import format_explanation
from coordinator.control.group_finding import FindingAction, FindingOperation, GroupFinding, format_request
from protocol.error_codes import ErrorCode
from tests.control.diagnosis.staged_group import SESSION_MS, Stage, staged
from tests.control.diagnosis.test_failed_waits import cut_off, names_all


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged() as stage:
        yield stage


async def test_a_group_in_order(stage: Stage) -> None:
    await stage.stable("alice", "bob")
    stage.held.advance(4_000)
    explained = stage.explain()
    assert explained.detail == "billing is Stable since 4.0 s with 2 members (alice, bob) in generation 1."
    assert not explained.findings
    assert not explained.hints
    assert format_explanation(explained) == f"{explained.detail}\n"


async def test_an_unknown_group_is_explained(stage: Stage) -> None:
    explained = stage.explain()
    assert explained.state == "Dead"
    assert explained.generation_id is None
    assert "Group billing does not exist" in explained.detail


async def test_an_empty_group(stage: Stage) -> None:
    (alice,) = await stage.stable("alice")
    stage.held.advance(SESSION_MS)
    await stage.wait(state="Empty")
    stage.held.advance(2_000)
    assert stage.explain().detail == "billing is Empty since 2.0 s: it has no members."
    assert alice.member_id


async def test_a_lost_member_leads_the_findings(stage: Stage) -> None:
    """The sentence says since when it is gone and which partitions have no reader; the action ends its session."""
    _, bob = await stage.stable("svc", "bob", rebalance_ms=30_000)
    await cut_off(stage, bob)
    stage.held.advance(2_000)
    worst = stage.explain().findings[0]
    assert worst.blocks
    assert worst.members == [bob.member_id]
    names_all(worst.sentence, "bob is disconnected", "heard 2.0 s ago", "session ends in 43 s", "no reader")
    assert worst.action is not None
    assert worst.action.operation is FindingOperation.EXPIRE_MEMBER
    assert worst.action.arguments == {"group": "billing", "member": "bob"}
    assert "POST /v1/groups/billing/members/bob/expire" in format_explanation(stage.explain())


async def test_actions_name_members_so_that_commands_find_them(stage: Stage) -> None:
    """The reference to a member with a shared client id is its member id, without any escape."""
    first, second = await stage.stable("a/b", "a/b")
    await cut_off(stage, second)
    (gone,) = [one for one in stage.explain().findings if one.kind == "gone"]
    assert gone.action is not None
    assert gone.action.arguments["member"] == second.member_id != first.member_id
    assert f"/members/{quote(second.member_id, safe='')}/expire" in format_request(gone.action)


async def test_the_text_has_actions_of_findings_without_a_hint(stage: Stage) -> None:
    action = FindingAction(
        operation=FindingOperation.EXPIRE_MEMBER,
        label="Expire bob",
        arguments={"group": "g", "member": "bob"},
    )
    finding = GroupFinding(kind="pending", sentence="bob never joined", blocks=False, action=action)
    explained = structs.replace(stage.explain(), findings=[finding, finding])
    assert (
        format_explanation(explained).splitlines()[-1] == "? Expire bob: POST /v1/groups/g/members/bob/expire"
    )


async def test_every_finding_is_a_line_for_people(stage: Stage) -> None:
    await stage.stable("svc", "svc", rebalance_ms=30_000)
    lines = format_explanation(stage.explain()).splitlines()
    assert lines[0].startswith("billing is Stable")
    assert any(line.startswith("- ") and line.endswith(".") for line in lines)
    assert any(line.startswith("? ") for line in lines)


async def test_heartbeats_too_far_apart(stage: Stage) -> None:
    await stage.stable("alice")
    stage.held.advance(16_000)
    names_all(stage.found("silent"), "alice", "last heard 16 s ago", "a third of its session of 45 s")


async def test_a_session_longer_than_the_rebalance_timeout(stage: Stage) -> None:
    await stage.stable("alice", rebalance_ms=30_000)
    names_all(stage.found("session_outlasts_rebalance"), "alice (45 s)", "the rebalance timeout (30 s)")


async def test_rebalance_timeouts_that_differ(stage: Stage) -> None:
    alice = await stage.consumer("alice", rebalance_ms=60_000)
    bob = await stage.consumer("bob", rebalance_ms=600_000)
    await stage.joined([alice, bob])
    await stage.synced([alice, bob])
    names_all(stage.found("rebalance_timeouts_differ"), "600 s of bob; 60 s of alice")


async def test_assignors_that_differ(stage: Stage) -> None:
    alice = await stage.consumer("alice", assignors=["cooperative-sticky", "range"])
    bob = await stage.consumer("bob", assignors=["range"])
    await stage.joined([alice, bob])
    await stage.synced([alice, bob])
    said = stage.found("assignors_differ")
    names_all(said, "{cooperative-sticky, range} by alice", "{range} by bob", "range was chosen")


async def test_client_ids_that_are_the_same(stage: Stage) -> None:
    await stage.stable("svc", "svc")
    names_all(stage.found("same_client_id"), "2 members have the client id svc")
    assert "svc-" in stage.explain().detail, "member ids distinguish the members"


async def test_instance_ids_that_change_at_each_start(stage: Stage) -> None:
    """Pods use their random names as instance ids, so no instance id returns."""
    for number in range(3):
        pod = await stage.consumer("svc", instance_id=f"pod-{number}")
        if number == 0:
            await stage.joined([pod])
            await stage.synced([pod])
        else:
            await stage.joining([pod])
            stage.held.advance(SESSION_MS)
            await pod.receive_join()
            assert pod.leads
            await stage.synced([pod])
        if number < 2:
            await cut_off(stage, pod)
    names_all(stage.found("instance_ids_change"), "svc came under 3 instance ids", "pod-0, pod-1, pod-2")


async def test_a_ghost_at_rest(stage: Stage) -> None:
    """The old id is still a member of a Stable group, and its partitions have no reader."""
    alice, bob = await stage.stable("alice", "bob")
    old_id = bob.member_id
    bob.forget()
    await stage.joining([bob])
    for consumer in (alice,):
        assert await consumer.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    finding = next(one for one in stage.explain().findings if one.kind == "ghost")
    assert finding.members == [old_id]
    assert not any(one.kind == "same_client_id" for one in stage.explain().findings)


async def test_names_that_would_steer_a_terminal(stage: Stage) -> None:
    """All names from clients and callers are printable in explanations."""
    evil = "\x1b[2J\n" + "x" * 500
    alice = await stage.consumer(evil, topics=[evil[:100]], group=evil, assignors=[evil[:20]])
    await stage.joined([alice])
    await stage.synced([alice])
    stage.explain(evil)
    problem = await stage.unmet(evil, clients=[evil], owned=[evil], owner={f"{evil}-0": evil}, lag_max=1)
    assert problem.detail.isprintable()
    assert problem.title.isprintable()
    assert len(problem.detail) < 3_000


async def test_a_large_group_is_explained_in_a_few_lines(stage: Stage) -> None:
    await stage.stable(*(f"member-{number}" for number in range(60)), topics=["orders"])
    problem = await stage.unmet(members=61)
    assert "and 50 more" in problem.detail
    assert len(problem.detail) < 2_000
    assert len(format_explanation(stage.explain())) < 4_000
