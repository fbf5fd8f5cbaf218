"""Transactions over three daemons: coordinator, leaders and the coordinator of the group are different ones."""

from pathlib import Path

import pytest

from coordinator.core.shared_types import TRANSACTION_STATE
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.transactor import TOPICS, Transactor, until_answered
from tests.cluster.daemon.cluster_daemons import daemons_with, eventually
from tests.cluster.daemon.routed import TRANSACTION, Routed
from tests.cluster.daemon.spread import PROPERTIES, coordinator_of, spread


async def stable_offset(client: Routed, group: str) -> int:
    """Once no transaction is open that has another."""
    found = -1

    async def ask() -> ErrorCode:
        nonlocal found
        topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
        answer = await client.call(OffsetFetchRequest(group_id=group, topics=[topic], require_stable=True), 7)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        [part] = answer.topics[0].partitions
        found = part.committed_offset
        return ErrorCode(part.error_code)

    await until_answered(ask)
    return found


@pytest.mark.parametrize("level", [0, 2])
async def test_what_is_committed_is_seen_everywhere_and_nothing_else(tmp_path: Path, level: int) -> None:
    async with daemons_with((), tmp_path, 3, **PROPERTIES) as cluster:
        transactor, client = await spread(cluster, level)
        await transactor.begin(client)
        await transactor.transact(client)
        await transactor.transact(client, commits=False)
        await transactor.transact(client)
        transactor.promises.settle(await transactor.look(client))
        assert transactor.promises.committed == {1, 3}


async def test_a_commit_whose_coordinator_dies_before_the_markers_is_completed_by_its_heir(
    tmp_path: Path,
) -> None:
    async with daemons_with((), tmp_path, 3, **PROPERTIES) as cluster:
        transactor, client = await spread(cluster)
        await transactor.begin(client)
        await transactor.transact(client)
        await transactor.write(client)
        coordinator = await coordinator_of(cluster, client, transactor)
        places = [("orders", 0), ("orders", 1), ("payments", 0)]
        leads = {place for place in places if await client.leader(*place) == coordinator.node_id}
        parts = coordinator.server.transactions.coordinator
        assert parts is not None
        parts.markers.close()  # no marker reaches its partition from here on
        await transactor.end(client)
        await cluster.kill(coordinator)
        # The new coordinator has completed the group's part; the markers for the dead leader's partition are
        # pending.
        assert await stable_offset(client, transactor.group) == 2
        assert len(leads) == 1
        await cluster.start(coordinator.node_id, **PROPERTIES)
        transactor.promises.settle(await transactor.look(client))
        assert transactor.promises.committed == {1, 2}
        await transactor.transact(client)
        transactor.promises.settle(await transactor.look(client))


async def test_a_second_producer_of_an_id_ends_what_the_first_has_open_and_fences_it(tmp_path: Path) -> None:
    async with daemons_with((), tmp_path, 3, **PROPERTIES) as cluster:
        zombie, client = await spread(cluster)
        await zombie.begin(client)
        await zombie.write(client)
        heir = Transactor(zombie.transactional_id)
        heir.number = zombie.number
        await heir.begin(client)
        fenced = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}
        assert await zombie.ask_end(client) in fenced
        with pytest.raises(AssertionError) as refused:
            await zombie.write(client)
        assert refused.value.args[0] in fenced
        await heir.transact(client)
        found = await heir.look(client)
        heir.promises.settle(found)
        assert heir.promises.committed == {heir.number}


async def test_the_coordinator_lists_and_describes_and_others_do_not(tmp_path: Path) -> None:
    async with daemons_with((), tmp_path, 3, **PROPERTIES) as cluster:
        transactor, client = await spread(cluster)
        await transactor.begin(client)
        await transactor.write(client)
        coordinator = await coordinator_of(cluster, client, transactor)
        for daemon in cluster.by_id.values():
            listed = await daemon.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 1)
            ids = [each.transactional_id for each in listed.transaction_states]
            asked = DescribeTransactionsRequest(transactional_ids=[transactor.transactional_id])
            [described] = (await daemon.ask(asked, 0)).transaction_states
            if daemon is coordinator:
                assert ids == [transactor.transactional_id]
                assert described.transaction_state == "Ongoing"
                assert {topic.topic for topic in described.topics} >= {"orders", "payments"}
            else:
                assert ids == []
                assert described.error_code == ErrorCode.NOT_COORDINATOR
        await transactor.end(client)


async def test_a_partition_that_is_gone_keeps_no_transaction_open(tmp_path: Path) -> None:
    async with daemons_with((), tmp_path, 3, **PROPERTIES) as cluster:
        transactor, client = await spread(cluster)
        await transactor.begin(client)
        await transactor.write(client)
        coordinator = await coordinator_of(cluster, client, transactor)
        gone = DeleteTopicsRequest(topic_names=["payments"], timeout_ms=5000)
        [answer] = (await coordinator.ask(gone, 3)).responses
        assert answer.error_code == ErrorCode.NONE
        await transactor.end(client)

        async def is_complete() -> ErrorCode:
            asked = DescribeTransactionsRequest(transactional_ids=[transactor.transactional_id])
            [described] = (await coordinator.ask(asked, 0)).transaction_states
            is_over = described.transaction_state == "CompleteCommit"
            return ErrorCode.NONE if is_over else ErrorCode.CONCURRENT_TRANSACTIONS

        await until_answered(is_complete)


async def test_a_marker_is_taken_by_the_leader_alone() -> None:
    async with daemons_with(TOPICS, None, 2, **PROPERTIES) as cluster:
        client = Routed(cluster)
        leader = await client.leader("orders", 0)
        topic = WritableTxnMarkerTopic(name="orders", partition_indexes=[0])
        marker = WritableTxnMarker(
            producer_id=1, producer_epoch=0, transaction_result=True, topics=[topic], coordinator_epoch=0
        )
        for daemon in cluster.by_id.values():
            answer = await daemon.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
            code = answer.markers[0].topics[0].partitions[0].error_code
            is_leader = daemon.node_id == leader
            assert code == (ErrorCode.NONE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_the_topic_of_transactions_is_there_for_nobody_until_somebody_needs_it() -> None:
    async with daemons_with(TOPICS, None, 2, **PROPERTIES) as cluster:
        first, second = cluster.by_id.values()
        assert not any(
            each.server.data_plane.catalogue.find_topic(TRANSACTION_STATE) for each in (first, second)
        )
        client = Routed(cluster)
        await client.coordinator("t", TRANSACTION)
        await eventually(lambda: first.transactions | second.transactions == {0, 1, 2})
        assert not first.transactions & second.transactions
        ids = {each.server.transactions.logs.topic_id for each in (first, second)}
        assert len(ids) == 1
        third = await cluster.start(3, **PROPERTIES | {"transaction.state.log.num.partitions": "7"})
        assert third.server.transactions.partitions == 3
        parts = third.server.transactions.coordinator
        assert parts is not None
        await eventually(lambda: len(third.transactions) == 1)
        assert all(part.state is not PartitionState.FAILED for part in parts.runtime.partitions)
