"""Three daemons of a cluster: the responding daemon, the state after a daemon stops, and stale daemons."""

import asyncio
import errno
from collections.abc import Mapping
from typing import Any

import pytest

from coordinator.apis.group_handlers import GroupPartition
from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import Delete, Put, StoreTransaction, TransactionResult
from coordinator.cluster.member.cluster_member import OwnershipCause
from coordinator.cluster.partition_appends import PartitionId
from coordinator.core import clock
from coordinator.core.interceptors import InterceptorRank
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.runtime.producer_batch import AppendTarget
from coordinator.runtime.runtime import Append
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, daemons, eventually

NODES = {1, 2, 3}
NEXT = CreatableTopic(name="next", num_partitions=1, replication_factor=1, assignments=[], configs=[])


async def test_each_partition_has_one_owner_and_everybody_names_it() -> None:
    async with daemons(None, 3) as cluster:
        owner = await cluster.owner()
        owned = [each.owned for each in cluster.by_id.values()]
        assert sorted(number for some in owned for number in some) == [0, 1, 2]
        for daemon in cluster.by_id.values():
            await eventually(lambda daemon=daemon: len(daemon.server.membership.ownership.brokers) == 3)  # type: ignore[misc]
            assert await daemon.coordinator() == owner.node_id
            answer = await daemon.ask(MetadataRequest(topics=None), 9)
            assert {broker.node_id for broker in answer.brokers} == NODES
            [orders] = [topic for topic in answer.topics if topic.name == "orders"]
            assert {part.leader_id for part in orders.partitions} <= NODES
            expected = ErrorCode.NONE if daemon is owner else ErrorCode.NOT_COORDINATOR
            assert await daemon.commit(7) == expected
        assert await owner.committed() == 7


async def test_a_killed_owner_is_taken_over_with_all_that_it_acknowledged() -> None:
    async with daemons(None, 3) as cluster:
        owner = await cluster.owner()
        for offset in range(20):
            assert await owner.commit(offset) == ErrorCode.NONE
        await cluster.kill(owner)
        heir = await cluster.owner()
        assert heir is not owner
        partition = heir.server.runtime.find_partition("g")
        await eventually(lambda: partition.state is PartitionState.OWNED)
        assert await heir.committed() == 19
        assert await heir.commit(20) == ErrorCode.NONE
        assert partition.log is not None
        assert partition.log.leader_epochs.current > 1


async def test_an_owner_that_is_cut_off_answers_nothing_and_then_lets_go() -> None:
    session = {"broker.session.timeout.ms": "4000"}
    async with daemons(None, 2, **session) as cluster:
        owner = await cluster.owner()
        assert await owner.commit(1) == ErrorCode.NONE
        owner.engine.is_cut = True
        asked = asyncio.create_task(owner.committed())
        del cluster.by_id[owner.node_id]
        heir = await cluster.owner()
        assert await heir.commit(2) == ErrorCode.NONE
        # It has never said 1 since then.
        assert await asked == ErrorCode.NOT_COORDINATOR
        assert await owner.committed() == ErrorCode.NOT_COORDINATOR
        cluster.by_id[owner.node_id] = owner
        owner.engine.is_cut = False
        again = await cluster.owner()
        assert await again.committed() == 2


async def test_one_that_stops_in_order_hands_over_at_once() -> None:
    async with daemons(None, 2) as cluster:
        owner = await cluster.owner()
        assert await owner.commit(5) == ErrorCode.NONE
        del cluster.by_id[owner.node_id]
        await owner.server.close()
        heir = await cluster.owner()
        assert await heir.committed() == 5
        back = await cluster.start(owner.node_id)
        await eventually(lambda: bool(back.owned))


async def test_a_partition_moves_where_somebody_wants_it() -> None:
    async with daemons(None, 2) as cluster:
        owner = await cluster.owner()
        [other] = [each for each in cluster.by_id.values() if each is not owner]
        assert await owner.commit(5) == ErrorCode.NONE
        name = owner.server.runtime.find_partition("g").name
        assert other.server.membership.move_partition(name, other.node_id)
        await eventually(lambda: name.partition in other.owned)
        await eventually(lambda: other.server.runtime.find_partition("g").state is PartitionState.OWNED)
        assert await other.committed() == 5
        assert await owner.commit(6) == ErrorCode.NOT_COORDINATOR


