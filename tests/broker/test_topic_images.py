"""What groups know of topics, through every change of these."""

from pathlib import Path

from coordinator.broker.server import Server
from coordinator.core.outcome import Context
from coordinator.core.time_budget import run_in_one_step
from coordinator.group.topics_image import TopicImage, TopicsImage
from coordinator.topics.long_work import IN_ONE_STEP
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from tests.apis.test_consumer_groups import joining
from tests.broker.harness import Client, begin_producer, serving
from tests.broker.test_group_partitions import ONE_PARTITION, active, code, commit, committed

DELETE = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
ORDERS = CreatableTopic(name="orders", num_partitions=5, replication_factor=1, assignments=[], configs=[])
CREATE = CreateTopicsRequest(topics=[ORDERS], timeout_ms=1000)
GROW = CreatePartitionsRequest(
    topics=[CreatePartitionsTopic(name="orders", count=7)], timeout_ms=1000, validate_only=False
)


def known(server: Server) -> dict[str, int]:
    """Partition counts of the topics that the groups know; all partitions of the groups share an image."""
    shards = [partition.machine for partition in server.runtime.partitions]
    images = [shard.topics for shard in shards if shard is not None]
    assert len(images) == len(shards)
    assert all(image is images[0] for image in images)
    return {name: topic.partitions for name, topic in images[0].by_name.items()}


async def test_groups_know_the_topics_after_every_change_and_after_a_load() -> None:
    async with serving() as server, Client(server) as client:
        assert known(server) == {"__consumer_offsets": 3, "orders": 3}
        await client.call(DELETE, 3)
        assert known(server) == {"__consumer_offsets": 3}
        await client.call(CREATE, 5)
        assert known(server)["orders"] == 5
        await client.call(GROW, 2)
        assert known(server)["orders"] == 7
        for partition in server.runtime.partitions:
            server.runtime.lifecycle.reload_partition(partition)
        await active(server)
        assert known(server)["orders"] == 7


async def test_a_member_gets_the_partitions_of_the_topic_of_transactions_once_that_is_made() -> None:
    two = {"transaction.state.log.num.partitions": "2"}
    async with serving(None, two) as server, Client(server) as client:
        epoch = (await client.call(joining(topic="__transaction_state"), 1)).member_epoch
        await begin_producer(client, "copier")
        beat = ConsumerGroupHeartbeatRequest(group_id="billing", member_id="m", member_epoch=epoch)
        assigned = (await client.call(beat, 1)).assignment
        assert assigned is not None
        assert [sorted(topic.partitions) for topic in assigned.topic_partitions] == [[0, 1]]


async def test_offsets_of_a_topic_that_is_deleted_while_its_groups_are_read_go() -> None:
    async with serving(None, ONE_PARTITION) as server, Client(server) as client:
        assert code(await client.call(commit(5), 2)) == ErrorCode.NONE
        (partition,) = server.runtime.partitions
        server.runtime.lifecycle.reload_partition(partition)
        for request, version in ((DELETE, 3), (CREATE, 5)):
            # As a connection hands it in, but at once: the groups are still being read.
            context = Context(0, version, "client", "/127.0.0.1")
            answer = server.data_plane.handle(request, context, server.arrival.now)
            server.topic_changes.publish_changes(answer.changes)
        assert partition.machine is None
        await active(server)
        assert await committed(client) == -1
        assert known(server)["orders"] == 5


async def test_offsets_of_a_topic_that_is_gone_at_a_start_stay(tmp_path: Path) -> None:
    async with serving(tmp_path, ONE_PARTITION) as server, Client(server) as client:
        assert code(await client.call(commit(5), 2)) == ErrorCode.NONE
        catalogue = server.data_plane.catalogue
        topic = catalogue.find_topic("orders")
        assert topic is not None
        run_in_one_step(catalogue.delete_topics(IN_ONE_STEP, [topic]))
    async with serving(tmp_path, ONE_PARTITION, topics=()) as server, Client(server) as client:
        assert await committed(client) == 5


def test_a_topic_is_gone_where_another_one_has_its_name() -> None:
    def image(**ids: int) -> TopicsImage:
        return TopicsImage(TopicImage(name, bytes([number]) * 16, 1) for name, number in ids.items())

    before = image(kept=1, deleted=2, replaced=3)
    assert before.find_deleted(image(kept=1, replaced=4, created=5)) == ("deleted", "replaced")
    assert before.find_deleted(before) == ()
