"""Topics with replicas: their records are in the engine, and any live replica leads them."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.config.initial_topics import InitialTopic
from coordinator.topics import cluster_partition
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition
from tests.cluster.daemon.cluster_daemons import (
    CLUSTER_ID,
    Daemon,
    Daemons,
    daemons,
    daemons_with,
    eventually,
)
from tests.cluster.daemon.records import (
    TOPIC,
    batch,
    create,
    delete_before,
    leader,
    partition_of,
    produce_quietly,
    produced,
    read,
    write,
)

KEYS = ClusterKeys(CLUSTER_ID)


async def metadata(daemon: Daemon, name: str = TOPIC) -> list[MetadataResponsePartition]:
    """Return a daemon's Metadata of the partitions of a topic, in order."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    answer = await daemon.ask(request, 9)
    return sorted(answer.topics[0].partitions, key=lambda part: part.partition_index)


def left_in_engine(cluster: Daemons, name: str = TOPIC) -> list[bytes]:
    """Keys of the engine that are of a topic."""
    return [key for key in cluster.store.map.entries if f"/{name}".encode() in key]


async def test_everybody_names_the_leader_and_its_epoch() -> None:
    async with daemons(None, 3) as cluster:
        assert await create(cluster.by_id[1], partitions=3) == ErrorCode.NONE
        leaders = [(await leader(cluster, number)).node_id for number in range(3)]
        assert sorted(leaders) == [1, 2, 3]

        def is_told(daemon: Daemon) -> bool:
            owner = daemon.server.membership.ownership.find_owner
            parts = [partition_of(daemon, number) for number in range(3)]
            return all(part is not None and owner(part.name) for part in parts)

        for daemon in cluster.by_id.values():
            await eventually(lambda daemon=daemon: is_told(daemon))  # type: ignore[misc]
            parts = await metadata(daemon)
            assert [part.leader_id for part in parts] == leaders
            assert [part.replica_nodes[0] for part in parts] == leaders
            assert all(sorted(part.replica_nodes) == sorted(part.isr_nodes) == [1, 2, 3] for part in parts)
            assert {part.leader_epoch for part in parts} == {1}
            for number, node_id in enumerate(leaders):
                answer = await produced(daemon, batch(b"x"), number)
                is_leader = node_id == daemon.node_id
                expected = ErrorCode.NONE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
                assert answer.error_code == expected
                found = await read(daemon, number=number)
                assert found == ([b"x"] if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_producers_are_described_by_the_leader_alone() -> None:
    async with daemons(None, 2) as cluster:
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        leads = await leader(cluster)
        asked = DescribeProducersTopicRequest(name=TOPIC, partition_indexes=[0])
        for daemon in cluster.by_id.values():
            await eventually(lambda daemon=daemon: partition_of(daemon) is not None)  # type: ignore[misc]
            answer = await daemon.ask(DescribeProducersRequest(topics=[asked]), 0)
            expected = ErrorCode.NONE if daemon is leads else ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert answer.topics[0].partitions[0].error_code == expected


async def test_another_replica_leads_when_the_leader_is_killed_with_all_that_was_acknowledged() -> None:
    async with daemons(None, 3) as cluster:
        assert await create(cluster.by_id[1]) == ErrorCode.NONE
        first = await leader(cluster)
        values = [b"%d" % number for number in range(20)]
        await write(first, *values)
        await cluster.kill(first)
        second = await leader(cluster)
        assert second is not first
        assert await read(second) == values
        await write(second, b"more")
        [part] = await metadata(second)
        assert (part.leader_id, part.leader_epoch) == (second.node_id, 2)
        assert part.offline_replicas == [first.node_id]
        assert first.node_id not in part.isr_nodes
        # The partition moves back to its preferred leader.
        again = await cluster.start(first.node_id)
        await eventually(lambda: partition_of(again) is not None)
        await eventually(
            lambda: again.cluster.owned_partitions.topics.is_open(partition_of(again).name)  # type: ignore[union-attr]
        )
        assert await leader(cluster) is again
        assert await read(again) == [*values, b"more"]


async def test_a_producer_that_repeats_a_batch_at_the_next_leader_is_told_where_it_is() -> None:
    async with daemons(None, 2) as cluster:
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        first = await leader(cluster)
        for sequence in range(3):
            answer = await produced(first, batch(b"%d" % sequence, producer=(7, 0, sequence)))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, sequence)
        await cluster.kill(first)
        second = await leader(cluster)
        again = await produced(second, batch(b"2", producer=(7, 0, 2)))
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 2)
        hole = await produced(second, batch(b"4", producer=(7, 0, 4)))
        assert hole.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        await produced(second, batch(b"3", producer=(7, 0, 3)))
        assert await read(second) == [b"0", b"1", b"2", b"3"]