async def test_a_machine_that_contradicts_itself_is_loaded_anew_under_a_new_token() -> None:
    async with daemons(None, 1) as cluster:
        owner = await cluster.owner()
        assert await owner.commit(5) == ErrorCode.NONE
        partition = owner.server.runtime.find_partition("g")
        assert partition.log is not None
        assert partition.log.durability.replication_queue is not None
        token = partition.log.durability.replication_queue.ownership_token
        owner.server.runtime.on_internal_error(partition, RuntimeError("a test"))
        await eventually(lambda: partition.state is PartitionState.OWNED)
        assert partition.log.durability.replication_queue.ownership_token > token
        assert await owner.committed() == 5


async def test_what_is_appended_late_is_acknowledged_later() -> None:
    async with daemons(None, 1) as cluster:
        owner = await cluster.owner()
        assert await owner.commit(5) == ErrorCode.NONE
        runtime = owner.server.runtime
        is_asked = asyncio.Event()

        def late(_: GroupPartition, __: AppendTarget, ___: int) -> bool:
            is_asked.set()
            return False

        def intercept(_: Append[GroupShard]) -> Append[GroupShard]:
            return late

        runtime.append_interceptors.add(InterceptorRank.FAULTS, intercept)
        committing = asyncio.create_task(owner.commit(6))
        await is_asked.wait()
        _, pending = await asyncio.wait([committing], timeout=0.2)
        assert pending, "it was acknowledged before anybody had it"
        runtime.append_interceptors.remove(intercept)
        runtime.schedule_append(runtime.find_partition("g"))
        assert await committing == ErrorCode.NONE
        await cluster.kill(owner)
        assert await (await cluster.start(2)).committed() == 6


async def test_a_second_daemon_with_one_node_id_waits_until_the_first_is_gone() -> None:
    session = {"broker.session.timeout.ms": "10000"}
    async with daemons(None, 1, **session) as cluster:
        first = await cluster.owner()
        assert await first.commit(5) == ErrorCode.NONE
        starting = asyncio.create_task(cluster.start(1, directory="other", **session))
        _, pending = await asyncio.wait([starting], timeout=0.5)
        assert pending
        assert await first.commit(6) == ErrorCode.NONE
        await cluster.kill(first)
        second = await starting
        assert (await cluster.owner()) is second
        assert await second.committed() == 6


async def test_a_topic_that_is_deleted_while_another_takes_it_up_stays_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with daemons(None, 2) as cluster:
        first, second = cluster.by_id.values()
        keys = second.cluster.catalogue.keys
        write, is_made, written = keys.write_document, asyncio.Event(), asyncio.Event()

        async def late(document: Mapping[str, Any]) -> None:
            if not written.is_set() and "new" in [topic["name"] for topic in document["topics"]]:
                await is_made.wait()
                asked = DeleteTopicsRequest(topic_names=["new"], timeout_ms=5000)
                assert not (await first.ask(asked, 5)).responses[0].error_code
                await eventually(lambda: "new" not in keys.topics)
                written.set()
            await write(document)

        monkeypatch.setattr(keys, "write_document", late)
        wanted = [
            CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        ]
        made = await first.ask(CreateTopicsRequest(topics=wanted, timeout_ms=5000), 5)
        assert made.topics[0].error_code == ErrorCode.NONE
        is_made.set()
        await written.wait()
        # What is made next is taken up after that.
        assert (
            not (await first.ask(CreateTopicsRequest(topics=[NEXT], timeout_ms=5000), 5)).topics[0].error_code
        )
        await eventually(lambda: second.server.data_plane.catalogue.find_topic("next") is not None)
        for daemon in (first, second):
            catalogue = daemon.server.data_plane.catalogue
            await eventually(lambda catalogue=catalogue: catalogue.find_topic("new") is None)  # type: ignore[misc]
        assert "new" not in first.cluster.catalogue.keys.topics
        assert ClusterKeys(CLUSTER_ID).topic("new") not in cluster.store.map.entries


