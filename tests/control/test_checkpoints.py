"""Jobs of the control plane report objects as they are after each checkpoint."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from coordinator.broker import server_view
from coordinator.broker.server import Server
from coordinator.control.admin.offset_operations import OffsetReset
from coordinator.control.daemon_control_plane import DaemonControlPlane
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.time_budget import UnlimitedBudget
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import Client, join_alone, join_request, sync_request
from tests.control.checkpoints import CheckpointRequests
from tests.control.clock.living_member import until
from tests.control.serving import controlled

GROUPS = [f"group-{number}" for number in range(6)]


@pytest.fixture
async def served() -> AsyncIterator[tuple[Server, DaemonControlPlane]]:
    async with controlled() as served:
        yield served


@pytest.fixture
def server(served: tuple[Server, DaemonControlPlane]) -> Server:
    return served[0]


@pytest.fixture
def control(served: tuple[Server, DaemonControlPlane]) -> DaemonControlPlane:
    return served[1]


async def create_groups(server: Server) -> None:
    """Create empty groups with an offset each."""
    topics = [
        OffsetCommitRequestTopic(
            name="orders", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
        )
    ]
    async with Client(server) as client:
        for group in GROUPS:
            answer = await client.call(OffsetCommitRequest(group_id=group, topics=topics), 7)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


async def test_a_topic_that_is_deleted_at_a_checkpoint_is_not_listed(
    control: DaemonControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await control.topics.create_topics({"audit": 1, "payments": 1})
    CheckpointRequests(lambda: control.topics.delete_topic("payments", None), at=0).install(monkeypatch)
    assert [topic.name for topic in await control.topics.list_topics()] == ["audit", "orders"]


@pytest.mark.parametrize("at", range(len(GROUPS)))
async def test_a_partition_that_moves_at_a_checkpoint_hides_no_group(
    server: Server, control: DaemonControlPlane, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The partition is loaded again when the list continues."""
    await create_groups(server)

    async def move_all() -> None:
        for partition in server.runtime.partitions:
            await control.failover.failover_partition(partition.number, 0, 0)
        await until(lambda: all(each.machine is not None for each in server.runtime.partitions))

    CheckpointRequests(move_all, at).install(monkeypatch)
    assert [group.group_id for group in await control.groups.list_groups()] == GROUPS


async def test_groups_of_a_partition_that_is_loading_after_a_checkpoint_are_a_problem(
    server: Server, control: DaemonControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_groups(server)

    partitions = server.runtime.partitions
    moves: list[asyncio.Task[object]] = []

    async def move_all() -> None:
        for partition in partitions:
            move = control.failover.failover_partition(partition.number, 0, 60_000)
            moves.append(asyncio.create_task(move))
        await until(lambda: all(each.state is PartitionState.LOADING for each in partitions))

    CheckpointRequests(move_all, at=0).install(monkeypatch)
    with pytest.raises(Problem) as refused:
        await control.groups.list_groups()
    assert refused.value.kind is ProblemKind.LOADING
    for move in moves:
        move.cancel()


@pytest.mark.parametrize("at", range(len(GROUPS)))
async def test_a_group_that_is_deleted_at_a_checkpoint_ends_no_job(
    server: Server, control: DaemonControlPlane, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    await create_groups(server)
    deleted = GROUPS[-1]
    requests = CheckpointRequests(lambda: control.groups.delete_group(deleted, None), at)
    requests.install(monkeypatch)
    found = [group.group_id for group in (await control.group_metrics.take_snapshot(lambda _: True)).groups]
    assert requests.count > at
    assert found == GROUPS[:-1]
    assert (await control.metrics.take_snapshot()).session_margin == 1
    assert [group.group_id for group in await control.groups.list_groups()] == GROUPS[:-1]


async def test_a_rebalance_that_ends_at_a_checkpoint_is_not_open_in_the_metrics(
    server: Server, control: DaemonControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(server) as client:
        await join_alone(client, "audit")
        joined = await client.call(join_request("billing"), 3)
        member_id, assignments = joined.member_id, {joined.member_id: b"all"}

        async def end_rebalance() -> None:
            synced = await client.call(
                sync_request("billing", member_id, joined.generation_id, assignments), 3
            )
            assert synced.error_code == ErrorCode.NONE

        opened = await control.group_metrics.take_snapshot(lambda _: True)
        assert [group.rebalance_open_s > 0 for group in opened.groups] == [False, True]
        # Two checkpoints select the groups, the third follows the first group.
        CheckpointRequests(end_rebalance, at=2).install(monkeypatch)
        found = await control.group_metrics.take_snapshot(lambda _: True)
        assert [(group.state, group.rebalance_open_s) for group in found.groups] == [("Stable", 0)] * 2


@pytest.mark.parametrize("is_created_again", [False, True])
async def test_no_offset_of_a_topic_that_is_deleted_at_a_checkpoint_is_set(
    server: Server, control: DaemonControlPlane, monkeypatch: pytest.MonkeyPatch, is_created_again: bool
) -> None:
    await create_groups(server)
    reset = OffsetReset(to="latest", topics=["orders"])

    async def delete_topic() -> None:
        await control.topics.delete_topic("orders", None)
        if is_created_again:
            await control.topics.create_topics({"orders": 3})

    requests = CheckpointRequests(delete_topic, at=0).install(monkeypatch)
    with pytest.raises(Problem) as refused:
        await control.offsets.reset_offsets(GROUPS[0], reset, None)
    assert requests.count
    assert refused.value.kind is ProblemKind.NO_SUCH_TOPIC
    offsets = (await control.offsets.describe_offsets(GROUPS[0])).offsets
    assert 0 not in [each.offset for each in offsets]


async def test_metrics_leave_out_topics_and_connections_that_go_at_a_checkpoint(
    server: Server, control: DaemonControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_view, "_ITEMS_PER_STEP", 1)
    await control.topics.create_topics({"payments": 1})
    async with Client(server) as first, Client(server) as second:
        await join_alone(first, "audit")
        second.send(join_request("audit"), 3)  # answered when the first member has joined again
        await until(lambda: sum(each.unanswered_requests for each in server.connections.open) == 1)

        class Budget(UnlimitedBudget):
            async def checkpoint(self) -> None:
                if server.data_plane.catalogue.find_topic("payments") is not None:
                    await control.topics.delete_topic("payments", None)
                for connection in list(server.connections.open):
                    connection.close()
                await asyncio.sleep(0)

        metrics = await server_view.collect_metrics(server, Budget())
    assert "payments" not in metrics.log_bytes
    assert metrics.connections.open == 0
    assert metrics.connections.unanswered_requests == 0


async def test_jobs_of_namespaces_take_turns_in_one_queue(
    server: Server, control: DaemonControlPlane
) -> None:
    """The loop resumes one of them in an iteration, however many namespaces there are."""
    created = [
        await control.namespaces.create_namespace(None, {}, {}, is_durable=False, by=None) for _ in range(2)
    ]
    resumed: list[int] = []

    async def wait(number: int, waiting: Server) -> None:
        await waiting.run_queue.wait_turn()
        resumed.append(number)

    servers = [server, *(namespace.server for namespace in created)]
    tasks = [asyncio.create_task(wait(number, each)) for number, each in enumerate(servers)]
    counts: list[int] = []
    while len(resumed) < len(servers):
        await asyncio.sleep(0)
        counts.append(len(resumed))
    await asyncio.gather(*tasks)
    assert resumed == [0, 1, 2]
    assert [count for count in (1, 2, 3) if count in counts] == [1, 2, 3]