async def test_a_leader_that_is_cut_off_acknowledges_nothing() -> None:
    session = {"broker.session.timeout.ms": "4000"}
    async with daemons(None, 2, **session) as cluster:
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        first = await leader(cluster)
        await write(first, b"a")
        first.engine.is_cut = True
        asked = asyncio.create_task(produced(first, batch(b"lost")))
        del cluster.by_id[first.node_id]
        second = await leader(cluster)
        await write(second, b"b")
        assert (await asked).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await read(first) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await read(second) == [b"a", b"b"]
        cluster.by_id[first.node_id] = first
        first.engine.is_cut = False


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_at_every_level_of_acks_what_is_read_is_in_the_engine(acks: int) -> None:
    async with daemons(None, 2) as cluster:
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        first = await leader(cluster)
        if acks:
            assert (await produced(first, batch(b"x"), acks=acks)).error_code == ErrorCode.NONE
        else:
            await produce_quietly(first, batch(b"x"))
        part = partition_of(first)
        assert part is not None
        await eventually(lambda: part.high_watermark == 1)
        await cluster.kill(first)
        assert await read(await leader(cluster)) == [b"x"]


async def test_as_many_replicas_as_there_are_brokers() -> None:
    async with daemons(None, 2) as cluster:
        first = cluster.by_id[1]
        assert await create(first, factor=3) == ErrorCode.INVALID_REPLICATION_FACTOR
        refused = await create(first, assignments=[[1, 2], [2]])
        assert refused == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await create(first, assignments=[[1, 3]]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await create(first, assignments=[[2, 1], [1, 2]]) == ErrorCode.NONE
        assert (await leader(cluster, 0)).node_id == 2
        assert (await leader(cluster, 1)).node_id == 1


async def test_topics_that_leave_it_open_get_the_default(tmp_path: Path) -> None:
    async with daemons_with((), tmp_path, 2, **{"default.replication.factor": "2"}) as cluster:
        assert await create(cluster.by_id[1], factor=-1) == ErrorCode.NONE
        assert await create(cluster.by_id[1], name="one", factor=1) == ErrorCode.NONE
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
        await cluster.by_id[2].ask(asked, 9)
        daemon = cluster.by_id[1]
        for name, count in ((TOPIC, 2), ("auto", 2), ("one", 1)):
            await eventually(
                lambda name=name: daemon.server.data_plane.catalogue.find_topic(name) is not None  # type: ignore[misc]
            )
            [part, *_] = await metadata(daemon, name)
            assert len(part.replica_nodes) == count


async def test_a_declared_topic_waits_for_as_many_brokers_as_it_has_replicas(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        cluster = Daemons(tmp_path, stack, topics=())
        cluster.declares = [(TOPIC, 2)]
        for node_id in (1, 2):
            await cluster.start(node_id, **{"default.replication.factor": "2"})
        first = cluster.by_id[1]
        await eventually(lambda: partition_of(first) is not None)
        assert [len(part.replica_nodes) for part in await metadata(first)] == [2, 2]
        for daemon in cluster.by_id.values():
            await daemon.server.close()


async def test_an_initial_topic_is_created_by_the_first_daemon_with_enough_others() -> None:
    async with AsyncExitStack() as stack:
        cluster = Daemons(None, stack, topics=())
        cluster.initial_topics = [InitialTopic("KAFKA_CREATE_TOPICS", TOPIC, 2, 2, {"retention.ms": "60000"})]
        first = await cluster.start(1)
        assert first.server.data_plane.catalogue.find_topic(TOPIC) is None
        second = await cluster.start(2)
        for daemon in (first, second):
            await eventually(lambda daemon=daemon: partition_of(daemon) is not None)  # type: ignore[misc]
            assert [len(part.replica_nodes) for part in await metadata(daemon)] == [2, 2]
            topic = daemon.server.data_plane.catalogue.find_topic(TOPIC)
            assert topic is not None
            assert topic.overrides == {"retention.ms": "60000"}
        for daemon in cluster.by_id.values():
            await daemon.server.close()


async def test_a_topic_that_is_deleted_leaves_nothing_and_may_be_made_again() -> None:
    async with daemons(None, 2) as cluster:
        first, second = cluster.by_id.values()
        for value in (b"old", b"new"):
            assert await create(first, factor=2, partitions=2) == ErrorCode.NONE
            for number in range(2):
                await write(await leader(cluster, number), value, number=number)
            for number in range(2):
                assert await read(await leader(cluster, number), number=number) == [value]
            gone = await second.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=5000), 3)
            assert [topic.error_code for topic in gone.responses] == [ErrorCode.NONE]
            assert left_in_engine(cluster) == []
            for daemon in (first, second):
                await eventually(lambda daemon=daemon: partition_of(daemon) is None)  # type: ignore[misc]
                served = daemon.cluster.owned_partitions.topics
                await eventually(lambda served=served: not list(served.iterate_logs()))  # type: ignore[misc]
                is_changing = daemon.server.data_plane.catalogue.is_changing
                await eventually(lambda is_changing=is_changing: not is_changing(TOPIC))  # type: ignore[misc]
        assert left_in_engine(cluster) == []


