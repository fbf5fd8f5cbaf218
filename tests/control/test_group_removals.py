"""Every response about a removed group has the time and the reason of the removal."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.daemon_control_plane import DaemonControlPlane
from coordinator.control.diagnosis.wait_conditions import GroupConditions
from coordinator.control.group_removals import MAX_REMOVALS, GroupRemovals, RemovalReason
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core import clock
from coordinator.core.outcome import Now
from coordinator.group.group_event_types import GroupDeleted
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from coordinator.http.api.api_route import ApiCall
from coordinator.http.api.ledger_routes import ROUTES as LEDGER_ROUTES
from coordinator.http.api.ledger_routes import LedgerQuery, show_group_ledger
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import TIMEOUT_S, Client, join_alone
from tests.control.serving import controlled

GROUP = "billing"
MINUTE_MS = 60_000
DAY_MS = 86_400_000


@pytest.fixture
async def serving() -> AsyncIterator[tuple[Server, DaemonControlPlane]]:
    async with controlled() as serving:
        yield serving


async def empty_group(server: Server) -> None:
    """A member joins and leaves."""
    async with Client(server) as client:
        member_id, _ = await join_alone(client, GROUP)
        leave = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member_id)])
        assert (await client.call(leave, 3)).error_code == ErrorCode.NONE


async def commit(server: Server) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    async with Client(server) as client:
        await client.call(OffsetCommitRequest(group_id=GROUP, topics=topics), 8)


async def advance(control: DaemonControlPlane, by_ms: int) -> None:
    await control.clock_commands.advance_clock(
        GROUP, by_ms, silent=None, settle_ms=0, description="advance", actor="carol"
    )


async def removal(control: ControlPlane, reason: RemovalReason, *words: str) -> None:
    """Check the texts about a group that was removed for a reason."""
    explained = control.waits.explain_group(GROUP)
    assert explained.removed is not None
    assert explained.removed.reason is reason
    assert abs(explained.removed.at_ms - clock.wall_ms()) < TIMEOUT_S * 1000
    sentences = [explained.detail]
    for conditions in (GroupConditions(state="Empty"), GroupConditions(members=1)):
        with pytest.raises(Problem) as unmet:
            await control.waits.check_conditions(GROUP, conditions)
        assert unmet.value.fields["removed"] is not None
        sentences.append(unmet.value.detail)
    for ask in (
        control.groups.describe_group(GROUP),
        control.groups.delete_group(GROUP, None),
        control.member_commands.expire_member(GROUP, "alice", None),
        control.offset_expiry.expire_offsets(GROUP, "+0s", (), None),
    ):
        with pytest.raises(Problem) as unknown:
            await ask
        assert unknown.value.kind is ProblemKind.NO_SUCH_GROUP
        assert unknown.value.fields["removed"] is not None
        sentences.append(unknown.value.detail)
    sentences.append((await control.waits.check_conditions(GROUP, GroupConditions(state="Dead"))).detail)
    for sentence in sentences:
        assert "removed at" in sentence
        assert [word for word in words if word not in sentence] == []


async def test_an_empty_group_stays_for_as_long_as_on_kafka(
    serving: tuple[Server, DaemonControlPlane],
) -> None:
    server, control = serving
    await empty_group(server)
    await advance(control, 9 * MINUTE_MS)
    assert (
        await control.waits.check_conditions(GROUP, GroupConditions(state="Empty"))
    ).group.state == "Empty"
    await advance(control, 10 * MINUTE_MS)
    await removal(
        control, RemovalReason.NO_OFFSETS, "no committed offsets", "carol advanced its clock by 10 min"
    )


async def test_a_retention_check_removes_an_empty_group(serving: tuple[Server, DaemonControlPlane]) -> None:
    server, control = serving
    await empty_group(server)
    server.runtime.fire_timer(
        server.runtime.find_partition(GROUP), GroupTimerKey(GroupTimerKind.EXPIRE_OFFSETS)
    )
    await removal(
        control, RemovalReason.NO_OFFSETS, "no members and no committed offsets at a retention check"
    )
    await empty_group(server)
    assert control.waits.explain_group(GROUP).removed is None, "it exists again"


async def test_the_last_offsets_expire(serving: tuple[Server, DaemonControlPlane]) -> None:
    server, control = serving
    await commit(server)
    await control.offset_expiry.expire_offsets(GROUP, "+8d", (), "carol")
    await removal(
        control, RemovalReason.OFFSETS_EXPIRED, "its last committed offsets expired", "carol", "as of +8d"
    )
    await commit(server)
    await advance(control, 8 * DAY_MS)
    await removal(control, RemovalReason.OFFSETS_EXPIRED, "carol advanced its clock by 8 d")


async def test_a_client_or_an_operator_deletes_it(serving: tuple[Server, DaemonControlPlane]) -> None:
    server, control = serving
    await empty_group(server)
    async with Client(server, "admin") as client:
        deleted = await client.call(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    assert [result.error_code for result in deleted.results] == [ErrorCode.NONE]
    await removal(control, RemovalReason.DELETED, "admin at 127.0.0.1 deleted it")
    await empty_group(server)
    await control.groups.delete_group(GROUP, "carol")
    await removal(control, RemovalReason.DELETED, "carol deleted it")


async def test_a_namespace_is_reset(serving: tuple[Server, DaemonControlPlane]) -> None:
    _, control = serving
    made = await control.namespaces.create_namespace("tests", {"orders": 1}, {}, is_durable=False, by=None)
    async with Client(port=made.server.endpoints[0].port) as client:
        await join_alone(client, GROUP)
    for _ in range(2):  # a second reset finds no group, and forgets nothing
        await control.namespaces.reset_namespace("tests", "carol")
        await removal(made.control, RemovalReason.NAMESPACE_RESET, "carol reset the namespace tests")


async def test_a_group_that_was_never_there(serving: tuple[Server, DaemonControlPlane]) -> None:
    _, control = serving
    assert "groupd has seen no member" in control.waits.explain_group(GROUP).detail
    with pytest.raises(Problem, match="groupd has seen no member"):
        await control.groups.describe_group(GROUP)


async def test_a_wait_continues_after_the_removal_of_its_group(
    serving: tuple[Server, DaemonControlPlane],
) -> None:
    server, control = serving
    await empty_group(server)
    waiting = asyncio.create_task(
        control.waits.wait_for_conditions(GROUP, GroupConditions(state="Dead"), TIMEOUT_S * 1000)
    )
    await asyncio.sleep(0)
    await control.groups.delete_group(GROUP, "carol")
    assert "carol deleted it" in (await waiting).detail


async def test_the_ledger_of_a_removed_group_ends_with_its_removal(
    serving: tuple[Server, DaemonControlPlane],
) -> None:
    server, control = serving
    await empty_group(server)
    [route] = [each for each in LEDGER_ROUTES if each.path == "/groups/{group}/ledger"]
    call = ApiCall(path={"group": GROUP}, query=LedgerQuery(), body=None, actor=None, last_event_id=None)
    assert (await show_group_ledger(control, call)).removed is None
    await control.groups.delete_group(GROUP, "carol")
    answer = await show_group_ledger(control, call)
    assert route.text is not None
    assert "carol deleted it" in route.text(answer).splitlines()[-1]


def test_the_oldest_removals_are_forgotten() -> None:
    removals = GroupRemovals()
    for number in range(MAX_REMOVALS + 1):
        removals.on_event(0, GroupDeleted(f"g{number}", 0, "retention"), number, Now(0, 0))
    assert removals.find("g0") is None
    assert removals.find("g1") is not None
    assert [each.group_id for each in removals.newest("g99", 2)] == ["g9999", "g9998"]
