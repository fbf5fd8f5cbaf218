"""Of a group that is gone, everything that speaks of it says when and why it was removed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from coordinator import clock
from coordinator.console.api.ledger import ROUTES as LEDGER_ROUTES
from coordinator.console.api.ledger import LedgerQuery, of_group
from coordinator.console.api.route import Call
from coordinator.control.control import Control
from coordinator.control.group_removals import MOST_REMOVALS, GroupRemovals, RemovalReason
from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.waits.conditions import Conditions
from coordinator.group.events import GroupDeleted
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.machine.outcome import Now
from coordinator.server.server import Server
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.control.serving import controlled
from tests.server.harness import TIMEOUT_S, Client, join_alone

GROUP = "billing"
MINUTE_MS = 60_000
DAY_MS = 86_400_000


@pytest.fixture
async def serving() -> AsyncIterator[tuple[Server, Control]]:
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


async def advance(control: Control, by_ms: int) -> None:
    await control.moving.advance(GROUP, by_ms, silent=None, settle_ms=0, what="advance", actor="carol")


async def removal(control: Control, reason: RemovalReason, *words: str) -> None:
    """Checks what is said of the group, which was removed for this reason, in these words."""
    explained = control.waits.explain(GROUP)
    assert explained.removed is not None
    assert explained.removed.reason is reason
    assert abs(explained.removed.at_ms - clock.wall_ms()) < TIMEOUT_S * 1000
    sentences = [explained.detail]
    for conditions in (Conditions(state="Empty"), Conditions(members=1)):
        with pytest.raises(Problem) as unmet:
            await control.waits.check(GROUP, conditions)
        assert unmet.value.fields["removed"] is not None
        sentences.append(unmet.value.detail)
    for ask in (
        control.groups.describe(GROUP),
        control.groups.delete(GROUP, None),
        control.member_acts.expire(GROUP, "alice", None),
        control.retention.expire(GROUP, "+0s", (), None),
    ):
        with pytest.raises(Problem) as unknown:
            await ask
        assert unknown.value.kind is ProblemKind.NO_SUCH_GROUP
        assert unknown.value.fields["removed"] is not None
        sentences.append(unknown.value.detail)
    sentences.append((await control.waits.check(GROUP, Conditions(state="Dead"))).detail)
    for sentence in sentences:
        assert "removed at" in sentence
        assert [word for word in words if word not in sentence] == []


async def test_an_empty_group_stays_for_as_long_as_on_kafka(serving: tuple[Server, Control]) -> None:
    server, control = serving
    await empty_group(server)
    await advance(control, 9 * MINUTE_MS)
    assert (await control.waits.check(GROUP, Conditions(state="Empty"))).group.state == "Empty"
    await advance(control, 10 * MINUTE_MS)
    await removal(
        control, RemovalReason.NO_OFFSETS, "no committed offsets", "carol advanced its clock by 10 min"
    )


async def test_a_retention_check_removes_an_empty_group(serving: tuple[Server, Control]) -> None:
    server, control = serving
    await empty_group(server)
    server.runtime.fire(server.runtime.partition_of(GROUP), TimerKey(TimerKind.EXPIRE_OFFSETS))
    await removal(
        control, RemovalReason.NO_OFFSETS, "no members and no committed offsets at a retention check"
    )
    await empty_group(server)
    assert control.waits.explain(GROUP).removed is None, "it exists again"


async def test_the_last_offsets_expire(serving: tuple[Server, Control]) -> None:
    server, control = serving
    await commit(server)
    await control.retention.expire(GROUP, "+8d", (), "carol")
    await removal(
        control, RemovalReason.OFFSETS_EXPIRED, "its last committed offsets expired", "carol", "as of +8d"
    )
    await commit(server)
    await advance(control, 8 * DAY_MS)
    await removal(control, RemovalReason.OFFSETS_EXPIRED, "carol advanced its clock by 8 d")


async def test_a_client_or_an_operator_deletes_it(serving: tuple[Server, Control]) -> None:
    server, control = serving
    await empty_group(server)
    async with Client(server, "admin") as client:
        deleted = await client.call(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    assert [result.error_code for result in deleted.results] == [ErrorCode.NONE]
    await removal(control, RemovalReason.DELETED, "admin at 127.0.0.1 deleted it")
    await empty_group(server)
    await control.groups.delete(GROUP, "carol")
    await removal(control, RemovalReason.DELETED, "carol deleted it")


async def test_a_namespace_is_reset(serving: tuple[Server, Control]) -> None:
    _, control = serving
    made = await control.namespaces.make("tests", {"orders": 1}, {}, is_durable=False, by=None)
    async with Client(port=made.server.endpoints[0].port) as client:
        await join_alone(client, GROUP)
    for _ in range(2):  # a second reset finds no group, and forgets nothing
        await control.namespaces.reset("tests", "carol")
        await removal(made.control, RemovalReason.NAMESPACE_RESET, "carol reset the namespace tests")


async def test_a_group_that_was_never_there(serving: tuple[Server, Control]) -> None:
    _, control = serving
    assert "groupd has no record of a member" in control.waits.explain(GROUP).detail
    with pytest.raises(Problem, match="groupd has no record of a member"):
        await control.groups.describe(GROUP)


async def test_a_wait_that_goes_on_when_the_group_is_removed(serving: tuple[Server, Control]) -> None:
    server, control = serving
    await empty_group(server)
    waiting = asyncio.create_task(control.waits.wait(GROUP, Conditions(state="Dead"), TIMEOUT_S * 1000))
    await asyncio.sleep(0)
    await control.groups.delete(GROUP, "carol")
    assert "carol deleted it" in (await waiting).detail


async def test_the_ledger_of_a_removed_group_ends_with_its_removal(serving: tuple[Server, Control]) -> None:
    server, control = serving
    await empty_group(server)
    [route] = [each for each in LEDGER_ROUTES if each.path == "/groups/{group}/ledger"]
    call = Call(path={"group": GROUP}, query=LedgerQuery(), body=None, actor=None, last_event_id=None)
    assert (await of_group(control, call)).removed is None
    await control.groups.delete(GROUP, "carol")
    answer = await of_group(control, call)
    assert route.text is not None
    assert "carol deleted it" in route.text(answer).splitlines()[-1]


def test_the_oldest_removals_are_forgotten() -> None:
    removals = GroupRemovals()
    for number in range(MOST_REMOVALS + 1):
        removals.on_event(0, GroupDeleted(f"g{number}", 0, "retention"), number, Now(0, 0))
    assert removals.find("g0") is None
    assert removals.find("g1") is not None
    assert [each.group_id for each in removals.newest("g99", 2)] == ["g9999", "g9998"]