async def test_a_topic_grows_and_its_new_partitions_have_as_many_replicas() -> None:
    async with daemons(None, 3) as cluster:
        first = cluster.by_id[1]
        assert await create(first, factor=2) == ErrorCode.NONE
        wanted = CreatePartitionsTopic(name=TOPIC, count=4, assignments=None)
        answer = await first.ask(
            CreatePartitionsRequest(topics=[wanted], timeout_ms=5000, validate_only=False), 3
        )
        assert answer.results[0].error_code == ErrorCode.NONE
        for number in range(4):
            await write(await leader(cluster, number), b"x", number=number)
        assert [len(part.replica_nodes) for part in await metadata(first)] == [2] * 4


async def test_records_that_were_deleted_stay_deleted_at_the_next_leader() -> None:
    async with daemons(None, 2) as cluster:
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        first = await leader(cluster)
        await write(first, *(b"%d" % number for number in range(10)))
        assert await delete_before(first, 7) == (ErrorCode.NONE, 7)
        await cluster.kill(first)
        second = await leader(cluster)
        assert await read(second) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await read(second, 7) == [b"7", b"8", b"9"]
        assert await delete_before(second, -1) == (ErrorCode.NONE, 10)
        await cluster.start(first.node_id)
        await cluster.kill(second)
        third = await leader(cluster)
        assert await read(third, 10) == []
        answer = await produced(third, batch(b"next"))
        assert answer.base_offset == 10


async def test_where_the_engine_cannot_be_asked_records_are_not_said_to_be_deleted() -> None:
    session = {"broker.session.timeout.ms": "4000"}
    async with daemons(None, 2, **session) as cluster:
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        first = await leader(cluster)
        await write(first, b"a", b"b")
        first.engine.is_cut = True
        code, _ = await delete_before(first, 1)
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        first.engine.is_cut = False


async def test_offsets_are_listed_as_the_engine_has_them() -> None:
    async with daemons(None, 2) as cluster:
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        first = await leader(cluster)
        await write(first, b"a", b"b", b"c")
        await cluster.kill(first)
        second = await leader(cluster)
        for timestamp, expected in ((-2, 0), (-1, 3)):
            part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            request = ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[part])]
            )
            answer = await second.ask(request, 5)
            assert answer.topics[0].partitions[0].offset == expected


async def test_what_is_too_large_for_the_engine_is_refused_and_costs_nothing() -> None:
    small = {"cluster.topics.max.bytes": "3000000"}
    async with daemons(None, 2, **small) as cluster:
        assert await create(cluster.by_id[1], factor=2, max_message_bytes="5000000") == ErrorCode.NONE
        first = await leader(cluster)
        log = partition_of(first)
        assert log is not None
        kept = log.log
        large = await produced(first, batch(b"x" * 2_000_000))
        assert large.error_code == ErrorCode.MESSAGE_TOO_LARGE
        for _ in range(2):
            assert (await produced(first, batch(b"x" * 1_300_000))).error_code == ErrorCode.NONE
        full = await produced(first, batch(b"x" * 1_300_000))
        assert full.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert log.log is kept
        assert await delete_before(first, 2) == (ErrorCode.NONE, 2)
        await write(first, b"small")


async def test_what_comes_faster_than_the_engine_takes_it_is_refused_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_partition, "MAX_WAITING_BYTES", 3000)
    async with daemons(None, 2) as cluster:
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        first = await leader(cluster)
        part = partition_of(first)
        assert part is not None
        assert part.log is not None
        first.engine.is_cut = True
        for _ in range(2):
            await produce_quietly(first, batch(b"x" * 1200))
        refused = await produced(first, batch(b"x" * 1200))
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert part.log.log_end_offset == 2
        first.engine.is_cut = False
        await eventually(lambda: part.high_watermark == 2)
        await write(first, b"x" * 1200)


async def test_a_topic_with_one_replica_stays_on_the_disk_of_its_leader() -> None:
    async with daemons(None, 2) as cluster:
        wanted = [
            CreatableTopic(name="one", num_partitions=2, replication_factor=1, assignments=[], configs=[])
        ]
        await cluster.by_id[1].ask(CreateTopicsRequest(topics=wanted, timeout_ms=5000), 5)
        await eventually(lambda: cluster.by_id[2].server.data_plane.catalogue.find_topic("one") is not None)
        parts = await metadata(cluster.by_id[2], "one")
        assert sorted(len(part.replica_nodes) for part in parts) == [1, 1]
        begin, end = KEYS.log_range("one", 0)
        assert not [key for key in cluster.store.map.entries if begin <= key < end]