async def test_a_broker_whose_disk_is_full_deletes_no_topic_that_it_could_not_take_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with daemons(None, 2) as cluster:
        first, second = cluster.by_id.values()
        directory, refusals = second.server.directory, []
        write = directory.write_catalogue

        def refusing(document: Mapping[str, Any]) -> None:
            if "new" in [topic["name"] for topic in document["topics"]]:
                refusals.append(document)
                raise OSError(errno.ENOSPC, "no space")
            write(document)

        monkeypatch.setattr(directory, "write_catalogue", refusing)
        new = CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        made = await first.ask(CreateTopicsRequest(topics=[new], timeout_ms=5000), 5)
        assert made.topics[0].error_code == ErrorCode.NONE
        await eventually(lambda: bool(refusals))
        made = await second.ask(CreateTopicsRequest(topics=[NEXT], timeout_ms=5000), 5)
        assert made.topics[0].error_code == ErrorCode.NONE
        assert ClusterKeys(CLUSTER_ID).topic("new") in cluster.store.map.entries
        monkeypatch.undo()
        await eventually(lambda: second.server.data_plane.catalogue.find_topic("new") is not None)
        assert first.server.data_plane.catalogue.find_topic("new") is not None


async def test_topics_are_everybodys() -> None:
    async with daemons(None, 2) as cluster:
        first, second = cluster.by_id.values()
        wanted = [
            CreatableTopic(name="new", num_partitions=4, replication_factor=1, assignments=[], configs=[])
        ]
        answer = await first.ask(CreateTopicsRequest(topics=wanted, timeout_ms=5000), 5)
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE]
        catalogue = second.server.data_plane.catalogue
        await eventually(lambda: catalogue.find_topic("new") is not None)
        made = catalogue.find_topic("new")
        assert made is not None
        assert len(made.partitions) == 4
        again = await second.ask(CreateTopicsRequest(topics=wanted, timeout_ms=5000), 5)
        assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        metadata = [await each.ask(MetadataRequest(topics=None), 9) for each in (first, second)]
        leaders = [
            {part.partition_index: part.leader_id for part in topic.partitions}
            for one in metadata
            for topic in one.topics
            if topic.name == "new"
        ]
        assert leaders[0] == leaders[1]
        assert set(leaders[0].values()) == {1, 2}
        gone = await second.ask(DeleteTopicsRequest(topic_names=["new"], timeout_ms=5000), 3)
        assert gone.responses[0].error_code == ErrorCode.NONE
        await eventually(lambda: first.server.data_plane.catalogue.find_topic("new") is None)


async def test_no_two_daemons_give_out_one_producer_id() -> None:
    async with daemons(None, 2) as cluster:
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        ids = [(await each.ask(asked, 3)).producer_id for each in cluster.by_id.values() for _ in range(3)]
        assert len(set(ids)) == len(ids) == 6


async def test_what_cannot_be_let_go_of_in_order_keeps_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemons(None, 1) as cluster:
        owner = await cluster.owner()
        member = owner.cluster.member
        assert member is not None
        failed: list[PartitionId] = []
        lost = member._listener.on_partition_lost

        def fails_once(partition: PartitionId, cause: OwnershipCause) -> None:
            if not failed:
                failed.append(partition)
                raise RuntimeError("a test")
            lost(partition, cause)

        monkeypatch.setattr(member._listener, "on_partition_lost", fails_once)
        lease = member.keeper.session.lease
        cluster.store.do(lambda map_: map_.revoke(lease))
        member.keeper.session.deadline_ms = 0
        await eventually(lambda: member.keeper.session.is_live(clock.boot_ms()))
        assert len(failed) == 1
        assert member.keeper.session.lease != lease
        await eventually(lambda: {0, 1, 2} - {failed[0].number} <= owner.owned)


async def test_who_sees_late_that_another_owns_a_partition_does_not_claim_it_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with daemons(None, 2) as cluster:
        first, second = cluster.by_id.values()
        member = second.cluster.member
        assert member is not None
        claims: list[Put | Delete] = []
        transact = second.engine.transact
        owned = PartitionId(CONSUMER_OFFSETS, min(first.owned))
        key = ClusterKeys(CLUSTER_ID).owner(*owned)

        async def counted(transaction: StoreTransaction) -> TransactionResult:
            claims.extend(each for each in transaction.operations if each.key == key)
            return await transact(transaction)

        monkeypatch.setattr(second.engine, "transact", counted)
        second.engine.is_slow_to_see = True
        del member.table.owners[owned]
        member.table.pins[owned] = second.node_id
        member.schedule_reconcile()
        await eventually(lambda: bool(claims))
        await asyncio.sleep(0.5)  # a loop without pauses would have made hundreds of claims
        del member.table.pins[owned]
        second.engine.is_slow_to_see = False
        assert 0 < len(claims) < 10
        assert owned.number in first.owned
